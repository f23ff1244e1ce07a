"""Fixtures; harness/__init__.py says how to use them."""
import contextlib
import itertools
import os
import pathlib
import shutil
import signal
import tempfile
import uuid

import pytest

from harness import BUILD, Ledger, QUREDIS, QUREDISD, Quredisd, RedisProxy, RedisServer, SANITIZED, run_quredis, write_handler
from crashpoints.lane import Lane
from harness import containers as namespaces
from harness import reach
from harness.clinic import Clinic, InfoProxy, make_shim
from harness.console import Console
from harness.daemon import wait_gone
from harness.processes import become_subreaper, children_heed_signals, kill_and_wait, nothing_to_read, title_of
from harness.queues import Queue
from harness.sentinels import Watched
from harness.terminal import Terminal
from harness.waiting import PATIENCE

TEST_LIMIT_S = 120
LONG_S = 600        # a test that may take so long begins first; so does one that waits for a minute, and costs nothing
# the environment of the tests; what else begins so is for the programs
OURS = ("QUREDIS_BUILD", "QUREDIS_CRASHPOINTS_SEED", "QUREDIS_SYSTEMD", "QUREDIS_TEST_AGAIN", "QUREDIS_TEST_DEAD_LETTERS", "QUREDIS_TEST_PICTURES",
        "QUREDIS_TEST_REACH", "QUREDIS_TEST_SERVER", "QUREDIS_VALGRIND")
LEAVE_S = 12        # how long what a killed master left may take to vanish: kill_grace + 2 s, and a slow machine


def pytest_configure(config):
    config.addinivalue_line("markers", "limit(seconds): how long this test may take (120) on a quiet machine")
    config.addinivalue_line("markers", "verdict: chance decides what is tried: one failure is enough (tests/run)")
    become_subreaper()
    children_heed_signals()
    if not config.getoption("usepdb"):
        nothing_to_read()
    for key in [k for k in os.environ if k.startswith("QUREDIS_") and k not in OURS]:
        del os.environ[key]
    os.environ["QUREDIS_BUILD"] = str(BUILD)


def pytest_collection_modifyitems(config, items):
    """At a second run of what failed."""
    if os.environ.get("QUREDIS_TEST_AGAIN"):
        for item in items:      # skipped, not left out: if none of the failed ones is there, pytest runs all tests
            if item.get_closest_marker("verdict"):
                item.add_marker(pytest.mark.skip(reason="chance decides what it tries, so one failure is enough"))
    for item in items:
        if reason := reach.why_absent(item.path.name, {item.originalname, *item.fixturenames}):
            item.add_marker(pytest.mark.skip(reason=reason))
    items[:] = long_ones_first(items, getattr(config, "workerinput", {}).get("workercount", 1))


def limit_of(item):
    marker = item.get_closest_marker("limit")
    return marker.args[0] if marker else TEST_LIMIT_S


