"""What the sweeper does costs in proportion to the number of things that Redis holds, and no turn of it lasts a second.

Costs are the processor time of the sweeper and of Redis, so that other work on the machine does not count, and the number of commands.
"""
import json
import os
import time

import pytest

from harness import queue, wait_for
from harness.control import status
from harness.crowd import fill, grows_with

MANY, TIMES, TURN_MS = 10000, 12, 1000      # and a tenth of them
UNITS = "ms of the sweeper", "ms of Redis", "commands"
NOISE = 20      # from one start to the next, and commands of pulses


def cpu_ms(pid):
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e6


class Sweeper:
    """Its processor time, and the most of it that it used without a heartbeat."""

    def __init__(self, d):
        self.d, self.beat, self.since, self.longest = d, None, 0, 0
        self.pid = status(d)["sweeper"]["pid"]

    def look(self):
        seen = status(self.d)["sweeper"]
        assert seen and seen["pid"] == self.pid, "another sweeper"
        beat, used = time.monotonic() * 1000 - seen["heartbeat_age_ms"], cpu_ms(self.pid)
        if self.beat is None or abs(beat - self.beat) > 20:
            self.beat, self.since = beat, used
        self.longest = max(self.longest, used - self.since)
        return used


# ---- what ends the measurement ----

def calls(c, command):
    return c.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]


def ready(c, d, n):
    return True


def rescued(c, d, n):
    return sum("event=rescue_done" in line for line in d.lines) >= n


def refused(c, d, n):
    """Each rescue has failed twice."""
    return c.info("stats")["total_error_replies"] >= 2 * n


def forgotten(c, d, n):
    return c.hlen("transit:mail:workers") == 0


def returned(c, d, n):
    return c.llen("ingress:mail") == n


def looked(c, d, n):
    """The recovery has read the registrations, and then a look; and the sweeper has gone on to its next pulse."""
    if calls(c, "hgetall") < 2:
        return False
    pulses = calls(c, "pexpire")
    wait_for(lambda: calls(c, "pexpire") > pulses, 60)
    return True


def pushed(c, d, n):
    c.delete("ingress:mail")        # the sweeper fills it up to 100 messages
    return c.zcard("delayed:mail") == 0


def moved(c, d, n):
    c.delete("ingress:mail")        # as workers elsewhere take them: retries wait behind messages that wait
    return c.zcard("quredis:of:ingress:mail:delayed") == 0


def left(c, d, n):
    return c.llen("escape:mail") == 0 and c.xlen("escape:mail:log") == 0


def shortened(c, d, n):
    return c.llen("escape:mail") == 1


def escaped(c, d, n):
    return c.llen("escape:mail") == n and c.llen("ingress:mail") == 0


def forwarded(c, d, n):
    return c.llen("ingress:failures") == n


def trimmed(c, d, n):
    return c.xlen("quredis:of:ingress:mail:done") == 0


def pulsed(c, d, n):
    """A while, in which each task has its turns."""
    return calls(c, "pexpire") >= 6


# ---- the table ----

PURGE = {"purge": {"enabled": True, "interval": "1s", "max_orphaned_age": "1s", "max_done_age": "1h", "max_message_age": "1h"}}
ALL = {**PURGE, "health": {"enabled": True, "interval": "1s"}, "metrics": {"textfile": "@TMP@/quredis.prom", "interval": "1s"}}


def letters(**keys):
    return {"dead_letter": {"archive": "@TMP@/archive", **keys}}


