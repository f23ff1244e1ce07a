"""Reload: by difference, new workers first, and any error keeps the running configuration."""
import json
import os
import pathlib
import re
import shutil
import signal

import pytest

from harness import SANITIZED, alive, open_files, queue, wait_for
from harness.control import ask, status

GATED = "read -r m; echo $m-$QUREDIS_INCARNATION >>@LEDGER@; while ! [ -e @TMP@/go ]; do sleep 0.02; done; echo done-$m >>@LEDGER@"


def reload(d, **changes):
    """Writes, signals and waits; the line of the outcome."""
    mark = d.mark()
    d.reload(**changes)
    return wait_for(lambda: d.events("reload_done", since=mark) or d.events("reload_failed", since=mark))[0]


def settled(d, name, wanted):
    return wait_for(lambda: (q := status(d, name))["workers"] == {"wanted": wanted, "alive": wanted, "draining": 0} and q)


def test_unchanged_keeps_every_process(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/true", workers=2), queue("other", "/bin/true")])
    before = d.children()
    assert reload(d)["event"] == "reload_done"
    assert d.children() == before


def test_a_changed_queue_gets_new_workers_the_other_keeps_its_own(redis, quredisd, handler, ledger, tmp):
    other = queue("other", "/bin/cat")
    d = quredisd(queues=[queue("mail", handler(GATED)), other])
    kept, old, sweeper = d.workers("other"), d.workers("mail")["mail/0"], d.sweeper()
    c = redis.client()
    c.lpush("ingress:mail", "a")
    wait_for(lambda: len(ledger.lines()) == 1)
    assert reload(d, queues=[queue("mail", handler(GATED), max_attempts=2), other])["changed"] == "1"
    c.lpush("ingress:mail", "b")
    wait_for(lambda: len(ledger.lines()) == 2)               # the new worker, while the old one finishes
    assert alive(old) and status(d, "mail")["workers"] == {"wanted": 1, "alive": 1, "draining": 1}
    drained = [w for w in status(d)["workers"] if w["draining"]]
    assert [w["pid"] for w in drained] == [old] and drained[0]["running_ms"] is not None
    assert d.workers("other") == kept and status(d)["sweeper"]["pid"] != sweeper and alive(sweeper)
    (tmp / "go").touch()
    wait_for(lambda: not alive(old))
    wait_for(lambda: "done-a" in ledger.lines() and "done-b" in ledger.lines())
    assert len({line.split("-")[1] for line in ledger.lines() if not line.startswith("done")}) == 2
    wait_for(lambda: not alive(sweeper))                      # it stayed for the worker of its time
    assert not d.events("worker_died") and not d.events("sweeper_died")


def test_two_living_workers_of_a_number(redis, quredisd, handler, ledger, tmp):
    """Two changes while messages run: both runs finish, and the third worker starts when the first of them has."""
    d = quredisd(queues=[queue("mail", handler(GATED))])
    c = redis.client()
    first = d.workers("mail")["mail/0"]
    c.lpush("ingress:mail", "a")
    wait_for(lambda: len(ledger.lines()) == 1)
    reload(d, queues=[queue("mail", handler(GATED), max_attempts=2)])
    c.lpush("ingress:mail", "b")
    wait_for(lambda: len(ledger.lines()) == 2)
    reload(d, queues=[queue("mail", handler(GATED), max_attempts=3)])
    c.lpush("ingress:mail", "c")
    blocked = wait_for(lambda: (q := status(d, "mail"))["reason"] and q)
    assert blocked["workers"] == {"wanted": 1, "alive": 0, "draining": 2} and "still run messages" in blocked["reason"]
    assert alive(first) and len(ledger.lines()) == 2
    (tmp / "go").touch()
    settled(d, "mail", 1)
    wait_for(lambda: sorted(line for line in ledger.lines() if line.startswith("done")) == ["done-a", "done-b", "done-c"])
    assert len([line for line in ledger.lines() if not line.startswith("done")]) == 3
    assert not d.events("worker_died") and status(d, "mail")["reason"] is None


def test_number_of_workers(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat", workers=2)])
    before = d.workers("mail")
    reload(d, queues=[queue("mail", "/bin/cat", workers=5)])
    settled(d, "mail", 5)
    assert before.items() <= d.workers("mail").items()
    five = d.workers("mail")
    reload(d, queues=[queue("mail", "/bin/cat", workers=1)])
    settled(d, "mail", 1)
    assert d.workers("mail") == {"mail/0": five["mail/0"]}
    reload(d, queues=[queue("mail", "/bin/cat", workers=0)])
    settled(d, "mail", 0)
    reload(d, queues=[queue("mail", "/bin/cat", workers=2)])
    settled(d, "mail", 2)
    assert not d.events("worker_died")


def test_a_queue_leaves_and_comes_back_with_its_totals(redis, quredisd, ledger):
    mail, other = queue("mail", ledger.recorder()), queue("other", "/bin/cat")
    d = quredisd(queues=[mail, other])
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 1)
    assert reload(d, queues=[other])["left"] == "1"
    wait_for(lambda: [q["name"] for q in status(d)["queues"]] == ["other"])
    redis.client().lpush("ingress:mail", "b")
    assert reload(d, queues=[other, mail])["entered"] == "1"
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 2)