def long_ones_first(items, processes):
    """xdist begins with a quarter of each process's share, in the order of the tests: the longest stand at the head of these, one or two in
    each, so that no process has many of them, and none waits for one at the end."""
    long = sorted((i for i in items if limit_of(i) >= LONG_S), key=limit_of, reverse=True)
    others = iter([i for i in items if limit_of(i) < LONG_S])
    share = max(2, len(items) // processes // 4)
    heads = [long[n::processes] for n in range(processes)]
    return [item for head in heads for item in (*head, *itertools.islice(others, max(0, share - len(head))))] + list(others)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.passed = outcome.get_result().passed


@pytest.fixture(autouse=True)
def _limit(request):
    """No test hangs for ever."""
    seconds = limit_of(request.node) * PATIENCE

    def expired(signum, frame):
        raise TimeoutError(f"the test took longer than {seconds} s")
    old = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.fixture
def tag():
    """Names the test's processes; also the node of its daemons."""
    return "t" + uuid.uuid4().hex[:12]


@pytest.fixture
def tmp(request, tag):
    path = pathlib.Path(tempfile.mkdtemp(prefix="qr."))
    os.chmod(path, 0o755)
    os.environ["ASAN_OPTIONS"] = f"allocator_may_return_null=1:log_path={path}/san.asan"
    os.environ["UBSAN_OPTIONS"] = f"print_stacktrace=1:log_path={path}/san.ubsan"
    yield path
    del os.environ["ASAN_OPTIONS"], os.environ["UBSAN_OPTIONS"]
    reports = "\n".join(p.read_text(errors="replace") for p in path.glob("san.*"))
    if getattr(request.node, "passed", False) and not reports:
        shutil.rmtree(path, ignore_errors=True)
    else:
        print(f"\nkept: {path}")
    assert not reports, reports


class Machine:
    """Everything one test started."""

    def __init__(self, tmp, tag, producer=False):
        self.producer = producer            # tests push with the access list of a producer
        self.tmp, self.tag, self.servers, self.daemons, self.proxies, self.watched = tmp, tag, [], [], [], []
        self.containers, self.ways = None, []

    def _add_way(self, way):
        """What a server or a proxy needs so that it is reached as QUREDIS_TEST_REACH says (harness/reach.py)."""
        if way:
            self.ways.append(way)

    def server(self, start=True, **options):
        server = RedisServer(self.tmp / f"r{len(self.servers)}", tag=self.tag, prefix=reach.PREFIX,
                             **{"producer": self.producer, **reach.server_options(), **options})
        self.servers.append(server)
        self._add_way(reach.register_server(server, self.tmp / f"s{len(self.ways)}", self.tag))
        return server.start() if start else server

    def proxy(self, server, tap=None):
        (self.tmp / f"p{len(self.proxies)}").mkdir()
        self.proxies.append(RedisProxy(self.tmp / f"p{len(self.proxies)}", server, tap, **reach.proxy_options()))
        self._add_way(reach.register_proxy(self.proxies[-1]))
        return self.proxies[-1]

    def sentinels(self, **options):
        self.watched.append(Watched(self.tmp / f"w{len(self.watched)}", tag=self.tag, **options))
        return self.watched[-1]

    def daemon(self, start=True, wait=True, **options):
        daemon = Quredisd(self.tmp / f"d{len(self.daemons)}", tag=self.tag, **options)
        self.daemons.append(daemon)
        return daemon.start(wait) if start else daemon

    def close(self):
        wrong = [w for w in [d.close() for d in self.daemons] if w]
        own = {s.pid for s in self.servers + self.ways} | (self.containers.pids if self.containers else set()) | {p for w in self.watched for p in w.pids}
        left = wait_gone(self.tag, own, LEAVE_S)
        if left:
            wrong.append("left over: " + ", ".join(f"{p} ({title_of(p)})" for p in left))
            kill_and_wait(left)
        for thing in self.proxies + self.servers + self.ways + self.watched + [self.containers]:
            if thing:
                thing.close()
        wrong += [line for d in self.daemons for line in d.sanitizer_lines()]
        for daemon in self.daemons:
            print(f"---- log of {daemon.dir}\n{daemon.text()}")
        assert not wrong, "\n".join(wrong)


@pytest.fixture
def machine(request, tmp, tag):
    m = Machine(tmp, tag, producer=request.node.path.parent.name == "promises")
    yield m
    try:
        m.close()
    except AssertionError:
        request.node.passed = False
        raise


@pytest.fixture
def redis_server(machine):
    return machine.server


@pytest.fixture
def sentinels(machine):
    return machine.sentinels


@pytest.fixture
def containers(machine):
    reason = namespaces.why_not()
    if reason:
        pytest.skip(reason)
    machine.containers = namespaces.Containers()
    return machine.containers


@pytest.fixture
def redis_proxy(machine):
    return machine.proxy


@pytest.fixture
def redis(machine):
    return machine.server()


@pytest.fixture
def quredisd(request, machine):
    assert QUREDISD.exists(), f"{QUREDISD} is not built"

    def make(**options):
        if "redis" not in options:
            options["redis"] = request.getfixturevalue("redis")
        return machine.daemon(**options)
    return make


@pytest.fixture
def handler(tmp):
    def write(body, lang="sh", name=None):
        body = body.replace("@TMP@", str(tmp)).replace("@LEDGER@", str(tmp / "ledger"))
        return write_handler(tmp / "h", body, lang, name)
    return write


@pytest.fixture
def ledger(tmp, handler):
    return Ledger(tmp / "ledger", handler)


@pytest.fixture
def terminal(redis):
    made = []

    def make(*args, url=None, **options):
        made.append(Terminal(url or redis.url, *args, **options))
        return made[-1]
    yield make
    for t in made:
        if t.process.poll() is None:
            t.process.kill()
            t.process.wait()


@pytest.fixture
def quredis(request, tag):
    assert QUREDIS.exists(), f"{QUREDIS} is not built"

    def run(*args, conf=None, url=None, **options):
        where = ["-c", conf] if conf else ["-u", url or request.getfixturevalue("redis").url]
        return run_quredis(*where, *args, tag=tag, **options)
    return run


@contextlib.contextmanager
def open_lane(**options):
    directory = tempfile.mkdtemp(prefix="qc.")
    os.chmod(directory, 0o755)
    lane = Lane(directory, **options)
    yield lane
    lane.close()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def lane():
    """For crash points: a redis-server and a directory that tests of a file share."""
    with open_lane() as lane:
        yield lane


@pytest.fixture(scope="module")
def tls_lane():
    """The same, and the daemon reaches Redis with TLS."""
    with open_lane(tls=True) as lane:
        yield lane


@pytest.fixture
def clinic(machine, handler, tmp):
    """For quredis doctor: harness/clinic.py."""
    return Clinic(machine, handler, tmp)


@pytest.fixture
def edited(clinic, tmp):
    """edited(pattern, text): returns the address of a proxy to the clinic's Redis, which replaces the pattern in the answer to INFO."""
    proxies = []

    def make(pattern, text):
        proxies.append(InfoProxy(tmp / f"x{len(proxies)}", clinic.server, pattern, text))
        return proxies[-1].url
    yield make
    for p in proxies:
        p.close()


@pytest.fixture
def shim(tmp):
    """An environment with a preloaded library that returns false answers to quredis."""
    if SANITIZED:
        pytest.skip("a sanitizer must come first")
    return make_shim(tmp)


@pytest.fixture
def console(tmp, redis, tag):
    made = []

    def make(server=redis, **options):
        made.append(Console(tmp / f"w{len(made)}", server, tag, **options))
        return made[-1]
    yield make
    for c in made:
        print(f"---- log of {c.dir}\n{c.text()}")
        c.close()


@pytest.fixture
def web(console, redis):
    Queue(redis.client())
    return console()
