"""
Bad messages for a queue with a function: each is a dead letter with the class of its end, and no other message suffers. Then kill -9 at random.
Check tries one language in each mode; `make functions` all of them, and kills for 60 s (FUNCTIONS_SECONDS=).
"""
import collections
import dataclasses
import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import time

import pytest

from harness import alive, children_of, wait_for
from harness.messages import anywhere
from functions.test_runners import FILES, INTERPRETER, ISOLATED, LANGUAGES, MODES, RAISED, name_of

HERE = pathlib.Path(__file__).parent
SECONDS = int(os.environ.get("FUNCTIONS_SECONDS", 0))       # 0: the short form
MEMORY = {"python": "MemoryError", "ruby": "NoMemoryError", "node": "RangeError"}       # in others the process ends
BAD = ["segv", "kill", "quick", "exit 0", "exit 3", "allocate", "hang", "hang in C", "raise"]
HARMLESS = ["print", "daemon"]


def classes(language):
    return {"segv": "HandlerSignal", "kill": "HandlerSignal", "quick": "HandlerExit", "exit 0": "HandlerExit", "exit 3": "HandlerExit",
            "allocate": MEMORY.get(language, "HandlerExit"), "hang": "HandlerTimeout", "hang in C": "HandlerTimeout", "raise": RAISED[language]}


@dataclasses.dataclass
class Functions:
    """Queues of functions.*, each with a ledger of its good messages."""
    d: object
    client: object
    tmp: pathlib.Path

    def ledger(self, name):
        path = self.tmp / f"ledger.{name}"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def functions(quredisd, redis, tmp):
    def start(*modes, **keys):
        queues = [{"name": f"{language}-{name_of(mode)}", "function": str(HERE / f"functions.{FILES[language]}"), "isolate": bool(mode), "workers": 1,
                   "limits": {"memory": "200M"}, "env": [f"LEDGER={tmp}/ledger.{language}-{name_of(mode)}"], **keys} for language, mode in modes]
        for language, _ in modes:
            if shutil.which(INTERPRETER.get(language, language)) is None:
                pytest.skip(f"{language} is not installed")
        return Functions(quredisd(start=False, queues=queues), redis.client(), tmp)
    return start


@pytest.mark.limit(600)
@pytest.mark.parametrize("language, mode", MODES if SECONDS else [("php", ()), ("python", ("--isolate",))], ids=name_of)
def test_bad_messages_between_good_ones(functions, language, mode):
    name = f"{language}-{name_of(mode)}"
    f = functions((language, mode), max_attempts=1, kill_grace="1s", timeout="3s" if SECONDS else "10s")
    messages = ["good 0"]
    for n, message in enumerate(BAD + HARMLESS):
        messages += [message, f"good {n + 1}"]
    messages.append("good 12")
    f.client.lpush(f"ingress:{name}", *messages)
    f.d.start()
    wait_for(lambda: f.client.llen(f"escape:{name}") == len(BAD) and len(f.ledger(name)) >= 13 and
             f.client.llen(f"ingress:{name}") == 0, 300)
    ids = {"sha1:" + hashlib.sha1(message.encode()).hexdigest(): message for message in messages}
    assert {ids[e["id"]]: e["class"] for e in f.d.events("message_escaped")} == classes(language)
    assert sorted(f.ledger(name)) == sorted(message for message in messages if message.startswith("good"))
    if mode:
        wait_for(lambda: len(f.d.handlers()) == 1, 30)          # the runner, and no daemon
    assert f.d.stop() == 0
    assert f.d.handlers() == []


@pytest.mark.parametrize("language", ISOLATED)
@pytest.mark.parametrize("window", [1, 10])
def test_isolated_hang_runs_once(functions, language, window):
    """Only its own process hung, though the runner has run others before. What waits behind it has not begun, and is not suspected."""
    name = f"{language}-isolated"
    f = functions((language, ("--isolate",)), max_attempts=1, kill_grace="1s", timeout="2s", window=window)
    f.client.lpush(f"ingress:{name}", *[f"good {n}" for n in range(3)], "good hang", *[f"good {n}" for n in range(3, 6)])
    f.d.start()
    wait_for(lambda: f.client.llen(f"escape:{name}") == 1 and len(f.ledger(name)) >= 7, 60)
    assert [e["class"] for e in f.d.events("message_escaped")] == ["HandlerTimeout"]
    assert sorted(f.ledger(name)) == sorted([f"good {n}" for n in range(6)] + ["good hang"])
    assert f.d.stop() == 0


