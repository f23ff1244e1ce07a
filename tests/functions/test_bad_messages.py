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
import shutil
import signal
import time

import pytest

from harness import alive, children_of, wait_for
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
    f = functions((language, mode), max_attempts=1, kill_grace="1s", timeout="3s")
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
