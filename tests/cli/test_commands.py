"""quredis: words, options, exit codes, and the commands that show and push."""
import base64
import json
import os
import re
import shlex
import signal
import subprocess

import pytest

from harness import QUREDIS, render, wait_for
from harness.queues import Queue, dumps, incarnation, now_ms, strip, wrapper
from harness.messages import sealed
from harness.program import run_quredis

# ---- words and exit codes ----


def test_version(quredis):
    assert quredis("version").out.startswith("quredis ")
    assert quredis("--version").out == quredis("version").out
    said = json.loads(quredis("version", "--json").out)
    assert set(said["libraries"]) == {"hiredis", "OpenSSL", "jansson", "libevent"}
    assert quredis("version").out == "".join(f"{name} {of}\n" for name, of in [("quredis", said["version"]), *said["libraries"].items()])


def test_help_lists_what_works(quredis):
    r = quredis("help")
    assert r.code == 0 and r.err == ""
    tasks = [[line.split()[1] for line in task.splitlines() if line.startswith("  quredis ")] for task in r.out.split("\n\n")]
    assert [task == sorted(task) for task in tasks] == [True] * 7 and [len(task) > 1 for task in tasks] == [True] * 6 + [False]
    words = sum(tasks, [])
    assert set(words) == set("cancel completion destroy dlq doctor done health help init ls nodes operations pause peek purge push quiet reload "
                             "restart resume retry rm run scale schedule stale stats status stop top trend version web".split())
    # the gem's words, columns and comment
    assert any(line.split("#")[1].strip() == "list queues" for line in r.out.splitlines() if line.startswith("  quredis ls "))


def test_every_command_has_its_help(quredis):
    for line in quredis("help").out.splitlines():
        if not line.startswith("  quredis "):
            continue
        words = [w for w in line.split("#")[0].split()[1:] if w.islower()]
        r = quredis("help", *words)
        assert r.code == 0 and r.out.startswith(f"Usage:\n  quredis {' '.join(words)}"), line
        assert quredis(*words, "--help").out == r.out
        example = shlex.split(r.out.split("\nExample:\n  ")[1].splitlines()[0].split(" >")[0])
        assert example[:1 + len(words)] == ["quredis", *words] and quredis(*example[1:], "--help").out == r.out, example     # its options and words exist


def test_help_fits_and_examples_stay_in_sight(quredis):
    """Without a terminal it is 80 columns wide. The description and the example of a command stand before its options, and those of every command elsewhere."""
    words = [line.split("#")[0].split()[1:] for line in quredis("help").out.splitlines() if line.startswith("  quredis ")]
    pages = {name: quredis("help", *name.split()).out for name in ["", "options", "dlq"] + [" ".join(w for w in line if w.islower()) for line in words]}
    assert max(len(line) for page in pages.values() for line in page.splitlines()) <= 80
    page = pages["dlq retry"]
    assert "\nletters have it, the newest is taken. With --canary" in page and "such as [=N]" not in page
    assert page.index("Usage:") < page.index("ID is the id") < page.index("Example:") < page.index("Options:") < page.index("quredis help options")
    assert "only this error class (HandlerExit, TTLExpired,\n" + " " * 30 + "...)\n" in page
    assert all("--dry-run  " not in p or n in ("", "options") for n, p in pages.items() if n not in ("doctor", "purge")), pages
    assert len(pages["ls"].splitlines()) < 12 and "--redis-host" in pages["options"] and pages["options"] in pages[""]


@pytest.mark.parametrize("columns", [10, 40, 80, 200])
def test_help_fits_the_terminal(terminal, columns):
    t = terminal("help", "doctor", columns=columns)
    assert t.end() == 0
    lines = t.text.replace("\r", "").splitlines()
    assert max(map(len, lines)) <= max(columns, 42)         # an option and a word of its text
    assert columns < 200 or max(map(len, lines)) > 120
    assert "".join(quredis_words(t.text)) == "".join(quredis_words(run_quredis("help", "doctor").out))


def quredis_words(text):
    return [w for w in text.split() if w != "#"]


def test_long_notices_wrap_on_a_terminal(terminal, redis):
    t = terminal("push", "mail", "--at")
    assert t.end() == 64
    lines = t.text.replace("\r", "").splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= 80 and all(line.startswith("  ") for line in lines[1:])
    assert " ".join(lines[0:1] + [line.strip() for line in lines[1:]]).endswith("or a duration from now on (1h30m)")


def test_no_command_is_a_mistake(quredis):
    r = quredis()
    assert r.code == 64 and r.out == "" and "Dead letters:" in r.err
    assert quredis("-h").code == 0


@pytest.mark.parametrize("group, words", [("dlq", "export import ls retry rm show stats"), ("done", "ls")])
def test_the_first_of_two_words_lists_what_can_follow(quredis, group, words):
    r = quredis("help", group)
    lines = [line.split() for line in r.out.splitlines() if line.startswith("  quredis ")]
    assert r.code == 0 and r.err == "" and [line[2] for line in lines] == words.split()
    assert all(line[:2] == ["quredis", group] and "#" in line for line in lines)
    assert (a := quredis(group)).code == 64 and a.out == "" and a.err == r.out
    assert quredis(group, "--help").out == r.out and quredis(group, "--help").code == 0
    assert quredis("help", "ls").out.startswith("Usage:")


