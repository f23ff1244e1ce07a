"""Lanes side by side, each through one point after the other; what is wrong with a point is kept, and the rest goes on."""
import collections
import time

from ledger import Wrong

HANG_S = 40             # a cycle takes about a second, and what stalls one 7
TRIES = 8               # of a point that was not reached: a conversation is never twice quite the same

Result = collections.namedtuple("Result", "mode point fired told seconds wrong")


class Run:
    """One cycle of one lane."""

    def __init__(self, lane, point, tries):
        self.lane, self.point, self.tries = lane, point, tries
        self.begun = time.monotonic()
        lane.talk.begin(point)
        self.steps = lane.cycle()

    def step(self):
        """None: it goes on; else its Result."""
        wrong, told = "", 0
        try:
            next(self.steps)
            if time.monotonic() - self.begun < HANG_S:
                return None
            wrong = f"hangs: {self.lane.queue}"
        except StopIteration:
            try:
                told = self.lane.queue.check()
            except Wrong as e:
                wrong = f"{e}"
        complaints = self.lane.complaints()
        if complaints and not wrong:
            wrong = f"it said: {complaints}"
        if wrong:
            wrong += "\n    " + "\n    ".join(self.lane.talk.shown())
        return Result(self.lane.mode, self.point, self.lane.talk.fired, told, time.monotonic() - self.begun, wrong)


def drive(lanes, points, say=lambda result, lane: None, until=None):
    """points: mode -> points, each gone through once on whatever lane of that mode is free; after `until` (time.monotonic()) no
    more are begun. A lane in which something hangs is given up. Returns the Results."""
    todo = {mode: collections.deque((p, 1) for p in ps) for mode, ps in points.items()}
    free, runs, results = [lane for lane in lanes if not lane.hangs], [], []
    while True:
        over = until is not None and time.monotonic() >= until
        for lane in [] if over else list(free):
            if todo.get(lane.mode):
                free.remove(lane)
                runs.append(Run(lane, *todo[lane.mode].popleft()))
        if not runs:
            return results
        for run in list(runs):
            result = run.step()
            if result is None:
                continue
            runs.remove(run)
            if run.point and not result.fired and not result.wrong and run.tries < TRIES:
                todo[result.mode].append((run.point, run.tries + 1))
            else:
                results.append(result)
                say(result, run.lane)
            run.lane.hangs = result.wrong.startswith("hangs")
            if not run.lane.hangs:
                run.lane.clear()
                free.append(run.lane)
        time.sleep(0.003)