def test_a_queue_that_leaves_finishes_what_runs(redis, quredisd, handler, ledger, tmp):
    d = quredisd(queues=[queue("mail", handler(GATED)), queue("other", "/bin/cat")])
    c = redis.client()
    c.lpush("ingress:mail", "a")
    wait_for(lambda: len(ledger.lines()) == 1)
    c.lpush("ingress:mail", "b")
    reload(d, queues=[queue("other", "/bin/cat")])
    assert status(d, "mail")["workers"] == {"wanted": 0, "alive": 0, "draining": 1}
    (tmp / "go").touch()
    wait_for(lambda: [q["name"] for q in status(d)["queues"]] == ["other"])
    assert ledger.lines()[1:] == ["done-a"] and c.lrange("ingress:mail", 0, -1) == [b"b"]
    assert c.keys("transit:mail*") == []


def test_totals_survive_other_keys(redis, quredisd, handler, ledger, tmp):
    """Twice, while the first worker still runs: one queue, one sum, one line in the status."""
    d = quredisd(queues=[queue("mail", handler(GATED))])
    c = redis.client()
    c.lpush("ingress:mail", "a")
    wait_for(lambda: len(ledger.lines()) == 1)
    fetched = status(d, "mail")["counters"]["fetched"]
    reload(d, queues=[queue("mail", handler(GATED), ingress="two")])
    assert [q["name"] for q in status(d)["queues"]] == ["mail"]
    assert status(d, "mail")["workers"] == {"wanted": 1, "alive": 1, "draining": 1}
    assert status(d, "mail")["counters"]["fetched"] == fetched == 1
    (tmp / "go").touch()
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 1)
    settled(d, "mail", 1)
    for n in range(3, 40):
        reload(d, queues=[queue("mail", handler(GATED), ingress=f"in{n}"), queue(f"q{n}", "/bin/cat", workers=0)])
        assert status(d, "mail")["counters"]["done"] == 1
    c.lpush("in39", "b")
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 2)
    settled(d, "mail", 1)
    assert status(d, "mail")["counters"]["fetched"] == 2


