"""How to test quredis.

A test asks for fixtures (tests/conftest.py) and gets a machine of its own: a temporary directory, a
private redis-server, the daemon, its log. Nothing is shared, everything started is stopped, and the
test fails if a process is left over or a sanitizer spoke.

    from harness import queue, wait_for

    def test_failure_escapes(redis, quredisd, handler):
        fail = handler("cat >/dev/null; echo no such user >&2; exit 3")
        d = quredisd(queues=[queue("mail", fail, workers=1)])      # written, started, ready
        redis.client().lpush("ingress:mail", b"any\\0bytes")
        wait_for(lambda: redis.client().llen("escape:mail") == 1)
        assert d.wait_event("message_escaped", queue="mail")["class"] == "HandlerExit"
        assert d.stop() == 0

Fixtures
    tmp         pathlib.Path, short enough for unix sockets, 0755, removed when the test passed
    redis       a started RedisServer on a unix socket without persistence; `redis_server(...)` makes
                others: redis_server(aof="always"), redis_server(tcp=True), redis_server(config={...}),
                redis_server(tls=Authority(tmp / "ca").sign("server", "IP:127.0.0.1"))
    containers  containers.container() has mounts, processes and a network of its own (harness/containers.py); the test
                is skipped where that is not permitted
    redis_proxy redis_proxy(server) -> RedisProxy: cuts, refuses, stalls, loses a request or a reply;
                give it to quredisd(redis=proxy). redis_proxy(server, tap): a Tap (harness/redis_proxy.py) hears
                each command and answer, and may act on it
    quredisd    factory of Quredisd; quredisd(queues=[...], supervisor={...}, log={...}, redis=SERVER)
                start=False only writes the configuration, wait=False does not wait for `ready`
    handler     handler(body, "sh"|"python", name=None) -> path of an executable. @TMP@ and @LEDGER@
                in body are replaced
    ledger      lines that handlers append (O_APPEND): ledger.lines(), ledger.count("x"), ledger.rows("start");
                ledger.recorder(exit=0) is a handler that notes each run with its payload: ledger.runs()
    quredis     quredis("ls", "--json", input=b"", conf=PATH) -> Result(code, out, err);
                talks to `redis` unless conf= or url= says otherwise. d.quredis(...) uses d's configuration

Rules
    Wait for conditions (wait_for, d.wait_event, d.wait_exit), never sleep to synchronise.
    No upper bound on time tighter than ten times what it takes; the machine may be loaded.
    Kill by pid only what the test started. A test may take 120 s; @pytest.mark.limit(300) allows more.
    QUREDIS_TEST_SERVER names the server that is started instead of redis-server, for example valkey-server.
    QUREDIS_TEST_REACH says how programs reach it: tls, sentinel, cluster (harness/reach.py). Tests need not know.
    QUREDIS_TEST_DEAD_LETTERS says how many dead letters the tests of their operations make (4000).
    QUREDIS_BUILD names the directory of the binaries (build/release); build/san runs the same tests
    under sanitizers.
    The daemon's node is the test's tag (unless supervisor={"node": ...}): handlers are recognised as
    the test's own by QUREDIS_INCARNATION=<tag>..., everything else by QUREDIS_TEST_TAG.
"""
from .config import queue, render
from .consumer import PlainConsumer
from .containers import unshared
from .daemon import FakeNotifySocket, Quredisd
from .handlers import Ledger, write_handler
from .paths import BUILD, QUREDIS, QUREDISD, ROOT, SANITIZED, SERVER, VERSION
from .processes import alive, children_of, descendants_of, environment_of, high_water_kib, leave_one_descriptor, open_files, pss_kib, title_of
from .program import Result, run_quredis
from .redis_proxy import CUT, RedisProxy, Tap, Watch
from .redis_server import RedisServer, free_port
from .tls import Authority
from .waiting import wait_for

__all__ = [
    "Authority", "BUILD", "CUT", "FakeNotifySocket", "Ledger", "PlainConsumer", "QUREDIS", "QUREDISD", "Quredisd", "ROOT", "RedisProxy", "RedisServer",
    "Result", "SANITIZED", "SERVER", "Tap", "VERSION", "Watch", "alive", "children_of", "descendants_of", "environment_of", "free_port", "high_water_kib",
    "open_files", "pss_kib", "queue", "render", "run_quredis", "title_of", "unshared", "wait_for", "write_handler",
]