# the test, what Redis holds, what ends it, and sections of the configuration. "OURS": the owners had our lock before
ROWS = {
    "owners_without_a_lease": ("silent", rescued, {}),
    "owners_of_dead_supervisors": ("silent OURS", rescued, {}),
    "owners_whose_rescue_fails": ("with_broken_trays OURS", refused, {}),
    "owners_that_died_long_ago": ("long_dead", forgotten, {}),
    "rescues_that_broke_off": ("broken_off", forgotten, {}),
    "owners_that_live": ("living", looked, {}),
    "names_of_one_worker": ("names_of_one", looked, {}),
    "owners_that_are_marked_dead": ("marked_dead", looked, {}),
    "messages_of_a_dead_owner": ("in_a_tray OURS", returned, {}),
    "messages_in_the_bare_list": ("in_the_bare_list", returned, {}),
    "messages_that_were_set_aside": ("set_aside", returned, {}),
    "retries": ("retries_due", moved, {}),
    "delayed_pushes": ("pushes_due", pushed, {}),
    "messages_that_expire": ("waiting", escaped, {"ttl": "1s"}),
    "dead_letters_that_are_archived": ("old_dead_letters", left, letters(ttl="1d")),
    "equal_dead_letters": ("equal_dead_letters", left, letters(ttl="1d")),
    "dead_letters_that_are_too_many": ("without_records", shortened, letters(max_entries=1)),
    "dead_letters_that_are_forwarded": ("dead_letters", forwarded, {"dead_letter": {"forward_to": "failures"}}),
    "records_without_a_dead_letter": ("records_alone", left, PURGE),
    "history": ("old_history", trimmed, PURGE),
    "what_stays": ("waiting living retries pushes payloads_apart dead_letters claimed operations history queues nodes healths",
                   pulsed, ALL),
}
# what would take long, since the disk or a pace bounds it
SLOW = {"delayed_pushes": 3000, "dead_letters_that_are_archived": 3000, "dead_letters_that_are_too_many": 3000}


def lock_of(d):
    """The identity of its lock, as its registrations have it; the file stays."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        boot = f.read().strip()
    file, space = os.stat(d.sections["supervisor"]["lock_file"]), os.stat("/proc/self/ns/pid")
    return f"{boot}:{file.st_dev:x}:{file.st_ino}:{space.st_ino}"


def cost(d, redis, things, n, over):
    """Of n of each thing from the start of the daemon until it is over: milliseconds of the sweeper and of Redis, commands."""
    c = redis.client()
    c.flushall()
    for thing in things.replace("OURS", "").split():
        fill(c, thing, n, lock_of(d) if "OURS" in things else "elsewhere:1:1")
    c.execute_command("CONFIG RESETSTAT")
    d.lines.clear()
    theirs = cpu_ms(redis.pid)
    d.start()
    sweeper = Sweeper(d)

    def is_over():
        sweeper.look()
        return over(c, d, n)
    wait_for(is_over, 120, f"{n} to be dealt with")
    used = (sweeper.look(), cpu_ms(redis.pid) - theirs, c.info("stats")["total_commands_processed"])
    assert sweeper.longest < TURN_MS and not d.events("worker_stuck")
    assert d.stop() == 0
    return used


def measure(d, redis, row, many):
    """What broke the rule, or nothing."""
    things, over, _ = ROWS[row]
    costs = [cost(d, redis, "", 0, ready), cost(d, redis, things, many // 10, over), cost(d, redis, things, many, over)]
    print(row, *[f"{what} {of_none:.0f} {of_few:.0f} {of_many:.0f}" for what, of_none, of_few, of_many in zip(UNITS, *costs)], sep="; ")
    return [what for what, base, few, many in zip(UNITS, *costs) if not grows_with(few - base, many - base, TIMES, NOISE)]


@pytest.mark.parametrize("row", ROWS)
def test_a_cost_grows_with_the_number_of(redis, quredisd, tmp, row):
    """Others on the machine make processors slower, so it is measured anew if it seems too much."""
    sections = json.loads(json.dumps(ROWS[row][2]).replace("@TMP@", str(tmp)))
    (tmp / "archive").mkdir()
    mail = {key: sections.pop(key) for key in ("ttl", "dead_letter") if key in sections}
    d = quredisd(queues=[queue("mail", "/bin/cat", workers=0, **mail), queue("failures", "/bin/cat", workers=0)],
                 supervisor={"lease": "3s"}, log={"level": "info"}, **sections)
    assert d.stop() == 0
    many = SLOW.get(row, MANY)
    assert not measure(d, redis, row, many) or not measure(d, redis, row, many) or not measure(d, redis, row, many)