@pytest.mark.parametrize("words, said", [
    (["purgee", "mail", "escape"], "no command purgee (did you mean purge?)"),
    (["dlq", "lss", "mail"], "no command dlq lss (did you mean dlq ls?)"),
    (["dql", "ls", "mail"], "no command dql ls (did you mean dlq ls?)"),
    (["dlqq", "sl", "mail"], "no command dlqq sl (did you mean dlq ls?)"),
    (["doen", "ls", "mail"], "no command doen ls (did you mean done ls?)"),
    (["dql", "nonsense", "mail"], "no command dql (did you mean dlq?)"),
    (["dlq", "nonsense", "mail"], "no command dlq nonsense; quredis help dlq lists them"),
    (["stauts"], "no command stauts (did you mean stats or status?)"),
    (["done", "lss", "mail"], "no command done lss (did you mean done ls?)"),
    (["nonsense"], "no command nonsense; quredis help lists them"),
    (["ls", "--formt"], "unknown option --formt; ls takes only the options of every command: quredis help options\n"),
    (["--formt", "stats"], "unknown option --formt; stats takes --since, and the options of every command: quredis help options\n"),
    (["--formt", "dlq", "rm"], "unknown option --formt; dlq rm takes --class, --cause, --text, --exit, --worker, --root, --all, --anew, "
     "--foreground, --no-wait, --since, --until, and"),
    (["--formt"], "unknown option --formt; the options of every command: quredis help options\n"),
    (["stats", "--sinec=1h"], "unknown option --sinec=1h (did you mean --since?)\n"),
    (["ls", "--sinec", "1h"], "unknown option --sinec; ls takes only the options"),
    (["--formt", "ls", "--limit"], "option --limit requires an argument"),
    (["--jsno", "ls"], "unknown option --jsno (did you mean --json?)"),
    (["-x", "ls"], "unknown option -x; ls takes only"),
    (["ls", "--json", "-Zj"], "unknown option -Z; ls takes only"),
    (["--color=alwys", "ls"], "--color: expected auto, always or never, not alwys (did you mean always?)\n"),
    (["--color", "ls"], "--color: expected auto, always or never, not ls\n"),
    (["--color=", "ls"], "--color: expected auto, always or never, not an empty word\n"),
    (["--colour=never", "ls"], "unknown option --colour=never (did you mean --color?)"),
    (["ls", "--limit"], "option --limit requires an argument: a number from 0 on\n"),
    (["push", "mail", "--at"], "option --at requires an argument: a time to come, as it is printed (2026-11-23T02:10:05Z), a time of day"),
    (["push", "mail", "-d"], "option -d requires an argument: a duration like 250ms, 30s"),
    (["dlq", "retry", "mail", "--rate"], "option --rate requires an argument: a number and /s, /m or /h, such as 50/s\n"),
    (["ls", "--color"], "option --color requires an argument: auto, always or never\n"),
    (["-u"], "option -u requires an argument: an address, such as redis://redis1:6379/0"),
    (["ls", "--limit", "3"], "ls has no option --limit"),
    (["push", "mail", "--delay", "soon"], "--delay: soon is not a duration"),
    (["-P", "70000", "ls"], "--redis-port: 70000 is not a number from 1 to 65535"),
    (["purge", "mail"], "usage: quredis purge QUEUE TYPE; TYPE is ingress, transit, escape (with its records) or delayed\n"),
    (["peek"], "usage: quredis peek QUEUE TYPE; TYPE is ingress, transit, escape or delayed\n"),
    (["nodes", "mail"], "unexpected argument mail; usage: quredis nodes\n"),
    (["status", "mail", "news"], "unexpected argument news; usage: quredis status [QUEUE]\n"),
    (["purge", "mail", "ingres"], "no such type: ingres (did you mean ingress?)"),
    (["retry", "mail", "ingress"], "type ingress is not one of transit escape delayed"),
    (["scale", "mail"], "usage: quredis scale QUEUE WORKERS\n"),
    (["dlq", "rm", "mail"], "usage: quredis dlq rm QUEUE ID...|--all"),
    (["push", "mail", "--lines", "--null"], "--lines and --null cannot be combined"),
    (["cancel", "--retry", "--escape", "mail", "x"], "--retry and --escape cannot be combined"),
    (["push", "mail", "--lines", "x"], "no MESSAGE"),
    (["push", "mail", "x", "--id", "a b"], "--id: expected 1 to 128 letters"),
])
def test_usage(quredis, redis, words, said):
    Queue(redis.client())
    before = dumps(redis.client())
    r = quredis(*words)
    assert (r.code, r.out) == (64, "") and r.err.startswith("quredis: ") and said in r.err and r.err.count("\n") == 1
    assert dumps(redis.client()) == before


def test_options_stand_anywhere(redis):
    Queue(redis.client())
    env = {**os.environ, "POSIXLY_CORRECT": "1"}
    outs = [subprocess.run([QUREDIS, *argv], stdout=subprocess.PIPE, check=True, env=env).stdout
            for argv in (["-u", redis.url, "--json", "ls"], ["ls", "--json", "-u", redis.url], ["ls", "-j", f"--url={redis.url}"])]
    assert outs[0] == outs[1] == outs[2] and json.loads(outs[0])


