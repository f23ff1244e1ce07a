"""The pages while Redis is down, hangs, or has come back with other data: they say so, no action claims what did not happen, and they recover by themselves."""
import signal

import pytest

from harness import browser as browsers
from harness import wait_for
from harness.console import Stream
from harness.queues import Queue

from .actions import ACTIONS, dismiss, FAILED_TO_LOAD, go, press, Stock, stocks

pytestmark = pytest.mark.skipif(browsers.why_not() != "", reason=browsers.why_not())

DOWN, BACK = "Redis has not answered for", ""
SIZES = pytest.mark.parametrize("width, height, is_phone", [(1280, 900, False), (390, 844, True)])


@pytest.fixture
def server(redis_server):
    return redis_server(aof="always")


@pytest.fixture
def opened(page, server):
    """opened(route): a page over a Redis that the test stops."""
    def make(route="/", size=(1280, 900, False)):
        p = page(server)
        p.forgiven += [FAILED_TO_LOAD]
        p.size(*size[:2], phone=size[2])
        return p.open(route)
    return make


def is_back(p):
    wait_for(lambda: p.text("#away") == BACK and p.text("#link") == "live", 60, "the page to be live again")


def figures(stock):
    return stock.sizes(), stock.is_paused()


@pytest.mark.limit(400)
@SIZES
def test_each_action(opened, server, width, height, is_phone):
    made = stocks(server.client())
    p = opened(size=(width, height, is_phone))
    places = {(route, there): name for name, (_, route, there, *_) in ACTIONS.items()}
    names = places.values() if is_phone else ACTIONS        # what an action claims does not depend on the size: there one of each page
    assert len(names) > 5
    for name in names:
        stock = made[name]
        go(p, name, stock)
        before = figures(stock)
        server.stop()
        p.sees(DOWN, "#away")
        assert stock.name in p.text() or stock.name in p.script("return location.hash"), name      # the last known data
        press(p, name, stock)
        p.sees("The action failed: Redis: ", ".toast-bad")
        assert p.count(".toast") == p.count(".toast-bad") == 1, name
        server.start()
        is_back(p)
        assert figures(stock) == before, name
        dismiss(p)
        if p.count("tr.marked"):
            p.click("Clear selection", ".marks")
        press(p, name, stock)
        wait_for(lambda: ACTIONS[name][4](stock), what=f"the effect of {name}: {stock.sizes()}")
        wait_for(lambda: p.count(".toast-ok:not(.working)"), what=f"the report of {name}")
        dismiss(p)
    for name in names:
        assert ACTIONS[name][4](made[name]), name


def test_an_action_while_redis_hangs(opened, server):
    """The user sees at once that the answer takes long, then that there is none. Redis got no request yet, so the action has failed for sure."""
    stock = Stock(server.client(), "mail")
    p = opened("/queue/mail")
    p.sees("3", ".figures")
    server.signal(signal.SIGSTOP)
    p.click("Pause")
    p.sees("Waiting for the answer", ".toasts")
    p.sees("The action failed: Redis: ", ".toasts", 60)
    assert p.count(".toast-wait") == 0
    p.sees(DOWN, "#away", 60)
    server.signal(signal.SIGCONT)
    is_back(p)
    p.click("Pause")
    wait_for(stock.is_paused)


def test_an_action_that_redis_did_and_whose_answer_is_lost(page, server, redis_proxy):
    stock, proxy = Stock(server.client(), "mail"), redis_proxy(server)
    p = page(proxy)
    p.forgiven += [FAILED_TO_LOAD]
    p.open("/queue/mail")
    p.sees("Pause")
    proxy.lose_reply(b'"since":')
    p.click("Pause")
    p.sees("The action may have failed: Redis: ", ".toast-bad")
    p.sees("Check whether it took effect", ".toast-bad")
    assert stock.is_paused()


def test_an_action_whose_answer_is_lost(opened, server):
    Stock(server.client(), "mail")
    p = opened("/queue/mail")
    p.forgiven += ["ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_REFUSED"]
    p.sees("Pause")
    p.console.stop()
    p.click("Pause")
    p.sees("The action may have failed: the console does not answer. Check whether it took effect", ".toast-bad")