def test_a_hang_in_a_process_that_ran_others_is_charged_when_it_is_alone(functions):
    """The log says so, and where it hung. Such a function answers by itself: there is no output that it could have left unflushed."""
    f = functions(("python", ()), max_attempts=1, kill_grace="1s", timeout="2s")
    f.client.lpush("ingress:python-shared", "good 0", "good hang")
    f.d.start()
    wait_for(lambda: f.client.llen("escape:python-shared") == 1, 60)
    escaped, = f.d.events("message_escaped")
    spared, = f.d.events("message_not_charged")
    assert spared["id"] == escaped["id"] and spared["next"] == "alone, in a new process"
    assert f.ledger("python-shared") == ["good 0", "good hang", "good hang"]
    record, = [r for _, r in f.client.xrange("escape:python-shared:log")]
    assert record[b"error_class"] == b"HandlerTimeout" and b"flushed" not in record[b"error_message"], record
    assert b"in handle" in record[b"stderr"], record
    assert f.d.stop() == 0


# Each message prints itself; some do it by another program, too; odd ones leave half a line, print on standard error and fail.
SAYS_ITSELF = {
    "python": """
import os, sys
def handle(message, job):
    text = message.decode()
    print(text)
    if int(text[1:]) % 8 == 0:
        os.system(f"echo {text}")
    if int(text[1:]) % 2:
        print(text, end="")
        print(text, file=sys.stderr)
        raise ValueError(text)
""",
    "ruby": """
def handle(message, job)
  puts message
  system("echo", message) if message[1..].to_i % 8 == 0
  return if message[1..].to_i.even?
  print message
  warn message
  raise message
end
""",
    "perl": """
sub handle {
    my ($text) = @_;
    print "$text\\n";
    system "echo", $text if substr($text, 1) % 8 == 0;
    return if substr($text, 1) % 2 == 0;
    print $text;
    print STDERR "$text\\n";
    die "$text\\n";
}
1;
""",
    "php": """<?php
function handle($text) {
    echo "$text\\n";
    if (substr($text, 1) % 8 === 0) passthru("echo $text");
    if (substr($text, 1) % 2 === 0) return;
    echo $text;
    fwrite(STDERR, "$text\\n");
    throw new Exception($text);
}
""",
    "node": """
const { execFileSync } = require("child_process");
exports.handle = (message) => {
  const text = String(message);
  console.log(text);
  if (text.slice(1) % 8 === 0) execFileSync("echo", [text], { stdio: "inherit" });
  if (text.slice(1) % 2 === 0) return;
  process.stdout.write(text);
  console.error(text);
  throw new Error(text);
};
""",
}