def test_host_and_port_as_in_the_gem(redis_server, quredis, tmp):
    server = redis_server(tcp=True)
    Queue(server.client())
    conf = tmp / "quredis.conf"
    conf.write_text(render({"redis": {"url": "unix:///nowhere/at/all"}}))
    r = quredis("ls", "-H", "127.0.0.1", "-P", server.port, conf=conf)
    assert r.code == 0 and "ingress:mail (0)" in r.out
    assert quredis("ls", "-P", server.port, conf=conf).code == 0
    r = quredis("-H", "127.0.0.1", "ls", url=server.url)
    assert r.code == 64


@pytest.mark.parametrize("group, words, said", [
    ({"sentinels": ["127.0.0.1:1"], "master": "m"}, ["-P", 7], (64, "the configuration names Sentinels: give the host, too: -H HOST -P 7")),
    ({"sentinels": ["127.0.0.1:1"], "master": "m"}, ["-H", "127.0.0.9"], (69, "redis://127.0.0.9:6379/0")),
    ({"url": "redis://127.0.0.1:1,127.0.0.1:2/3"}, ["-P", 7], (64, "the configuration names several servers: give the host, too: -H HOST -P 7")),
    ({"url": "redis://127.0.0.1:1,127.0.0.1:2/3"}, ["-H", "a"], (64, "the configuration names several servers: give the port, too: -H a -P PORT")),
    ({"url": "redis://127.0.0.1:1,127.0.0.1:2/3"}, ["-H", "127.0.0.9", "-P", 7], (69, "redis://127.0.0.9:7/3")),
    ({"url": "redis://127.0.0.1:1/3"}, ["-H", ""], (64, "-H requires a host")),
])
def test_a_part_of_an_address(tmp, group, words, said):
    """Only one server's address has parts to replace: the host or port of a Sentinel is not that of Redis."""
    (tmp / "quredis.conf").write_text(render({"redis": group}))
    r = run_quredis("-c", tmp / "quredis.conf", *words, "ls")
    assert r.code == said[0] and said[1] in r.err and r.out == "", r


@pytest.mark.parametrize("name, said", [("mial", "no queue mial (did you mean mail?)"),
                                        ("zzzzzz", "no queue zzzzzz in the configuration or the registry"),
                                        ("a\nb\x1b[1m", r"no queue a\nb\033[1m in")])
def test_unknown_queue(quredis, redis, name, said):
    Queue(redis.client())
    for words in ("purge @ escape", "push @ x", "peek @ ingress", "destroy @", "pause @", "dlq ls @"):
        r = quredis(*[name if w == "@" else w for w in words.split()])
        assert (r.code, r.out) == (66, "") and said in r.err and r.err.count("\n") == 1, (words, r)


def test_queue_of_the_configuration(quredis, redis, tmp):
    conf = tmp / "quredis.conf"
    conf.write_text(render({"redis": {"url": redis.url}, "queues": [
        {"name": "later", "ingress": "read_later", "transit": "reading_now", "escape": "trash", "handler": ["/no/such/file"]}]}))
    assert quredis("push", "later", "x", conf=conf).code == 0
    assert redis.client().lrange("read_later", 0, -1) == [b"x"]
    row = json.loads(quredis("ls", "--json", conf=conf).out)[0]
    assert row["configured"] is True and row["ingress_size"] == 1
    assert "did you mean later?" in quredis("push", "latr", "x", conf=conf).err


def test_broken_configuration(quredis, tmp):
    conf = tmp / "quredis.conf"
    conf.write_text("queues = ( { name = \"a\"; wrokers = 3; } );\n")
    r = quredis("ls", conf=conf)
    assert r.code == 78 and r.out == "" and "wrokers" in r.err and "workers" in r.err and f"{conf}:1" in r.err
    assert quredis("ls", conf=tmp / "absent").code == 78


def test_environment_names_redis(redis):
    Queue(redis.client())
    env = {**os.environ, "QUREDIS_REDIS_URL": redis.url}
    r = subprocess.run([QUREDIS, "ls"], stdout=subprocess.PIPE, env=env, check=True)
    assert b"ingress:mail (0)" in r.stdout


def test_redis_away(quredis, tmp):
    for words in (["ls"], ["push", "mail", "x"], ["purge", "mail", "escape"]):
        r = quredis(*words, url=f"unix://{tmp}/none")
        assert (r.code, r.out) == (69, "") and f"unix://{tmp}/none" in r.err and r.err.count("\n") == 1
    assert quredis("ls", url="redis://127.0.0.1:1").code == 69
    assert quredis("ls", url="http://x").code == 64


def test_password(redis_server, quredis, tmp):
    server = redis_server(config={"requirepass": "s3cret"})
    Queue(server.client())
    r = quredis("ls", url=server.url)
    assert r.code == 77 and "NOAUTH" in r.err
    secret, conf = tmp / "pass", tmp / "quredis.conf"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    conf.write_text(render({"redis": {"url": server.url, "password_file": str(secret)}}))
    assert quredis("ls", conf=conf).code == 0
    # what is configured is not sent to whatever -u names
    r = subprocess.run([QUREDIS, "-c", conf, "-u", server.url, "ls"], stderr=subprocess.PIPE)
    assert r.returncode == 77 and b"NOAUTH" in r.stderr
    r = quredis("ls", url="redis://:wrong@127.0.0.1:1/0")
    assert r.code == 69 and "wrong" not in r.out + r.err and "command line" in r.err
    # a secret that this user cannot read matters only where it is needed
    conf.write_text(render({"redis": {"url": server.url, "password_file": "credential"}, "supervisor": {"control_socket": f"{tmp}/c"}}))
    r = quredis("ls", conf=conf)
    assert r.code == 77 and "NOAUTH" in r.err and "redis.password_file" in r.err
    assert quredis("status", conf=conf).code == 69