@pytest.mark.limit(200)
@pytest.mark.parametrize("width, height, is_phone", [(1280, 700, False), (390, 600, True)])
def test_the_end_of_a_long_page_says_it_too(opened, server, width, height, is_phone):
    """Its title and its buttons are far away; the state of the connection is not."""
    stock = Stock(server.client(), "mail")
    stock.client.lpush(stock.ingress, *(b"m%d" % i for i in range(60)))
    p = opened("/queue/mail", size=(width, height, is_phone))
    p.sees("m30")
    server.stop()
    p.sees(DOWN, "#away")
    p.script("scrollTo(0, 1e9)")
    assert p.script("""const r = document.querySelector("#away strong").getBoundingClientRect(), e = document.elementFromPoint(r.left + 5, r.top + 5);
        return e?.closest("#away") !== null && r.top >= 0 && r.bottom <= innerHeight""")
    p.click("Pause")
    p.sees("The action failed: Redis: ", ".toast-bad")


def test_nothing_that_sticks_is_covered(opened, server):
    """The buttons for all dead letters stay in sight while one scrolls, below the line that says that Redis is down."""
    Queue(server.client()).dead_letters(*(b"%d" % i for i in range(60)))
    p = opened("/dead-letters/mail")
    p.sees("50 of 60 dead letters", ".tools")
    server.stop()
    p.sees(DOWN, "#away")
    p.script("scrollTo(0, 700)")
    covered = """return [...document.querySelectorAll(".marks button, .table-dead-letters thead input")].filter(e => {
        const r = e.getBoundingClientRect(), top = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
        return !e.contains(top) && !e.closest("label")?.contains(top); }).map(e => e.outerHTML)"""
    wait_for(lambda: p.script(covered) == [], what="nothing covered")
    p.click("Retry all", ".marks")
    p.click("Retry all 60", "dialog")
    p.sees("The action failed: Redis: ", ".toast-bad")
    p.sees("Reading the records failed: Redis: ")
    assert "still work" not in p.text()


ROUTES = {"/": "messages wait", "/queue/mail": "16 B", "/queue/mail/transit": "lost", "/queue/mail/escape": "z", "/flight": "lost",
          "/dead-letters": "mail", "/dead-letters/mail": "3 dead letters", "/dead-letters/mail/{0}": "no such user", "/nodes": "web1", "/health": "Run doctor"}


@pytest.mark.limit(300)
def test_pages_that_are_opened_meanwhile(opened, server):
    """None is blank or waits for ever."""
    stock = Stock(server.client(), "mail")
    p = opened()
    for route, there in ROUTES.items():
        p.go(route.replace("{0}", stock.ids[1]))
        p.sees(there)
        server.stop()
        p.refresh()
        p.sees(DOWN, "#away")
        p.sees("Reconnecting", "#away")
        assert p.count(".table tbody tr") == 0 and len(p.text().strip()) > 5, route
        server.start()
        is_back(p)
        p.sees(there)
        wait_for(lambda: "Reading" not in p.text() and "failed" not in p.text("main .notice, main .empty"), what=f"{route} to be whole")


# ---- other data ----

def test_redis_comes_back_empty(opened, server):
    stock = Stock(server.client(), "mail")
    Stock(server.client(), "other")
    p = opened("/nodes")
    for route, gone in {"/": "All queues are gone", "/queue/mail": "The queue mail is gone", "/dead-letters/mail": "The queue mail is gone",
                        f"/dead-letters/mail/{stock.ids[0]}": "This dead letter is no longer here"}.items():
        kept = server.keep("kept" + str(len(route)))
        here = {"/": "mail", "/queue/mail": "Pause", "/dead-letters/mail": "3 dead letters"}.get(route, "Retry")
        p.go(route)
        p.sees(here)
        server.client().flushall()
        p.sees(gone)
        buttons = p.script("return [...document.querySelectorAll('main button')].filter(e => e.checkVisibility()).map(e => e.innerText)")
        assert not {"Pause", "Retry", "Delete", "Retry all", "Delete all"} & {*buttons}, route
        assert p.count("main tbody tr") == 0 or not p.script("return document.querySelector('main tbody tr').checkVisibility()")
        server.kill9()
        server.go_back(kept)
        is_back(p)
        wait_for(lambda: gone not in p.text() and here in p.text(), what=f"{route} as before")


def test_what_was_open_when_redis_was_emptied(opened, server):
    """An action on what is gone ends in an error."""
    stock = Stock(server.client(), "mail")
    kept = server.keep()
    p = opened()
    for name in ("run next", "delete message"):
        go(p, name, stock)
        p.click(ACTIONS[name][3][0], "main")
        server.client().flushall()
        p.sees("The queue mail is gone")
        for step in ACTIONS[name][3][1:]:
            p.click(step, "dialog:last-of-type")
        p.sees("The action failed: no queue mail", ".toast-bad")
        assert p.count(".toast-ok") == 0
        dismiss(p)
        server.kill9()
        server.go_back(kept)
        is_back(p)
    go(p, "run next", stock)
    p.click("later", "main")
    server.client().zrem(stock.delayed, "later")
    p.click("Run next…", "dialog")
    p.click("Run next", "dialog:last-of-type")
    p.sees("The message has left the list", ".toast-bad")