def test_other_keys_are_recovered_and_old_ones_left_clean(redis, quredisd, handler, ledger, tmp):
    """The worker of the old keys is killed while it drains: its message comes back to the old key."""
    (tmp / "go").touch()
    slow = handler("read -r m; echo $m >>@LEDGER@; sleep 60")
    d = quredisd(queues=[queue("mail", slow)])
    c = redis.client()
    old = d.workers("mail")["mail/0"]
    c.lpush("ingress:mail", "a")
    wait_for(lambda: len(ledger.lines()) == 1)
    c.lpush("elsewhere", "b")
    reload(d, queues=[queue("mail", handler(GATED), ingress="elsewhere")])
    wait_for(lambda: "done-b" in ledger.lines())
    os.kill(old, signal.SIGKILL)
    wait_for(lambda: c.llen("ingress:mail") == 1 and status(d)["unconfirmed_deaths"] == 0, 30)
    assert c.keys("transit:mail:in*") == []


@pytest.mark.parametrize("what", ["syntax", "unknown key", "relative handler", "missing file"])
def test_an_error_keeps_what_runs(quredisd, what):
    d = quredisd(queues=[queue("mail", "/bin/cat", workers=2)])
    before = d.children()
    mark = d.mark()
    if what == "syntax":
        d.conf.write_text(d.conf.read_text() + "queues = = ;")
    elif what == "unknown key":
        d.write_conf(queues=[queue("mail", "/bin/cat", wrokers=2)])
    elif what == "relative handler":
        d.write_conf(queues=[queue("mail", "such/handler")])
    else:
        d.conf.unlink()
    answer = ask(d, "reload")
    assert answer["ok"] is False and len(answer["problems"]) >= 1
    if what == "unknown key":
        assert "workers" in answer["problems"][0] and f"{d.conf}:" in answer["problems"][0]
    d.wait_event("reload_failed", since=mark)
    assert [e["reason"] for e in d.events("config_problem", since=mark, level="error")]
    assert d.children() == before and status(d, "mail")["workers"]["alive"] == 2
    d.write_conf(queues=[queue("mail", "/bin/cat", workers=2)])
    assert ask(d, "reload")["ok"] is True
    assert d.children() == before


@pytest.mark.parametrize("key,value", [("lock_file", "lock2"), ("control_socket", "c2"), ("node", "other")])
def test_what_cannot_change_is_refused(quredisd, key, value):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    before, old = set(d.children()), dict(d.sections["supervisor"])
    d.write_conf(supervisor={**old, key: value if key == "node" else d.dir / value})
    d.sections["supervisor"] = old
    answer = ask(d, "reload")
    assert answer["ok"] is False and f"supervisor.{key} cannot change" in answer["problems"][0]
    assert set(d.children()) == before


def test_globals_replace_everybody(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder(), workers=2), queue("other", "/bin/cat")])
    before = d.children()
    reload(d, supervisor={**d.sections["supervisor"], "lease": "20s"})
    wait_for(lambda: len(d.children()) == 4 and not set(d.children()) & set(before))
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: len(ledger.runs()) == 1)
    assert not d.events("worker_died") and not d.events("sweeper_died")


def test_another_redis(redis, redis_server, quredisd, ledger):
    second = redis_server()
    d = quredisd(queues=[queue("mail", ledger.recorder())])
    second.client().lpush("ingress:mail", "b")
    second.client().lpush("transit:mail", "left there by a plain consumer")
    reload(d, redis={"url": second.url})
    wait_for(lambda: {r.payload for r in ledger.runs()} == {b"b", b"left there by a plain consumer"})
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: status(d, "mail")["workers"]["draining"] == 0)
    assert redis.client().llen("ingress:mail") == 1


def test_log_level_and_format(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    mark = d.mark()
    d.reload(log={"level": "info", "format": "json"})
    wait_for(lambda: any('"event":"reload_done"' in line for line in d.lines[mark:]))


def test_restart_replaces_one_queue(quredisd):
    d = quredisd(queues=[queue("mail", "/bin/cat", workers=2), queue("other", "/bin/cat")])
    mail, other, sweeper = d.workers("mail"), d.workers("other"), d.sweeper()
    assert ask(d, "restart", queue="mail") == {"ok": True}
    wait_for(lambda: len(d.workers("mail")) == 2 and not set(d.workers("mail").values()) & set(mail.values()))
    settled(d, "mail", 2)
    assert d.workers("other") == other and d.sweeper() == sweeper
    assert ask(d, "restart", queue="nope")["ok"] is False and ask(d, "restart")["ok"] is False


def rss_kib(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1])