def test_permission(redis_server, quredis):
    server = redis_server()
    Queue(server.client())
    server.client().execute_command("ACL", "SETUSER", "default", "-flushall", "-lpush")
    r = quredis("push", "mail", "x", url=server.url)
    assert r.code == 77 and "NOPERM" in r.err and "ingress:mail" in r.err


def test_output_that_cannot_be_written(redis):
    Queue(redis.client())
    with open("/dev/full", "w") as full:
        r = subprocess.run([QUREDIS, "-u", redis.url, "ls"], stdout=full, stderr=subprocess.PIPE)
    assert r.returncode == 74 and b"No space left" in r.stderr


def closed_pipe(*words):
    """What a command says on standard error if nobody reads its output."""
    r, w = os.pipe()
    os.close(r)
    done = subprocess.run([QUREDIS, *words], stdout=w, stderr=subprocess.PIPE)
    os.close(w)
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", [["ls"], ["dlq", "ls", "mail"], ["dlq", "export", "mail"], ["dlq", "export", "mail", "--json"], ["peek", "mail", "escape"],
                                   ["help"], ["peek", "mail", "escape", "--json"]], ids=" ".join)
def test_a_reader_that_has_gone_is_no_error_of_a_terminal(redis, words):
    Queue(redis.client()).dead_letters(*[b"%d" % i * 100 for i in range(60)])
    assert closed_pipe("-u", redis.url, *words) in [(74, said) for said in (b"", b"50 shown of 60 dead letters\n", b"60 shown of 60 messages\n")]


def test_a_full_disk_in_the_middle_names_no_other_reason(redis):
    """The first write fails long before the end, and calls after it change errno."""
    Queue(redis.client()).dead_letters(*[b"%d" % i * 100 for i in range(60)])
    with open("/dev/full", "w") as full:
        r = subprocess.run([QUREDIS, "-u", redis.url, "dlq", "ls", "mail"], stdout=full, stderr=subprocess.PIPE)
    assert r.returncode == 74 and b"ioctl" not in r.stderr
    assert r.stderr.splitlines(True)[-1] in (b"quredis: standard output: not all of the output could be written\n",
        b"quredis: standard output: No space left on device\n")


# ---- ls ----

def test_ls_like_the_gem(quredis, redis):
    Queue(redis.client(), "mail", "read_later", "reading_now", "trash")
    Queue(redis.client(), "a")
    redis.client().lpush("read_later", *"xyz")
    redis.client().lpush("trash", "q")
    redis.client().zadd("quredis:of:ingress:a:delayed", {"later": 1, "still": 2})
    redis.client().set("quredis:of:read_later:paused", "{}")
    assert quredis("ls").out == ("  Name  Ingress         Transit          Escape        Delayed  Paused\n"
                                 "  a     ingress:a (0)   transit:a (0)    escape:a (0)        2  no\n"
                                 "  mail  read_later (3)  reading_now (0)  trash (1)           0  yes\n")


def test_ls_sums_every_tray(quredis, redis):
    q = Queue(redis.client())
    q.worker(incarnation(0), t0=["a"], t2=["b", "c"])
    q.worker(incarnation(1), alive=False, t1=["d"], rescue=["e"])
    redis.client().rpush(q.transit, "f")
    redis.client().rpush(q.transit + ":rescue", "g")
    redis.client().zadd(q.delayed, {"h": 1})
    redis.client().set(q.paused, "{}")
    assert "transit:mail (7)" in quredis("ls").out
    row, = json.loads(quredis("ls", "--json").out)
    assert row == {"name": "mail", "ingress": q.ingress, "transit": q.transit, "escape": q.escape, "ingress_size": 0,
                   "transit_size": 7, "escape_size": 0, "delayed_size": 1, "paused": True, "configured": False}


def test_ls_of_some(quredis, redis):
    for name in "abc":
        Queue(redis.client(), name)
    assert [row["name"] for row in json.loads(quredis("ls", "c", "a", "--json").out)] == ["a", "c"]
    r = quredis("ls", "a", "no-such")
    assert r.code != 0 and "no-such" in r.err and r.out == ""


def test_ls_of_nothing(quredis, redis):
    assert quredis("ls").out == "  Name  Ingress  Transit  Escape  Delayed  Paused\n"
    assert json.loads(quredis("ls", "--json").out) == []


def test_ls_with_wrong_types(quredis, redis):
    Queue(redis.client(), "bad")
    Queue(redis.client(), "good")
    redis.client().set("ingress:bad", "x")
    redis.client().lpush("ingress:good", "x")
    redis.client().zadd("quredis:queues", {"odd": 1, b"b\x00d": 1})
    redis.client().set("quredis:queue:odd", "no json")
    r = quredis("ls")
    assert r.code == 78 and "ingress:bad (wrong type)" in r.out and "ingress:good (1)" in r.out and "odd" in r.err
    assert quredis("ls", "--json").code == 78
    redis.client().delete("quredis:queues")
    redis.client().set("quredis:queues", "x")
    redis.client().delete("quredis:queues")
    redis.client().set("quredis:health", "x")
    r = quredis("health")
    assert "quredis: quredis:health has the wrong type" in r.err, r


