"""Every action of the pages: on a screen and on a telephone, without a supervisor, and in a console that only reads."""
import re

import pytest

from harness import ROOT, browser as browsers
from harness import queue, wait_for
from harness.dead_letters import CAUSE, fill
from harness.queues import Queue

from .actions import ACTIONS, dismiss, FAILED_TO_LOAD, go, press, stocks

pytestmark = pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())


def test_these_are_all_actions():
    text = (ROOT / "admin/web/routes.c").read_text()
    of_running = {"queue/message/cancel", "queue/operation/stop"}       # need something that runs: tests/web/test_pages.py, tests/web/test_dead_letters.py
    assert set(re.findall(r'(?:POST\(|true, (?:\.path = )?API )"(queue/\S+)"', text)) == {path for path, *_ in ACTIONS.values()} | of_running


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
    p = page()
    p.forgiven += ["504 (Gateway Time-out)"]        # a machine with other work may be slower than the console's patience; the page asks again
    p.open("/dead-letters/mail").sees("50 of 40,000 dead letters", ".tools", 60)
    p.sees(CAUSE, ".causes")
    assert p.count(".table-dead-letters tbody tr") == 50
    p.script("[...document.querySelectorAll('.causes a')].find(a => a.innerText.includes('no such user')).click()")
    p.sees("4,329 found", ".tools", 60)
    p.click("Delete these", ".marks")
    p.click("Delete 4,329…", "dialog")
    p.click("Delete 4,329 permanently", "dialog")
    wait_for(lambda: c.llen(q.escape) == 40000 - 4329, 120)
    p.sees("No matching dead letters", timeout=60)
    p.go("/dead-letters/mail")
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
    wait_for(lambda: r.exists("quredis:of:ingress:q499:paused"))
    p.go("/dead-letters")
    p.sees("q250")