@pytest.mark.parametrize("window", [1, 8])
@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_no_output_is_that_of_another_message(functions, language, mode, window, tmp):
    """Neither in the log nor in the record of a dead letter, which has the trace of its failure. With one message at a time, all of it has its id."""
    path, name = tmp / f"jobs.{FILES[language]}", f"{language}-{name_of(mode)}"
    path.write_text(SAYS_ITSELF[language])
    f = functions((language, mode), function=f"{path}:handle", max_attempts=1, window=window)
    texts = [f"m{n}" for n in range(64)]
    f.client.lpush(f"ingress:{name}", *(f"quredis/1 id={text}\n{text}" for text in texts))
    f.d.start()
    wait_for(lambda: f.client.llen(f"escape:{name}") == len(texts) // 2 and not f.client.llen(f"ingress:{name}") and not anywhere(f.client, name), 120)
    assert f.d.stop() == 0
    own = [e for e in f.d.events("handler_output") if re.fullmatch(r"(m\d+)+", e["line"])]      # of no message: a part of a line and the next line
    assert sorted(re.findall(r"m\d+", " ".join(e["line"] for e in own))) == sorted(texts + texts[::8] + 2 * texts[1::2])
    assert [e for e in own if "id" in e and e["id"] != e["line"]] == []
    letters = [{k.decode(): v.decode() for k, v in entry.items()} for _, entry in f.client.xrange(f"escape:{name}:log")]
    for letter in letters:
        assert set(re.findall(r"\bm\d+\b", letter["stderr"])) == {letter["id"]}, letter
        assert letter["handler"] == f"{path}:handle"
    if window == 1:
        assert [e for e in own if "id" not in e] == []
        assert all(letter["stderr"].startswith(f"{letter['id']}\n") for letter in letters)


PRINTS_BESIDE = """
import os, threading

def prints():
    while True:
        os.write(2, b"noise\\n")
        tick.wait(0.0005)

tick = threading.Event()
threading.Thread(target=prints, daemon=True).start()

def one(n, text): return two(n - 1, text)
def two(n, text): return three(n - 1, text)
def three(n, text):
    if n <= 0:
        raise ValueError(text)
    return one(n - 1, text)

def handle(message):
    one(40, message.decode())
"""


@pytest.mark.parametrize("window", [1, 8])
def test_a_trace_is_whole_beside_a_thread_that_prints(functions, window, tmp):
    """The runner writes a long trace in several pieces, and the thread prints between two of them."""
    path = tmp / "jobs.py"
    path.write_text(PRINTS_BESIDE)
    f = functions(("python", ()), function=f"{path}:handle", max_attempts=1, window=window, stderr_tail="64K", breaker={"failures": 0})
    f.client.lpush("ingress:python-shared", *(f"quredis/1 id=m{n}\nm{n}" for n in range(300)))
    f.d.start()
    wait_for(lambda: f.client.llen("escape:python-shared") == 300, 120)
    assert f.d.stop() == 0
    traces = {}
    for _, entry in f.client.xrange("escape:python-shared:log"):
        traces[entry[b"id"].decode()] = [line for line in entry[b"stderr"].decode().splitlines() if line != "noise"]
    assert {(name, lines[0], lines[-1]) for name, lines in traces.items()} == {
        (f"m{n}", "Traceback (most recent call last):", f"ValueError: m{n}") for n in range(300)}
    assert len({len(lines) for lines in traces.values()}) == 1


@pytest.mark.limit(600)
def test_kills_lose_no_message(functions):
    """kill -9 of workers, runners and their children at random. Each message runs; only what ran at a kill runs again."""
    modes = MODES if SECONDS else [("python", ()), ("python", ("--isolate",))]
    f = functions(*modes, max_attempts=1000, window=1, batch={"max": 1}, backoff={"base": "1ms", "cap": "10ms"})
    f.d.start()
    names = [f"{language}-{name_of(mode)}" for language, mode in modes]
    for name in names:
        f.d.wait_event("handler_ready", queue=name, timeout=60)
    chance, end, pushed, kills = random.Random(os.urandom(8)), time.monotonic() + (SECONDS or 3), collections.Counter(), collections.Counter()
    while time.monotonic() < end:
        for name in names:
            f.client.lpush(f"ingress:{name}", *(f"good {pushed[name] + n}" for n in range(50)))
            pushed[name] += 50
        name = chance.choice(names)
        worker = next(iter(f.d.workers(name).values()), None)
        runner = next(iter(children_of(worker)), None) if worker else None
        child = next(iter(children_of(runner)), None) if runner else None
        victim = chance.choice([pid for pid in (worker, runner, child) if pid]) if worker else None
        if victim is not None and alive(victim):
            kill(victim)
            kills[name] += 1
        wait_for(lambda: all(f.client.llen(f"ingress:{name}") < 500 for name in names), 60)
    wait_for(lambda: all(len(set(f.ledger(name))) == pushed[name] for name in names), 120)
    for name in names:
        ran = collections.Counter(f.ledger(name))
        assert set(ran) == {f"good {n}" for n in range(pushed[name])}
        assert sum(ran.values()) - len(ran) <= kills[name], (name, kills)
        assert f.client.llen(f"escape:{name}") == 0
    assert sum(kills.values()) > 0 and f.d.stop() == 0


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