def test_ls_of_many(quredis, redis):
    pipe = redis.client().pipeline()
    for i in range(300):
        Queue(pipe, f"q{i:03}")
    pipe.execute()
    rows = json.loads(quredis("ls", "--json").out)
    assert [r["name"] for r in rows] == [f"q{i:03}" for i in range(300)]


# ---- push ----

BYTES = [b"", b"\n", b"\0", b"x" * 100000, b"%n%s", b"\xff\xfe\x00\n", "ü€".encode(), b"quredis/1 id=7\nx", b"-n", b"a\r\nb\n"]


@pytest.mark.parametrize("message", BYTES, ids=range(len(BYTES)))
def test_push_standard_input_byte_for_byte(quredis, redis, message):
    q = Queue(redis.client())
    r = quredis("push", "mail", input=message)
    assert (r.code, r.out) == (0, "pushed 1 message\n")
    assert redis.client().lrange(q.ingress, 0, -1) == [message]


def test_push_argument(quredis, redis):
    q = Queue(redis.client())
    assert quredis("push", "mail", "hello world").code == 0
    assert quredis("push", "mail", "--", "--lines").code == 0
    assert q.fetched() == [b"hello world", b"--lines"]


def test_push_many_in_order(quredis, redis):
    q = Queue(redis.client())
    lines = [b"line %d" % i for i in range(5000)] + [b"", b"\0", b"x" * 300000, b"last"]
    assert json.loads(quredis("push", "mail", "--lines", "--json", input=b"\n".join(lines)).out)["count"] == 5004
    assert q.fetched() == lines
    redis.client().delete(q.ingress)
    assert quredis("push", "mail", "-0", input=b"a\n\0b\0\0c\0").out == "pushed 4 messages\n"
    assert q.fetched() == [b"a\n", b"b", b"", b"c"]


def test_push_nothing(quredis, redis):
    Queue(redis.client())
    assert quredis("push", "mail", "--lines", input=b"").out == "pushed 0 messages\n"


def test_push_with_an_id(quredis, redis):
    q = Queue(redis.client())
    quredis("push", "mail", "--id", "order:7.1", input=b"a\nb")
    assert q.fetched() == [b"quredis/1 id=order:7.1\na\nb"]
    assert json.loads(quredis("peek", "mail", "ingress", "--json").out)[0]["id"] == "order:7.1"


def test_push_at_a_time(quredis, redis):
    c = redis.client()
    q, now = Queue(c), now_ms()
    of_2099 = 4_070_908_800_000 - now
    for at, least, most in (("90m", 5_400_000, 5_460_000), ("1h30m", 5_400_000, 5_460_000),
                            ("2099-01-01T00:00Z", of_2099 - 60_000, of_2099 + 60_000), ("00:00", 0, 86_460_000)):
        assert re.fullmatch(r"pushed 1 message, due 20[0-9T:.-]+Z, in [0-9dhms.]+, id sha1:[0-9a-f]{40}\n", quredis("push", "mail", at, "--at", at).out)
        due, = [score - now for m, score in c.zrange(q.delayed, 0, -1, withscores=True) if strip(m) == at.encode()]
        assert least <= due <= most, at
    assert c.llen(q.ingress) == 0
    said = json.loads(quredis("push", "mail", "x", "--delay", "1h", "--id", "order:7", "--json").out)
    assert said["id"] == "order:7" and quredis("rm", "--yes", "mail", "delayed", "order:7").code == 0
    for words in ("--delay", "1h", "--dry-run"), ("--delay", "0s"), ("--at", "1h", "--dry-run"):
        r = quredis("push", "mail", "x", "--id", "order:7", *words)
        assert r.code == 0 and r.out.rstrip().endswith("id order:7") and ", due 2" in r.out, r
    some = quredis("push", "mail", "--delay", "1h", "--lines", input=b"a\nb\n")
    assert some.out.startswith("pushed 2 messages, due ") and " id " not in some.out


@pytest.mark.parametrize("words, error", [
    (["--at", "2020-01-01"], "--at: 2020-01-01T00:00:00.000Z is in the past"), (["--at", "tomorrow"], "--at: expected a time to come"),
    (["--at", "02:00", "--delay", "5m"], "cannot be combined"),
])
def test_push_at_no_time(quredis, redis, words, error):
    q = Queue(redis.client())
    r = quredis("push", "mail", "x", *words)
    assert r.code == 64 and error in r.err and not redis.client().exists(q.ingress, q.delayed)


def test_push_delayed(quredis, redis):
    q = Queue(redis.client())
    before = now_ms()
    assert quredis("push", "mail", "--lines", "--delay", "5m", input=b"\n".join([b"same"] * 150 + [b"%d" % i for i in range(150)])).code == 0
    after = now_ms()
    entries = redis.client().zrange(q.delayed, 0, -1, withscores=True)
    assert [strip(m) for m, _ in entries] == [b"same"] * 150 + [b"%d" % i for i in range(150)]
    assert all(wrapper(m) for m, _ in entries)
    assert before + 300000 <= entries[0][1] and entries[-1][1] <= after + 300001
    assert not redis.client().exists(q.ingress)