def test_dead_letters_of_an_earlier_state(opened, server):
    """As many as before, but others: those that were selected are not there any more."""
    stock = Stock(server.client(), "mail")
    kept = server.keep()
    server.client().delete(stock.escape, stock.log)
    later = stock.dead_letters(b"d", b"e", b"f")
    p = opened("/dead-letters/mail")
    shown = lambda: p.script("return [...document.querySelectorAll('.table-dead-letters tbody tr')].map(r => r.dataset.key)")
    wait_for(lambda: shown() == later[::-1])
    p.click(f"select {later[1]}", ".table-dead-letters")
    server.kill9()
    p.sees(DOWN, "#away")
    server.go_back(kept)
    is_back(p)
    wait_for(lambda: shown() == stock.ids[::-1], 60, "the dead letters of the earlier state")
    assert p.count("tr.marked") == 0
    p.click("Delete all", ".marks")
    p.click("Delete all 3…", "dialog")
    p.click("Delete all 3 permanently", "dialog")
    wait_for(lambda: stock.sizes() == [3, 2, 1, 0])


@pytest.mark.parametrize("name", ["purge ingress", "delete all", "retry record"])
def test_a_question_from_before_does_not_count(opened, server, name):
    """Redis came back while the question was on the screen: what it says may be wrong."""
    made = stocks(server.client())
    stock = made[name]
    p = opened()
    go(p, name, stock)
    steps = [step.replace("{1}", stock.ids[1]) for step in ACTIONS[name][3]]
    for i, step in enumerate(steps[:-1]):
        p.click(step, "main" if i == 0 else "dialog:last-of-type")
    before = figures(stock)
    server.stop()
    p.sees("Redis has not answered since", "dialog")
    server.start()
    is_back(p)
    wait_for(lambda: "has not answered" not in p.text("dialog"))
    p.click(steps[-1], "dialog:last-of-type")
    p.sees("Nothing was changed: ", ".toast-bad")
    assert figures(stock) == before
    dismiss(p)
    press(p, name, stock)
    wait_for(lambda: ACTIONS[name][4](stock))


@pytest.mark.parametrize("route, rows", [("/queue/mail/ingress", ".table-messages-ingress"), ("/dead-letters/mail", ".table-dead-letters")])
def test_other_entries_in_the_same_number(opened, server, route, rows):
    """A list is read again although its size is the same, and although the connection was never lost."""
    stock = Stock(server.client(), "mail")
    p = opened(route)
    wait_for(lambda: p.count(f"{rows} tbody tr") == 3)
    for generation in ("new", "newer"):
        names = [f"{generation}{i}" for i in range(3)]
        with server.client().pipeline(transaction=True) as t:
            t.delete(stock.ingress, stock.escape, stock.log)
            t.lpush(stock.ingress, *names)
            t.lpush(stock.escape, *names)
            for m in names:
                t.xadd(stock.log, {"id": m, "error_class": "Other", "error_message": "other", "message": m, "size": "4", "sha1": "0" * 40})
            t.execute()
        wait_for(lambda: all(m in p.text(rows) for m in names), 60, f"the {generation} entries")


def an_accepted_stream(console):
    """The console counts the stream of a page that has left until it notices, and refuses one too many until then."""
    return wait_for(lambda: (stream := Stream(console)).answer.status == 200 and stream)


def test_a_console_that_has_no_stream_left(opened, server):
    """That is no failure of Redis, nor of the console: actions work."""
    stock = Stock(server.client(), "mail")
    p = opened("/queue/mail")
    p.sees("Pause")
    p.get("about:blank")
    streams = [an_accepted_stream(p.console) for _ in range(16)]
    p.get(f"{p.base}#/dead-letters/mail")
    p.sees("The console has sent this page no figures for", "#away")
    p.sees("16 event streams to this address are open already", "#away")
    p.sees("no figures", "#link")
    p.click(f"Retry {stock.ids[0]}", "main")
    p.click("Retry 1", "dialog")
    wait_for(lambda: stock.sizes() == [4, 2, 1, 2])
    for s in streams:
        s.close()
    is_back(p)
