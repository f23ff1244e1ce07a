"""Every action of the pages: on a screen and on a telephone, without a supervisor, and in a console that only reads."""
import re

import pytest

from harness import ROOT, browser as browsers
from harness import queue, wait_for
from harness.letters import CAUSE, fill
from harness.queues import Queue, incarnation

pytestmark = pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())

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


LETTER_ROW, MESSAGE_ROW = ".table-letters tbody tr", "[class*=table-messages] tbody tr"

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
    "delete message": ("queue/message/rm", "/queue/{q}", MESSAGE_ROW, ["quredis/1 id=b\\nb", "Delete…", "Delete…", "Delete permanently"],
                       lambda s: s.sizes() == [2, 2, 1, 3]),
    "retry one": ("queue/dlq/retry", "/letters/{q}", LETTER_ROW, ["Retry {1}", "Retry 1"], lambda s: s.sizes() == [4, 2, 1, 2]),
    "delete one": ("queue/dlq/rm", "/letters/{q}", LETTER_ROW, ["Delete {1}", "Delete 1…", "Delete 1 permanently"], lambda s: s.sizes() == [3, 2, 1, 2]),
    "retry marked": ("queue/dlq/retry", "/letters/{q}", LETTER_ROW, ["select {0}", "select {2}", "Retry 2", "Retry 2"], lambda s: s.sizes() == [5, 2, 1, 1]),
    "delete marked": ("queue/dlq/rm", "/letters/{q}", LETTER_ROW, ["select {0}", "select {2}", "Delete 2", "Delete 2…", "Delete 2 permanently"],
                      lambda s: s.sizes() == [3, 2, 1, 1]),
    "retry all": ("queue/dlq/retry", "/letters/{q}", LETTER_ROW, ["Retry all", "Retry all 3"], lambda s: s.sizes() == [6, 2, 1, 0]),
    "delete all": ("queue/dlq/rm", "/letters/{q}", LETTER_ROW, ["Delete all", "Delete all 3…", "Delete all 3 permanently"],
                   lambda s: s.sizes() == [3, 2, 1, 0]),
    "retry record": ("queue/dlq/retry", "/letters/{q}/{1}", ".viewer", ["Retry", "Retry 1"], lambda s: s.sizes() == [4, 2, 1, 2]),
    "delete record": ("queue/dlq/rm", "/letters/{q}/{1}", ".viewer", ["Delete", "Delete 1…", "Delete 1 permanently"], lambda s: s.sizes() == [3, 2, 1, 2]),
}


def test_these_are_all_actions():
    text = (ROOT / "admin/web/routes.c").read_text()
    assert set(re.findall(r'(?:POST\(|true, API )"(queue/\S+)"', text)) == {path for path, *_ in ACTIONS.values()}


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


@pytest.mark.limit(300)
@pytest.mark.parametrize("width, height, is_phone", [(1280, 900, False), (390, 844, True)])
def test_each_action(page, redis, width, height, is_phone):
    made = stocks(redis.client())
    p = page()
    p.size(width, height, phone=is_phone)
    p.open()
    for name, stock in made.items():
        go(p, name, stock)
        press(p, name, stock)
        wait_for(lambda: ACTIONS[name][4](stock), what=f"the effect of {name}: {stock.sizes()}")
        dismiss(p)


@pytest.mark.limit(300)
def test_each_action_in_a_console_that_only_reads(page, redis):
    made = stocks(redis.client())
    p = page(web={"read_only": True}).open()
    p.forgiven += [FAILED_TO_LOAD]
    for name, stock in made.items():
        before = stock.sizes(), stock.is_paused()
        go(p, name, stock)
        press(p, name, stock)
        p.sees("this console is read-only", ".toasts")
        assert (stock.sizes(), stock.is_paused()) == before, name
        dismiss(p)


