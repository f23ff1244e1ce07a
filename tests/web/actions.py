"""Every action of the pages: where it is, what is pressed, and what is true afterwards."""
from harness import wait_for
from harness.queues import Queue, incarnation

FAILED_TO_LOAD = "Failed to load resource"


class Stock(Queue):
    """A queue with three messages in ingress, two that are delayed, one of a dead worker, and three dead letters."""

    def __init__(self, client, name):
        super().__init__(client, name)
        client.lpush(self.ingress, *(f"quredis/1 id={n}\n{n}" for n in "abc"))
        client.zadd(self.delayed, {"late": 9e15, "later": 9.1e15})
        self.worker(incarnation(1), alive=False, t0=[b"lost"])
        self.ids = self.dead_letters(b"x", b"y", b"z")

    def sizes(self):
        """Of ingress, delayed, in flight and escape."""
        c = self.client
        return [c.llen(self.ingress), c.zcard(self.delayed), c.llen(f"{self.transit}:{incarnation(1)}:0"), c.llen(self.escape)]

    def is_paused(self):
        return bool(self.client.exists(self.paused))


DEAD_LETTER_ROW, MESSAGE_ROW = ".table-dead-letters tbody tr", "[class*=table-messages] tbody tr"

# name: (path of the API, address, what has to be there, what is pressed one after the other, what is true afterwards). Names in braces are ids.
ACTIONS = {
    "pause": ("queue/pause", "/queue/{q}", MESSAGE_ROW, ["Pause"], lambda s: s.is_paused()),
    "resume": ("queue/resume", "/queue/{q}", MESSAGE_ROW, ["Resume"], lambda s: not s.is_paused()),
    "retry delayed": ("queue/retry", "/queue/{q}/delayed", MESSAGE_ROW, ["Retry all", "Retry 2"], lambda s: s.sizes() == [5, 0, 1, 3]),
    "retry transit": ("queue/retry", "/queue/{q}/transit", MESSAGE_ROW, ["Retry all", "Retry 1"], lambda s: s.sizes() == [4, 2, 0, 3]),
    "retry escape": ("queue/retry", "/queue/{q}/escape", MESSAGE_ROW, ["Retry all", "Retry 3"], lambda s: s.sizes() == [6, 2, 1, 0]),
    "purge ingress": ("queue/purge", "/queue/{q}", MESSAGE_ROW, ["Delete all", "Delete 3…", "Delete 3 permanently"], lambda s: s.sizes() == [0, 2, 1, 3]),
    "purge delayed": ("queue/purge", "/queue/{q}/delayed", MESSAGE_ROW, ["Delete all", "Delete 2…", "Delete 2 permanently"],
                      lambda s: s.sizes() == [3, 0, 1, 3]),
    "purge transit": ("queue/purge", "/queue/{q}/transit", MESSAGE_ROW, ["Delete all", "Delete 1…", "Delete 1 permanently"],
                      lambda s: s.sizes() == [3, 2, 0, 3]),
    "purge escape": ("queue/purge", "/queue/{q}/escape", MESSAGE_ROW, ["Delete all", "Delete 3…", "Delete 3 permanently"], lambda s: s.sizes() == [3, 2, 1, 0]),
    "run next": ("queue/message/retry", "/queue/{q}/delayed", MESSAGE_ROW, ["later", "Run next…", "Run next"], lambda s: s.sizes() == [4, 1, 1, 3]),
    "delete message": ("queue/message/rm", "/queue/{q}", MESSAGE_ROW, ["b", "Delete…", "Delete…", "Delete permanently"],
                       lambda s: s.sizes() == [2, 2, 1, 3]),
    "retry one": ("queue/dlq/retry", "/dead-letters/{q}", DEAD_LETTER_ROW, ["Retry {1}", "Retry 1"], lambda s: s.sizes() == [4, 2, 1, 2]),
    "delete one": ("queue/dlq/rm", "/dead-letters/{q}", DEAD_LETTER_ROW, ["Delete {1}", "Delete 1…", "Delete 1 permanently"],
                   lambda s: s.sizes() == [3, 2, 1, 2]),
    "retry marked": ("queue/dlq/retry", "/dead-letters/{q}", DEAD_LETTER_ROW, ["select {0}", "select {2}", "Retry 2", "Retry 2"],
                     lambda s: s.sizes() == [5, 2, 1, 1]),
    "delete marked": ("queue/dlq/rm", "/dead-letters/{q}", DEAD_LETTER_ROW, ["select {0}", "select {2}", "Delete 2", "Delete 2…", "Delete 2 permanently"],
                      lambda s: s.sizes() == [3, 2, 1, 1]),
    "retry all": ("queue/dlq/retry", "/dead-letters/{q}", DEAD_LETTER_ROW, ["Retry all", "Retry all 3"], lambda s: s.sizes() == [6, 2, 1, 0]),
    "delete all": ("queue/dlq/rm", "/dead-letters/{q}", DEAD_LETTER_ROW, ["Delete all", "Delete all 3…", "Delete all 3 permanently"],
                   lambda s: s.sizes() == [3, 2, 1, 0]),
    "retry record": ("queue/dlq/retry", "/dead-letters/{q}/{1}", ".viewer", ["Retry", "Retry 1"], lambda s: s.sizes() == [4, 2, 1, 2]),
    "delete record": ("queue/dlq/rm", "/dead-letters/{q}/{1}", ".viewer", ["Delete", "Delete 1…", "Delete 1 permanently"], lambda s: s.sizes() == [3, 2, 1, 2]),
}


def stocks(client):
    made = {name: Stock(client, name.replace(" ", "-")) for name in ACTIONS}
    client.set(made["resume"].paused, "1")
    return made


def named(text, stock):
    for i, record in enumerate(stock.ids):
        text = text.replace(f"{{{i}}}", record)
    return text.replace("{q}", stock.name)


def go(p, name, stock):
    """Opens the page of an action, and waits until it can be pressed."""
    _, route, there, *_ = ACTIONS[name]
    p.go(named(route, stock))
    wait_for(lambda: p.count(there) > 0 and stock.name in p.text() + p.script("return location.hash"), what=f"the page of {name}")
    p.sees(stock.name if there != ".viewer" else "HandlerExit")


def press(p, name, stock):
    """Presses all that belongs to an action, or until the page reports a failure."""
    before = "select"
    for step in ACTIONS[name][3]:
        is_first = before.startswith("select")          # the first that is no selection opens a dialog
        before = step
        if not is_first:
            wait_for(lambda: p.count(".toast-bad") or p.count("dialog[open]"), what=f"a dialog or an error after {name}")
        if p.count(".toast-bad"):
            return
        p.click(named(step, stock), "main" if is_first else "dialog:last-of-type")
        wait_for(lambda: p.script("return document.querySelectorAll('dialog:not([open])').length") == 0)


def dismiss(p):
    p.script("for (const close of document.querySelectorAll('.toast .close')) close.click(); for (const d of document.querySelectorAll('dialog')) d.close('')")