@pytest.mark.limit(300)
def test_a_hundred_reloads_leave_no_trace(redis, quredisd, ledger):
    d = quredisd(queues=[queue("mail", ledger.recorder(), workers=2), queue("other", "/bin/cat")], log={"level": "info"})
    c = redis.client()

    def reloads(n, begin):
        for i in range(begin, begin + n):
            c.lpush("ingress:mail", str(i))
            mark = d.mark()
            d.signal(signal.SIGHUP)
            d.wait_event("reload_done", since=mark)
    reloads(10, 0)
    children, files, rss = d.children(), len(open_files(d.pid)), rss_kib(d.pid)
    reloads(100, 10)
    assert d.children() == children
    wait_for(lambda: len(open_files(d.pid)) <= files)     # what has just ended may not be reaped yet
    assert SANITIZED or rss_kib(d.pid) <= rss * 1.05 + 256
    wait_for(lambda: len(ledger.runs()) == 110, 60)


@pytest.mark.limit(300)
def test_a_hundred_changes_leave_no_trace(redis, quredisd, ledger):
    """Each replaces every worker and the sweeper, under load."""
    def conf(i):
        return [queue("mail", ledger.recorder(), workers=2, max_attempts=1 + i % 2), queue(f"q{i % 7}", "/bin/cat")]
    d = quredisd(queues=conf(0), log={"level": "info"})
    c = redis.client()

    def reloads(n, begin):
        for i in range(begin, begin + n):
            c.lpush("ingress:mail", str(i))
            reload(d, queues=conf(i))
        wait_for(lambda: len(d.children()) == 4, 60)
    reloads(10, 0)
    files, rss = len(open_files(d.pid)), rss_kib(d.pid)
    reloads(100, 10)
    wait_for(lambda: len(open_files(d.pid)) <= files)     # what has just ended may not be reaped yet
    assert SANITIZED or rss_kib(d.pid) <= rss * 1.05 + 512
    wait_for(lambda: status(d, "mail")["counters"]["done"] == 110, 60)
    # a worker that still ran at the next reload but one handed back: then, and only then, twice
    seen = set()
    for run in ledger.runs():
        assert run.payload not in seen or run.redelivered == "1"
        seen.add(run.payload)
    assert len(seen) == 110
    assert not d.events("worker_died") and not d.events("sweeper_died") and c.llen("escape:mail") == 0


LEFT = {"ingress": "3", "delayed": "1", "transit": "1", "escape": "2"}


def with_messages(redis, quredisd):
    """Two queues beside mail: one with messages everywhere, and an empty one."""
    d = quredisd(queues=[queue("mail", "/bin/true"), queue("news", "/bin/true", workers=0), queue("empty", "/bin/true")])
    d.wait_event("queue_recovered", queue="news")
    c = redis.client()
    c.lpush("ingress:news", "a", "b", "c")
    c.zadd("quredis:of:ingress:news:delayed", {"d": 4e12})
    c.lpush("transit:news", "e")
    c.lpush("escape:news", "f", "g")
    return d


def test_a_queue_that_leaves_with_messages_is_told(redis, quredisd):
    d = with_messages(redis, quredisd)
    assert reload(d, queues=[queue("mail", "/bin/true")])["left"] == "2"
    told = d.wait_event("queue_left_waiting")
    assert {k: told[k] for k in LEFT} == LEFT and (told["queue"], told["level"]) == ("news", "warning")
    d.wait_event("sweeper_exited")
    assert len(d.events("queue_left_waiting")) == 1                    # once, and nothing of the empty one