def test_push_says_when_a_message_is_due(quredis, redis):
    """The same as Redis has it, and peek shows it."""
    c = redis.client()
    q = Queue(c)
    for i in range(20):
        said = json.loads(quredis("push", "mail", f"m{i}", "--delay", f"{i + 1}h", "--json").out)
        shown = json.loads(quredis("peek", "mail", "delayed", "--json").out)[i]
        assert (said["due"], said["id"]) == (shown["due"], shown["id"]) and said["due_ms"] == int(c.zrange(q.delayed, i, i, withscores=True)[0][1])
    assert quredis("push", "mail", "x", "--delay", "36501d").code == 64 and c.zcard(q.delayed) == 20


def test_push_at_a_time_is_due_then(quredis, redis):
    """Also many, in their order; the last of 3000 some milliseconds later."""
    c = redis.client()
    q = Queue(c)
    said = quredis("push", "mail", "--lines", "--at", "2040-01-02T03:04:05Z", "--json", input=b"\n".join(b"%d" % i for i in range(3000)))
    assert json.loads(said.out)["due"] == "2040-01-02T03:04:05.000Z"
    entries = c.zrange(q.delayed, 0, -1, withscores=True)
    assert [strip(m) for m, _ in entries] == [b"%d" % i for i in range(3000)] and entries[0][1] == 2209086245000 and entries[-1][1] < 2209086245004


def test_push_dry(quredis, redis):
    Queue(redis.client())
    before = dumps(redis.client())
    assert quredis("push", "mail", "--lines", "--dry-run", input=b"a\nb\n").out == "would push 2 messages\n"
    assert dumps(redis.client()) == before