@pytest.mark.limit(300)
def test_each_action_without_a_supervisor(page, redis, quredisd):
    """The master is killed with all its workers. What is in Redis can be acted on; the page of workers says that the supervisor is silent."""
    d = quredisd(queues=[queue("served", "/bin/true")], health={"enabled": True, "interval": "1s"})
    made = stocks(redis.client())
    p = page(supervisor={"control_socket": str(d.dir / "c"), "node": d.tag}).open("/nodes")
    p.forgiven += [FAILED_TO_LOAD]
    wait_for(lambda: p.count(".table-workers tbody tr") > 0)
    d.kill_tree()
    p.sees("The supervisor of this host does not answer")
    for name, stock in made.items():
        go(p, name, stock)
        press(p, name, stock)
        wait_for(lambda: ACTIONS[name][4](stock), what=f"the effect of {name}: {stock.sizes()}")
        dismiss(p)
    p.go("/nodes")
    wait_for(lambda: "silent" in p.text(".table-nodes"), 60, "the word that nobody reports")
    d.start()
    p.go("/health")
    p.go("/nodes")
    wait_for(lambda: p.count(".table-workers tbody tr") > 0, 60)


# ---- many ----

@pytest.mark.limit(300)
def test_forty_thousand_dead_letters(page, redis):
    c = redis.client()
    q = Queue(c)
    _, wanted = fill(c, 40000)
    p = page().open("/letters/mail")
    p.sees("50 of 40,000 dead letters", ".tools", 60)
    p.sees(CAUSE, ".causes")
    assert p.count(".table-letters tbody tr") == 50
    p.script("[...document.querySelectorAll('.causes a')].find(a => a.innerText.includes('no such user')).click()")
    p.sees("4,329 found", ".tools", 60)
    p.click("Delete these", ".marks")
    p.click("Delete 4,329…", "dialog")
    p.click("Delete 4,329 permanently", "dialog")
    wait_for(lambda: c.llen(q.escape) == 40000 - 4329, 120)
    p.sees("No matching dead letters", timeout=60)
    p.go("/letters/mail")
    p.sees("50 of 35,671 dead letters", ".tools", 60)
    p.click("Retry all", ".marks")
    p.click("Retry all 35,671", "dialog")
    wait_for(lambda: (c.llen(q.escape), c.llen(q.ingress), c.xlen(q.log)) == (0, 35671, 0), 200)
    assert {*wanted} <= {m.split(b"\n")[-1] for m in c.lrange(q.ingress, 0, -1)}
    p.sees("No dead letters in mail", timeout=60)


@pytest.mark.limit(300)
@pytest.mark.parametrize("width, height, is_phone", [(1280, 900, False), (390, 844, True)])
def test_five_hundred_queues(page, redis, width, height, is_phone):
    r = redis.client()
    for i in range(500):
        Queue(r, f"q{i:03}")
        r.lpush(f"ingress:q{i:03}", *("m" for _ in range(1 + i % 7)))
    Queue(r, "q250").dead_letters(b"x")
    p = page()
    p.size(width, height, phone=is_phone)
    p.open()
    wait_for(lambda: p.count(".table-overview tbody tr") == 500, 60)
    assert p.script("return document.documentElement.scrollWidth") == width
    p.click("Dead letters", ".table-overview thead")
    wait_for(lambda: p.script("return document.querySelector('.table-overview tbody tr').dataset.key") == "q250")
    p.type("q49", ".tools input")
    wait_for(lambda: p.count(".table-overview tbody tr") == 10)
    p.script("const i = document.querySelector('.tools input'); i.value = ''; i.dispatchEvent(new Event('input'))")
    wait_for(lambda: p.count(".table-overview tbody tr") == 500)
    r.lpush("ingress:q499", *("n" for _ in range(9000)))
    p.click("Waiting", ".table-overview thead")
    wait_for(lambda: p.script("return document.querySelector('.table-overview tbody tr').dataset.key") == "q499", 60)
    assert p.script("const t = performance.now(); dispatchEvent(new Event('hashchange')); return performance.now() - t") < 2000
    p.go("/queue/q499")
    p.click("Pause")
    wait_for(lambda: r.exists("ingress:q499:paused"))
    p.go("/letters")
    p.sees("q250")