def test_a_queue_whose_keys_change_leaves_its_messages(redis, quredisd):
    d = with_messages(redis, quredisd)
    reload(d, queues=[queue("mail", "/bin/true"), queue("news", "/bin/true", workers=0, ingress="other:news"), queue("empty", "/bin/true")])
    assert d.wait_event("queue_left_waiting")["ingress"] == "3"


def test_the_command_tells_of_a_queue_that_leaves(redis, quredisd):
    d = with_messages(redis, quredisd)
    d.write_conf(queues=[queue("mail", "/bin/true")])
    r = d.quredis("reload")
    assert r.code == 0
    assert "queue news left the configuration while messages wait in it: 3 in ingress, 1 delayed, 1 in transit, 2 in escape" in r.err
    assert "empty" not in r.err
    r = d.quredis("reload")
    assert r.code == 0 and "left" not in r.err


def deployed(quredisd, tmp, below="current"):
    """A daemon whose configuration lies below the link `current` to the directory r1, its queue in conf.d there; writes the release n."""
    d = quredisd(queues=[], start=False)
    main = d.conf.read_text()

    def release(n):
        (tmp / f"r{n}/conf.d").mkdir(parents=True)
        for path, text in ((tmp / f"r{n}/q.conf", main), (tmp / f"r{n}/conf.d/mail.conf",
                           f'queues = ( {{ name = "mail"; handler = ["/bin/cat"]; workers = {n}; }} );\n')):
            path.write_text(text)
            path.chmod(0o600)
        (tmp / "next").symlink_to(f"r{n}")
        os.rename(tmp / "next", tmp / "current")
    release(1)
    d.conf = tmp / below / "q.conf"
    return d, release


@pytest.mark.parametrize("old_folder", ["stays", "deleted"])
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_a_reload_follows_the_link_of_the_release(redis, quredisd, tmp, relative, old_folder):
    d, release = deployed(quredisd, tmp)
    if relative:        # from the directory of the release, as its name in the shell says
        d.env = {"PWD": str(tmp / "current")}
        d._inside = ["env", "-C", str(tmp / "current")]
        d.conf = pathlib.Path("q.conf")
    d.start()
    assert status(d, "mail")["workers"]["wanted"] == 1 and status(d)["config"] == str(tmp / "current/q.conf")
    for n in (2, 3):
        release(n)
        if old_folder == "deleted":
            shutil.rmtree(tmp / f"r{n - 1}")
        assert ask(d, "reload")["ok"]
        assert status(d, "mail")["workers"]["wanted"] == n


def test_a_reload_follows_the_links_of_a_mounted_configuration(redis, quredisd, tmp):
    """As Kubernetes mounts a ConfigMap: each file is a link through ..data, which is swapped, and the old folder is deleted."""
    d = quredisd(queues=[queue("mail", "/bin/cat")], start=False)
    text, conf = d.conf.read_text(), tmp / "mounted/quredis.conf"
    conf.parent.mkdir()

    def publish(n):
        (tmp / f"mounted/..{n}").mkdir()
        path = tmp / f"mounted/..{n}/quredis.conf"
        path.write_text(text.replace("workers = 1", f"workers = {n}"))
        path.chmod(0o600)
        (tmp / "mounted/..next").symlink_to(f"..{n}")
        os.rename(tmp / "mounted/..next", tmp / "mounted/..data")
        shutil.rmtree(tmp / f"mounted/..{n - 1}", ignore_errors=True)
    publish(1)
    conf.symlink_to("..data/quredis.conf")
    d.conf = conf
    d.start()
    for n in (2, 3):
        publish(n)
        assert ask(d, "reload")["ok"] and status(d, "mail")["workers"]["wanted"] == n