@pytest.mark.limit(240)
def test_push_in_constant_memory(redis):
    """60 MB of lines through a process that never holds more than a few batches."""
    q = Queue(redis.client())
    p = subprocess.Popen([QUREDIS, "-u", redis.url, "push", "mail", "--lines"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    line = b"x" * 999 + b"\n"
    for _ in range(60):
        p.stdin.write(line * 1000)
    peak = int(next(l for l in open(f"/proc/{p.pid}/status") if l.startswith("VmHWM")).split()[1])
    out, _ = p.communicate()
    assert out == b"pushed 60000 messages\n" and redis.client().llen(q.ingress) == 60000
    if not os.environ.get("QUREDIS_BUILD", "").endswith("san"):
        assert peak < 40 * 1024, f"{peak} KiB"


def test_push_one_large_message(quredis, redis):
    q = Queue(redis.client())
    message = os.urandom(1 << 20) * 24
    assert quredis("push", "mail", input=message, timeout=100).code == 0
    assert redis.client().lindex(q.ingress, 0) == message


@pytest.fixture
def small_conf(tmp, redis):
    """A configuration in which messages of mail may have 1 KiB."""
    conf = tmp / "small.conf"
    conf.write_text(render({"redis": {"url": redis.url}, "queues": [{"name": "mail", "handler": ["/bin/true"], "message_max": "1K"}]}))
    return str(conf)


@pytest.mark.parametrize("options", [[], ["--delay", "5m"], ["--dry-run"], ["--id", "7"]], ids=" ".join)
def test_push_refuses_what_would_escape(quredis, redis, small_conf, options):
    """message_max counts the header, and not a line of quredis."""
    c, header = redis.client(), 15 if "--id" in options else 0
    q = Queue(c)
    r = quredis("push", "mail", *options, input=b"x" * (1025 - header), conf=small_conf)
    assert (r.code, r.out, r.err) == (65, "", "quredis: the message has 1025 bytes, and message_max of mail is 1024: its workers would move it "
                                      "to escape unread\n")
    assert not c.exists(q.ingress, q.delayed)
    assert quredis("push", "mail", *options, input=b"x" * (1024 - header), conf=small_conf).code == 0
    assert c.exists(q.ingress, q.delayed) == (0 if "--dry-run" in options else 1)


def test_a_message_cannot_expire_at_once(quredis, redis):
    Queue(redis.client())
    r = quredis("push", "mail", "x", "--ttl", "0s")
    assert (r.code, r.err) == (64, "quredis: --ttl: expected a time of more than 0\n") and not redis.client().exists("ingress:mail"), r


def test_push_many_ends_at_one_that_is_too_large(quredis, redis, small_conf):
    """What comes before it is pushed, and counted."""
    q = Queue(redis.client())
    lines = [b"%d" % i for i in range(1000)]
    r = quredis("push", "mail", "--lines", input=b"\n".join(lines + [b"x" * 1025, b"after"]), conf=small_conf)
    assert r.code == 65 and q.fetched() == lines
    assert r.err == ("quredis: message 1001 has 1025 bytes, and message_max of mail is 1024: its workers would move it to escape unread\n"
                     "1000 messages were pushed; Redis had not answered 0 more when it failed\n")


def test_push_when_redis_is_full(redis_server, quredis):
    server = redis_server(config={"maxmemory": "3mb", "maxmemory-policy": "noeviction"})
    q = Queue(server.client())
    r = quredis("push", "mail", "--lines", input=b"".join(b"%06d" % i + b"x" * 500 + b"\n" for i in range(10000)), url=server.url)
    assert r.code == 75 and "OOM" in r.err and r.out == ""
    n = int(r.err.split(" messages were pushed")[0].split()[-1])
    got = q.fetched()
    assert n <= len(got) < 10000 and [int(m[:6]) for m in got] == list(range(len(got)))


def test_push_interrupted_says_how_many(redis):
    q = Queue(redis.client())
    p = subprocess.Popen([QUREDIS, "-u", redis.url, "push", "mail", "--lines"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    p.stdin.write(b"".join(b"%d\n" % i for i in range(64 * 200)))
    p.stdin.flush()
    wait_for(lambda: redis.client().llen(q.ingress) >= 64 * 100)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20)
    assert p.returncode == -signal.SIGINT and b"interrupted" in err
    assert int(out.split()[1]) == redis.client().llen(q.ingress)


# ---- peek ----

def test_peek_newest_first_as_the_gem(quredis, redis):
    q = Queue(redis.client())
    redis.client().lpush(q.ingress, *[f"m{i}" for i in range(150)])
    rows = json.loads(quredis("peek", "mail", "ingress", "--json").out)
    assert [r["message"] for r in rows] == [f"m{i}" for i in range(149, 48, -1)] and len(rows) == 101
    assert len(json.loads(quredis("peek", "mail", "ingress", "--json", "-n", "130").out)) == 130
    assert len(json.loads(quredis("peek", "mail", "ingress", "--json", "-n", "1000").out)) == 150
    assert json.loads(quredis("peek", "mail", "ingress", "--json", "-n", "0").out) == []
    lines = quredis("peek", "mail", "ingress", "-n", "2").out.splitlines()
    assert lines[0].split() == ["Size", "Attempts", "Crashes", "Id", "Message"] and lines[1].endswith("m149")


def test_peek_shows_foreign_bytes_safely(quredis, redis):
    q = Queue(redis.client())
    redis.client().lpush(q.ingress, b"\x1b[31m\n\x00\xff\\ \xe2\x80\xaeabc", "grün".encode())
    out = quredis("peek", "mail", "ingress", env={"LC_ALL": "C.UTF-8"}).out
    assert r"\033[31m\n\0\377\\ " in out and "\x1b" not in out and "\u202e" not in out and "grün" in out
    assert all(32 <= ord(c) < 127 or c == "\n" for c in quredis("peek", "mail", "ingress", env={"LC_ALL": "C"}).out)


def test_peek_json_of_binary_messages(quredis, redis):
    q = Queue(redis.client())
    redis.client().lpush(q.ingress, b"\xff\x00", "ü\0".encode())
    text, binary = json.loads(quredis("peek", "mail", "ingress", "--json").out)
    assert text["message"] == "ü\0" and "message_base64" not in text
    assert base64.b64decode(binary["message_base64"]) == b"\xff\x00" and "message" not in binary


def test_peek_reads_the_wrapper(quredis, redis):
    q = Queue(redis.client())
    line = b"quredis/1 w=00000000000000ff attempts=2 crashes=1 redelivered=3 own=1700000000000\nquredis/1 id=x\nbody"
    redis.client().lpush(q.escape, sealed(redis.client(), line))
    row, = json.loads(quredis("peek", "mail", "escape", "--json").out)
    assert (row["attempts"], row["crashes"], row["redelivered"], row["id"]) == (2, 1, 3, "x")
    assert row["message"] == "quredis/1 id=x\nbody" and row["size"] == len("quredis/1 id=x\nbody")
    assert row["waiting_since"] == "2023-11-14T22:13:20.000Z"


def test_peek_transit(quredis, redis):
    q = Queue(redis.client())
    live = q.worker(incarnation(0), pid=77, t0=["b", "a"], t1=["c"])
    dead = q.worker(incarnation(1), pid=78, alive=False, rescue=["d"])
    redis.client().rpush(q.transit, "e")
    rows = json.loads(quredis("peek", "mail", "transit", "--json").out)
    got = {(r["message"], r["worker"], r["pid"], r["alive"]) for r in rows}
    assert got == {("b", live, 77, True), ("a", live, 77, True), ("c", live, 77, True), ("d", dead, 78, False), ("e", None, None, None)}
    assert "Worker" in quredis("peek", "mail", "transit").out.splitlines()[0]
    assert len(json.loads(quredis("peek", "mail", "transit", "--json", "-n", "2").out)) == 2


def test_peek_delayed_what_is_due_first(quredis, redis):
    q = Queue(redis.client())
    redis.client().zadd(q.delayed, {f"m{i}": 1700000000000 + 1000 * i for i in range(150)})
    rows = json.loads(quredis("peek", "mail", "delayed", "--json", "-n", "120").out)
    assert [r["message"] for r in rows] == [f"m{i}" for i in range(120)] and rows[1]["due"] == "2023-11-14T22:13:21.000Z"


def test_peek_large_messages(quredis, redis):
    q = Queue(redis.client())
    redis.client().lpush(q.ingress, *[b"%03d" % i + b"x" * 300000 for i in range(130)])
    rows = json.loads(quredis("peek", "mail", "ingress", "--json", "-n", "130", timeout=100).out)
    assert [r["message"][:3] for r in rows] == ["%03d" % i for i in range(129, -1, -1)]


@pytest.mark.parametrize("text, found", [("three", ["THREE"]), ("id-7", ["quredis/1 id=id-7\nx"]), ("550", ["later"]),
                                         ("HandlerExit", ["later"]), ("\\xff", []), ("nowhere", [])])
def test_peek_finds_a_text(quredis, redis, text, found):
    q, r = Queue(redis.client()), redis.client()
    r.lpush(q.ingress, "one", b"\0two\xff\0", "THREE", "quredis/1 id=id-7\nx")
    r.zadd(q.delayed, {sealed(r, "quredis/1 w=00000000000000ff attempts=1 failed=1700000000000 class=HandlerExit exit=75 why=550+20no+20route\nlater"): 9e15})
    answers = [quredis("peek", "mail", which, "--json", "--text", text) for which in ("ingress", "delayed")]
    assert [m["message"] for a in answers for m in json.loads(a.out)] == found
    assert " among 4 messages\n" in answers[0].err and " among 1 messages\n" in answers[1].err


def test_a_search_is_bounded_and_says_so(quredis, redis):
    q = Queue(redis.client())
    redis.client().lpush(q.ingress, "needle", *[f"m{i}" for i in range(250)], "needle", "needle")
    r = quredis("peek", "mail", "ingress", "--json", "--text", "needle", "--search", "252")
    assert len(json.loads(r.out)) == 2 and r.err == "found 2 among the first 252 messages; --search N looks through more\n"
    r = quredis("peek", "mail", "ingress", "--json", "--text", "needle", "--search", "253")
    assert len(json.loads(r.out)) == 3
    r = quredis("peek", "mail", "ingress", "--json", "--text", "needle", "-n", "1")
    assert len(json.loads(r.out)) == 1 and r.err == "found the first 1; -n N shows more\n"
    assert quredis("peek", "mail", "ingress", "--text", "").code == 64
    assert "requires --text" in quredis("peek", "mail", "ingress", "--search", "5").err


def test_peek_at_another_type(quredis, redis):
    q = Queue(redis.client())
    redis.client().set(q.ingress, "x")
    redis.client().set(q.workers, "x")
    for which, key in (("ingress", q.ingress), ("transit", q.workers)):
        r = quredis("peek", "mail", which, "--json")
        assert (r.code, r.out) == (78, "") and key in r.err and r.err.count("\n") == 1


# ---- pause ----

def test_pause_and_resume(quredis, redis):
    q = Queue(redis.client())
    assert quredis("pause", "mail", "--dry-run").out == "would pause mail\n" and not redis.client().exists(q.paused)
    assert quredis("pause", "mail").out == "mail is paused\n"
    why = json.loads(redis.client().get(q.paused))
    assert why["uid"] == os.getuid() and why["since"].endswith("Z") and why["host"]
    r = quredis("pause", "mail")
    assert r.code == 0 and r.out == f"mail was already paused by {why['user']} on {why['host']} since {why['since']}\n"
    assert json.loads(redis.client().get(q.paused)) == why
    assert json.loads(quredis("pause", "mail", "--json").out)["changed"] is False
    redis.client().set(q.paused, "lunch")
    assert json.loads(quredis("pause", "mail", "--json").out)["by"] == "lunch"
    assert quredis("pause", "mail").out == "mail was already paused: lunch\n"
    assert quredis("resume", "mail", "--dry-run").out == "would resume mail; it is paused: lunch\n" and redis.client().exists(q.paused)
    assert quredis("resume", "mail").out == "mail is running; it was paused: lunch\n" and not redis.client().exists(q.paused)
    assert quredis("resume", "mail").out == "mail was already running\n"
    assert json.loads(quredis("resume", "mail", "--json").out) == {"queue": "mail", "paused": False, "changed": False, "by": None, "dry_run": False}


def test_resume_says_who_paused(quredis, redis):
    q = Queue(redis.client())
    for json_too in (False, True):
        assert quredis("pause", "mail").code == 0
        text = redis.client().get(q.paused).decode()
        why = json.loads(text)
        if json_too:
            told = json.loads(quredis("resume", "mail", "--json").out)
            assert told == {"queue": "mail", "paused": False, "changed": True, "by": why, "dry_run": False}
        else:
            assert quredis("resume", "mail").out == f"mail is running; it was paused by {why['user']} on {why['host']} since {why['since']}\n"
        assert not redis.client().exists(q.paused)


def test_odd_names_in_the_registry(quredis, redis):
    """Other programs register what they like."""
    c = redis.client()
    for name in ("two words", "new\nline", "ünï", "-x", "\x1b[1m"):
        q = Queue(c, name)
        c.lpush(q.ingress, "m")
    c.zadd("quredis:queues", {b"\xff": 1})
    c.set(b"quredis:queue:\xff", json.dumps({"name": "?", "ingress": "i", "transit": "t", "escape": "e"}))
    out = quredis("ls", env={"LC_ALL": "C.UTF-8"}).out
    assert len(out.splitlines()) == 7 and "\x1b" not in out and r"new\nline" in out and r"\377" in out and "ünï" in out
    rows = json.loads(quredis("ls", "--json").out)
    assert {r.get("name") for r in rows} == {"two words", "new\nline", "ünï", "-x", "\x1b[1m", None}
    assert next(r for r in rows if "name_base64" in r)["name_base64"] == "/w=="
    assert quredis("purge", "new\nline", "ingress").code == 0 and c.llen("ingress:new\nline") == 0
    assert quredis("purge", "--", "-x", "ingress").code == 0 and c.llen("ingress:-x") == 0
