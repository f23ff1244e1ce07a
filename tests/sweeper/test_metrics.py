"""Figures for others: datagrams for statsd, a file for Prometheus. Neither ever holds up the sweeper."""
import collections
import json
import os
import re
import shutil
import socket
import stat
import subprocess

import pytest

from harness import ROOT, queue, wait_for
from harness.containers import unshared
from harness.names import needs_localhost
from harness.paths import BUILD
from harness.queues import Queue

FAILS = 'read -r m; case $m in bad*) exit 3;; esac'
PROMTOOL = shutil.which("promtool") or BUILD.parent / "tools/promtool"
needs_promtool = pytest.mark.skipif(not os.path.exists(PROMTOOL), reason="no promtool: make promtool fetches it")


# ---- statsd ----

class Statsd:
    """A listener; takes what has come."""

    def __init__(self, family=socket.AF_INET, port=0):
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", port))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.setblocking(False)
        self.port = self.socket.getsockname()[1]
        self.gauges, self.counters, self.sizes = {}, collections.Counter(), []

    def take(self):
        while True:
            try:
                packet = self.socket.recv(65536)
            except BlockingIOError:
                return self
            self.sizes.append(len(packet))
            for line in packet.decode().split("\n"):
                name, value, kind = re.fullmatch(r"(quredis(?:\.[A-Za-z0-9_-]+)+):(\d+)\|([gc])", line).groups()
                if kind == "g":
                    self.gauges[name] = int(value)
                else:
                    self.counters[name] += int(value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def test_statsd(redis, quredisd, handler):
    c = redis.client()
    with Statsd() as s:
        d = quredisd(queues=[queue("mail.in", handler(FAILS), max_attempts=2, backoff={"base": "10ms"}), queue("old", handler("cat"), workers=0)],
                     health={"enabled": True, "interval": "1s", "thresholds": {"dlq_max_warning": 2, "stuck_age": "1s", "stuck_max_warning": 2}},
                     metrics={"statsd": f"127.0.0.1:{s.port}", "interval": "1s"})
        c.lpush("ingress:mail.in", *[f"m{i}" for i in range(20)], *[f"bad{i}" for i in range(3)])
        c.lpush("ingress:old", *[f"quredis/1 enqueued={int(c.time()[0]) * 1000 - 60000}\nx"] * 3)
        wait_for(lambda: s.take().counters["quredis.queue.mail_in.escaped"] == 3 and s.counters["quredis.queue.mail_in.done"] == 20, 30)
        assert s.counters["quredis.queue.mail_in.retried"] == 3 and s.counters["quredis.queue.mail_in.failed"] == 6
        wait_for(lambda: s.take().gauges.get("quredis.dlq.mail_in.size") == 3 and s.gauges.get("quredis.health.status") == 1 and
                 s.gauges.get("quredis.health.stuck.count") == 3, 30)
        assert s.gauges["quredis.health.queue.mail_in.size"] == 0 and s.gauges["quredis.health.queue.mail_in.oldest_age"] == 0
        assert s.gauges["quredis.health.queue.old.size"] == 3
        wait_for(lambda: s.take().gauges["quredis.health.queue.old.oldest_age"] >= 60, 20)
        wait_for(lambda: s.take().counters["quredis.queue.mail_in.failed_class.HandlerExit"] == 6, 30)
        # a successor goes on where its predecessor was
        d.reload(metrics={"statsd": f"127.0.0.1:{s.port}", "interval": "2s"})
        c.lpush("ingress:mail.in", "n1", "n2")
        wait_for(lambda: s.take().counters["quredis.queue.mail_in.done"] == 22, 30)
        c.lpush("ingress:mail.in", "bad9")
        wait_for(lambda: c.llen("escape:mail.in") == 4, 30)
        assert d.stop() == 0
        assert s.take().counters["quredis.queue.mail_in.done"] == 22 and max(s.sizes) <= 1432
        assert s.counters["quredis.queue.mail_in.failed_class.HandlerExit"] == 8


def test_a_queue_that_no_supervisor_confirms_is_not_healthy(redis, quredisd, handler):
    c = redis.client()
    with Statsd() as s:
        d = quredisd(queues=[queue("mail", handler("cat"), workers=0)], health={"enabled": True, "interval": "1s"},
                     metrics={"statsd": f"127.0.0.1:{s.port}", "interval": "1s"})
        wait_for(lambda: s.take().gauges.get("quredis.health.status") == 0, 30)
        c.hset("quredis:health", "silent", json.dumps({"queue": "silent", "status": "healthy", "at_ms": c.time()[0] * 1000 - 60000,
                                                       "interval_ms": 3600000, "node": "far"}))
        wait_for(lambda: s.take().gauges["quredis.health.status"] == 1, 30)
        assert d.stop() == 0


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_purge_took_is_told_by_kind(redis, quredisd, handler, page, dry_run):
    """Each by itself, and what a dry run names apart from all of them."""
    c = redis.client()
    now = c.time()[0] * 1000
    q = Queue(c, register=False)
    old = f"quredis/1 enqueued={now - 7200000}\n"
    c.lpush("ingress:mail", old + "a", old + "b")
    c.lpush("ingress:news", old + "c")
    c.zadd(q.delayed, {old + "d": now + 3600000})
    for i in range(1, 5):
        c.xadd("quredis:of:ingress:mail:done", {"id": i}, id=f"{i}-1")
    for _ in range(5):
        q.record(b"never there")
    start = c.time()[0]
    wait_for(lambda: c.time()[0] > start + 2)
    c.lpush("ingress:works", "x")
    wanted = {"ingress": 3, "delayed": 1, "done": 4, "orphaned": 5}
    with Statsd() as s:
        d = quredisd(queues=[queue(n, handler("cat"), workers=0) for n in ("mail", "news")] + [queue("works", handler("sleep 60"), workers=1)],
                     purge={"enabled": True, "interval": "1h", "dry_run": dry_run, "max_message_age": "1h", "max_done_age": "10s",
                            "max_orphaned_age": "1s", "max_transit_age": "1s"},
                     metrics={"statsd": f"127.0.0.1:{s.port}", "textfile": str(page.path), "interval": "1s"})

        def told():
            s.take()
            return {k.split(".")[2]: n for k, n in s.counters.items() if k.startswith("quredis.purge.")}

        wait_for(lambda: told() == {"transit": 1, **({"dry_run": sum(wanted.values())} if dry_run else wanted)}, 40)
        kinds = {"transit": 0, **({} if dry_run else wanted), "ingress": 0 if dry_run else 2}
        wait_for(lambda: all(page("quredis_purged_total", queue="mail", kind=kind) == n for kind, n in kinds.items()) and
                 page("quredis_purged_total", queue="works", kind="transit") == 1 and
                 page("quredis_purge_dry_run_total", queue="mail") == (12 if dry_run else 0), 20)
        assert page("quredis_registrations_removed_total") == 0
        assert d.stop() == 0


def test_how_late_and_how_long(redis, quredisd, handler, page):
    c = redis.client()
    now = c.time()[0] * 1000
    c.zadd("quredis:of:ingress:mail:delayed", {b"one": now - 40000, b"two": now - 41000})
    with Statsd() as s:
        d = quredisd(queues=[queue("mail", handler("sleep 0.1"))], metrics={"statsd": f"127.0.0.1:{s.port}", "textfile": str(page.path), "interval": "1s"})
        wait_for(lambda: s.take().counters["quredis.sweep.mail.lag.count"] == 2, 40)
        assert 81000 <= s.counters["quredis.sweep.mail.lag.ms"] < 300000 and 41000 <= s.gauges["quredis.sweep.mail.lag.max"] < 150000
        wait_for(lambda: page("quredis_sweep_lag_seconds_count", queue="mail") == 2 and page("quredis_handler_duration_seconds_count", queue="mail") == 2, 20)
        assert 81 <= page("quredis_sweep_lag_seconds_sum", queue="mail") < 300 and page("quredis_sweep_lag_seconds_bucket", queue="mail", le="0.001") == 0
        assert 0.2 <= page("quredis_handler_duration_seconds_sum", queue="mail") < 60
        assert d.stop() == 0


def test_figures_come_as_often_as_metrics_interval_says(redis, quredisd, handler, page):
    c = redis.client()
    with Statsd() as s:
        d = quredisd(queues=[queue("mail", handler("cat"))], health={"enabled": True, "interval": "1s"},
                     metrics={"statsd": f"127.0.0.1:{s.port}", "textfile": str(page.path), "interval": "1h"})
        wait_for(page.path.exists, 30)
        written = page.path.stat().st_ino
        c.lpush("ingress:mail", "x")
        wait_for(lambda: c.hget("quredis:of:ingress:mail:stats", "done") == b"1", 30)          # five seconds
        assert page.path.stat().st_ino == written and "quredis.queue.mail.done" not in s.take().counters
        d.reload(metrics={"statsd": f"127.0.0.1:{s.port}", "textfile": str(page.path), "interval": "1s"})
        wait_for(lambda: page("quredis_messages_total", queue="mail", event="done") == 1 and s.take().counters["quredis.queue.mail.done"] == 1, 30)
        assert d.stop() == 0


def test_statsd_packs_datagrams(redis, quredisd, handler):
    c = redis.client()
    names = [f"queue-number-{i}" for i in range(200)]
    with Statsd(socket.AF_INET6) as s:
        d = quredisd(queues=[queue(n, handler("cat"), workers=0) for n in names], metrics={"statsd": f"[::1]:{s.port}", "interval": "1s"})
        c.lpush("escape:queue-number-199", "x")
        wait_for(lambda: s.take().gauges.get("quredis.dlq.queue-number-199.size") == 1 and len(s.gauges) == 800, 60)
        assert max(s.sizes) <= 1432
        full = [n for n in s.sizes if n > 1300]
        assert len(full) > len(s.sizes) / 2, s.sizes
        assert not c.exists("quredis:health")
        assert d.stop() == 0


def test_statsd_that_is_not_there(redis, quredisd, handler):
    """Refused, and there again; a name that does not exist. Messages go on."""
    c = redis.client()
    with Statsd() as s:
        port = s.port
    d = quredisd(queues=[queue("mail", handler("cat"))], metrics={"statsd": f"127.0.0.1:{port}", "interval": "1s"})
    assert d.wait_event("statsd_down")["target"] == f"127.0.0.1:{port}"
    with Statsd(port=port) as s:
        d.wait_event("statsd_up")
        c.lpush("ingress:mail", "x")
        wait_for(lambda: s.take().counters["quredis.queue.mail.done"] == 1, 30)
    assert len(d.events("statsd_down")) == 1
    d.reload(metrics={"statsd": "no-such-host.invalid:8125", "interval": "1s"})
    wait_for(lambda: len(d.events("statsd_down")) == 2, 60)
    assert d.events("statsd_down")[-1]["error"]
    c.lpush("ingress:mail", "y")
    wait_for(lambda: c.hget("quredis:of:ingress:mail:stats", "done") == b"2", 30)
    assert d.stop() == 0


@needs_localhost
def test_statsd_by_name(redis, quredisd, handler):
    with Statsd() as four, Statsd(socket.AF_INET6, four.port) as six:
        d = quredisd(queues=[queue("mail", handler("cat"))], metrics={"statsd": f"localhost:{four.port}", "interval": "1s"})
        wait_for(lambda: "quredis.dlq.mail.size" in {**four.take().gauges, **six.take().gauges}, 30)
        assert d.stop() == 0


@needs_localhost
def test_statsd_by_a_name_of_which_one_address_refuses(containers, redis, quredisd, handler, tmp):
    (tmp / "hosts").write_text("::1 localhost\n127.0.0.1 localhost\n")
    with Statsd() as four:
        d = quredisd(inside=unshared(f"mount --bind {tmp}/hosts /etc/hosts", "--mount"), queues=[queue("mail", handler("cat"))],
                     metrics={"statsd": f"localhost:{four.port}", "interval": "1s"})
        wait_for(lambda: "quredis.dlq.mail.size" in four.take().gauges, 60)
        assert d.stop() == 0


# ---- Prometheus ----

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')


def parse(text):
    """(name, labels) -> value; every line is understood, each sample there once, each metric has its head."""
    found, metric = {}, None
    for line in text.splitlines():
        if line.startswith("# "):
            metric = line.split()[2]
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        assert name == metric or re.fullmatch(metric + "_(bucket|sum|count)", name)
        key = (name, *sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")))
        assert key not in found
        found[key] = float(value)
    return found


class Page:
    def __init__(self, path):
        self.path = path

    def __call__(self, name, **labels):
        """The value now; None: there is none, or no file."""
        try:
            return parse(self.path.read_text()).get((name, *sorted(labels.items())))
        except FileNotFoundError:
            return None


@pytest.fixture
def page(tmp):
    (tmp / "textfile").mkdir()
    return Page(tmp / "textfile/quredis.prom")


def metrics(page, interval="1s"):
    return {"textfile": str(page.path), "interval": interval}


def busy(redis, quredisd, handler, page):
    """A daemon that has done some of everything, and whose file says so."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(FAILS), workers=2), queue("old.x-y_z", handler("cat"), workers=0)],
                 health={"enabled": True, "interval": "1s"}, metrics=metrics(page))
    c.lpush("ingress:mail", *[f"m{i}" for i in range(20)], *[f"bad{i}" for i in range(3)])
    c.lpush("ingress:old.x-y_z", f"quredis/1 enqueued={int(c.time()[0]) * 1000 - 60000}\nx", "y")
    wait_for(lambda: page("quredis_messages_total", queue="mail", event="done") == 20 and
             page("quredis_queue_messages", queue="mail", list="escape") == 3 and page("quredis_health_status", queue="mail") == 0 and
             (page("quredis_queue_oldest_age_seconds", queue="old.x-y_z", list="ingress") or 0) >= 60, 40)
    return c, d


def test_textfile(redis, quredisd, handler, page):
    c, d = busy(redis, quredisd, handler, page)
    assert page("quredis_messages_total", queue="mail", event="escaped") == 3
    assert page("quredis_handler_duration_seconds_count", queue="mail") == 23
    assert page("quredis_handler_duration_seconds_bucket", queue="mail", le="+Inf") == 23
    wait_for(lambda: page("quredis_workers", queue="mail", state="idle") == 2 and
             page("quredis_queue_workers", queue="mail", state="waiting") == 2, 20)
    assert page("quredis_queue_messages", queue="old.x-y_z", list="ingress") == 2 and page("quredis_redis_up") == 1
    assert page("quredis_sweeper_looks_total") >= 2 and page("quredis_queue_paused", queue="mail") == 0
    assert stat.S_IMODE(page.path.stat().st_mode) == 0o644
    assert {p.name for p in page.path.parent.iterdir()} <= {"quredis.prom", "quredis.prom.tmp"}
    before = d.wait_workers("mail", 2)
    os.kill(before["mail/0"], 9)
    wait_for(lambda: page("quredis_worker_restarts_total", queue="mail") == 1, 30)
    c.set("quredis:of:ingress:mail:paused", "x")
    wait_for(lambda: page("quredis_queue_paused", queue="mail") == 1, 30)
    redis.stop()
    wait_for(lambda: page("quredis_redis_up") == 0, 30)
    assert page("quredis_queue_messages", queue="mail", list="escape") is None
    assert page("quredis_messages_total", queue="mail", event="done") == 20
    redis.start()
    wait_for(lambda: page("quredis_redis_up") == 1 and page("quredis_queue_messages", queue="mail", list="escape") == 0, 60)
    assert d.stop() == 0


@needs_promtool
def test_promtool_finds_nothing_wrong(redis, quredisd, handler, page):
    _, d = busy(redis, quredisd, handler, page)
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=page.path.read_bytes(), capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert d.stop() == 0
    wrong = subprocess.run([PROMTOOL, "check", "metrics"], input=b"# TYPE a_count counter\na_count 1\n", capture_output=True, timeout=60)
    assert wrong.returncode != 0


def test_nobody_reads_half_a_file(redis, quredisd, handler, page):
    names = [f"q{i}" for i in range(100)]
    d = quredisd(queues=[queue(n, handler("cat"), workers=0) for n in names], metrics=metrics(page))
    wait_for(lambda: page("quredis_queue_messages", queue="q99", list="escape") == 0, 60)
    seen = set()
    while len(seen) < 3:
        with open(page.path) as f:
            text = f.read()
            seen.add(os.fstat(f.fileno()).st_ino)
        assert text.endswith("\n") and len(parse(text)) > 4000
    assert d.stop() == 0


def test_a_directory_that_takes_no_file(redis, quredisd, handler, page):
    """Said once, tried again; messages go on. What lies in the way is not touched."""
    c = redis.client()
    directory, elsewhere = page.path.parent, page.path.parent.parent / "elsewhere"
    directory.rename(elsewhere)
    d = quredisd(queues=[queue("mail", handler("cat"))], metrics=metrics(page))
    told = d.wait_event("textfile_failed")
    assert told["error"].endswith("quredis.prom.tmp: No such file or directory")
    c.lpush("ingress:mail", "x")
    wait_for(lambda: c.hget("quredis:of:ingress:mail:stats", "done") == b"1", 30)
    assert len(d.events("textfile_failed")) == 1
    elsewhere.rename(directory)
    d.wait_event("textfile_written")
    wait_for(lambda: page("quredis_messages_total", queue="mail", event="done") == 1, 20)
    precious = directory / "precious"
    precious.write_text("mine")
    page.path.unlink()
    os.symlink(precious, directory / "quredis.prom.tmp")
    wait_for(lambda: len(d.events("textfile_failed")) == 2, 20)
    assert precious.read_text() == "mine"
    (directory / "quredis.prom.tmp").unlink()
    os.link(precious, directory / "quredis.prom.tmp")
    wait_for(lambda: len(d.events("textfile_failed")) == 3, 20)
    assert precious.read_text() == "mine"
    (directory / "quredis.prom.tmp").unlink()
    wait_for(lambda: page("quredis_redis_up") == 1, 20)
    page.path.unlink()
    page.path.mkdir()
    wait_for(lambda: len(d.events("textfile_failed")) == 4, 20)
    assert d.stop() == 0


def test_a_disk_that_is_full(redis, quredisd, handler, page):
    """The old file stays as it was until there is room."""
    directory = page.path.parent
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", directory], capture_output=True).returncode != 0:
        pytest.skip("no right to mount")
    try:
        d = quredisd(queues=[queue(f"q{i}", handler("cat"), workers=0) for i in range(20)], metrics=metrics(page))
        wait_for(lambda: page("quredis_queue_messages", queue="q19", list="escape") == 0, 60)
        with open(directory / "rest", "wb", 0) as f, pytest.raises(OSError):
            while True:
                f.write(bytes(4096))
        assert d.wait_event("textfile_failed")["error"].endswith("No space left on device")
        assert page("quredis_queue_messages", queue="q19", list="escape") == 0
        assert {p.name for p in directory.iterdir()} <= {"quredis.prom", "rest"}
        (directory / "rest").unlink()
        d.wait_event("textfile_written")
        assert d.stop() == 0
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


def test_two_hosts_tell_each_figure_once(redis, quredisd, handler, tmp):
    c = redis.client()
    pages, hosts = [Page(tmp / f"{i}.prom") for i in range(2)], []
    for i in range(2):
        hosts.append(quredisd(queues=[queue("mail", handler("cat"), workers=0)], supervisor={"node": f"host{i}", "lease": "2s"}, metrics=metrics(pages[i])))
    c.lpush("ingress:mail", "x")

    def sizes():
        return [p("quredis_queue_messages", queue="mail", list="ingress") for p in pages]

    wait_for(lambda: sorted(map(str, sizes())) == ["1.0", "None"], 30)
    first = sizes().index(1)
    hosts[first].kill_tree()
    wait_for(lambda: sizes()[1 - first] == 1, 30)
    assert hosts[1 - first].stop() == 0


def alerts_that_lack(heads, rules):
    """Those of which no alternative of the expression is about figures of the page with these heads alone."""
    lacking = set()
    for name, expression in re.findall(r"- alert: (\w+)\n\s+expr: (.*?)\n        (?=for|labels)", rules, re.S):
        ways = [{re.sub(r"_(bucket|sum|count)$", "", n) for n in re.findall(r"\bquredis_\w+", way)} for way in re.split(r"\bor time\(\)", expression)]
        lacking |= set() if any(way and way <= heads for way in ways) else {name}
    return lacking


def test_alert_rules_are_about_figures_that_are_there(redis, quredisd, handler, page, console):
    """Each is about figures of the file and about figures of the console, but for the two that only the console's tell."""
    rules = (ROOT / "etc/prometheus/quredis.rules.yml").read_text()
    _, d = busy(redis, quredisd, handler, page)
    file, web = (set(re.findall(r"^# TYPE (\w+)", text, re.M)) for text in (page.path.read_text(), console().ask("/metrics").body.decode()))
    assert alerts_that_lack(set(), rules) == set(re.findall(r"alert: (\w+)", rules))
    assert alerts_that_lack(web, rules) == set() and alerts_that_lack(file, rules) == {"QuredisSupervisorGone", "QuredisConsoleGone"}
    assert d.stop() == 0


@needs_promtool
def test_alert_rules():
    for words in (["check", "rules", "etc/prometheus/quredis.rules.yml"], ["test", "rules", "tests/alerts/quredis.test.yml"]):
        done = subprocess.run([PROMTOOL, *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