def test_a_configuration_that_a_deploy_has_emptied_is_refused(redis, quredisd, ledger):
    """The disk was full: the file is there, and empty."""
    d = quredisd(queues=[queue("other", "/bin/cat")], start=False)
    fragments = [d.conf.parent / "conf.d" / f"{name}.conf" for name in ("mail", "news")]
    fragments[0].parent.mkdir()
    for path in fragments:
        path.write_text(f'queues = ( {{ name = "{path.stem}"; handler = ["{ledger.recorder()}"]; }} );\n')
        path.chmod(0o600)
    d.start()
    before, texts = d.children(), {path: path.read_text() for path in [d.conf, *fragments]}

    def refused(*words):
        answer = ask(d, "reload")
        assert answer["ok"] is False and d.children() == before
        assert all(any(w in p for p in answer["problems"]) for w in words), answer
    fragments[0].write_text("")
    refused("mail.conf sets nothing any more, and queue mail is from it")
    fragments[0].write_text("# only a comment\n")
    refused("mail.conf sets nothing any more")
    for path in fragments:
        path.unlink()
    d.conf.write_text("")
    refused("no queue any more", "supervisor.node cannot change")
    for path, text in texts.items():
        path.write_text(text)
        path.chmod(0o600)
    fragments[1].unlink()           # this is meant
    assert ask(d, "reload")["ok"]
    redis.client().lpush("ingress:mail", "a")
    wait_for(lambda: len(ledger.runs()) == 1)
    d.conf.write_bytes(b"\xef\xbb\xbf" + texts[d.conf].encode())
    answer = ask(d, "reload")
    assert answer["ok"] is False and f"{d.conf}:1: begins with a byte order mark of UTF-8" in answer["problems"][0]


def test_a_failed_reload_is_a_state(quredisd, redis):
    """Also when nobody reads the log: status, health and doctor say it, until a reload takes the configuration."""
    d = quredisd(queues=[queue("mail", "/bin/cat")], health={"enabled": True, "interval": "1s"})
    assert status(d)["reload_failed"] is None
    good = d.conf.read_text()
    d.conf.write_text(good + "wrong = 1;\n")
    assert d.quredis("reload").code == 78
    found = json.loads(d.quredis("doctor", "--json").out)
    told = [row for row in found if "the configuration before it is in use" in row["what"]]
    assert len(told) == 1 and told[0]["severity"] == "warning" and "unknown key 'wrong'" in told[0]["what"], told
    assert d.quredis("health").code == 78 and "the configuration before it is in use" in d.quredis("status").out
    d.conf.write_text(good)
    failed, words = status(d)["reload_failed"], "the last reload failed, and the configuration before it is in use"
    assert failed["problems"] == 1 and "unknown key 'wrong'" in failed["reason"] and failed["at"]
    wait_for(lambda: status(d, "mail")["state"] == "running")
    shown = d.quredis("status").out
    assert re.search(r"Reload: failed at \S+, and the configuration before it is in use: .*unknown key 'wrong'", shown), shown
    assert status(d, "mail")["reason"] == words
    wait_for(lambda: f"{words}: quredis status says why" in d.quredis("health").out, 30)
    assert d.quredis("health").code == 1
    assert any(words in row["what"] and "unknown key" in row["what"] for row in json.loads(d.quredis("doctor", "--json").out))
    assert d.quredis("reload").code == 0
    assert status(d)["reload_failed"] is None and status(d, "mail")["reason"] is None and "Reload:" not in d.quredis("status").out
    wait_for(lambda: "the last reload failed" not in d.quredis("health").out, 30)
    assert d.stop() == 0


def test_doctor_says_that_a_supervisor_runs_in_spite_of_a_bad_file(quredisd, redis):
    d = quredisd(queues=[queue("mail", "/bin/cat")])
    status(d)
    d.conf.write_text(d.conf.read_text() + "wrong = 1;\n")
    words = "the supervisor runs with the configuration that it read before"
    found = json.loads(d.quredis("doctor", "--json").out)
    assert any(row["what"] == words and row["severity"] == "warning" for row in found)
    assert d.stop() == 0
    assert words not in d.quredis("doctor", "--json").out
