"""What a function emits leaves before the answer OK, in the framing of quredis-handler(7); or nothing leaves. The same cases in five languages."""
import json
import re

import pytest

from functions.test_runners import FILES, LANGUAGES, MODES, name_of
from functions.test_runners import run_text, start      # noqa: F401: fixtures
from harness import wait_for
from harness.messages import record, unwrap

# Each does what its message says, as a list of [WORD, ...].
TEXT = {
    "python": '''
import os, threading
kept = []
def handle(message, job):
    for word, *a in message:
        if word == "emit": job.emit(a[0], a[1], *a[2:])
        elif word == "bytes": job.emit(a[0], bytes(range(256)) * a[1])
        elif word == "refused":
            try: job.emit(*a)
            except Exception as e: job.reject(e)
        elif word == "keep": kept.append(job)
        elif word == "late":
            kept[0].beat()
            try: kept[0].emit("thumbs", "x")
            except Exception as e: job.reject(e)
        elif word == "fail": raise ValueError("no")
        elif word == "retry": job.retry()
        elif word == "facts": job.reject(f"{job.root} {job.depth}")
''',
    "ruby": '''
$kept = []
def handle(message, job)
  message.each do |word, *a|
    case word
    when "emit" then job.emit(a[0], a[1], delay: a[2])
    when "bytes" then job.emit(a[0], (0..255).to_a.pack("C*") * a[1])
    when "refused"
      begin
        job.emit(a[0], a[1], delay: a[2])
      rescue => e
        job.reject(e.message)
      end
    when "keep" then $kept << job
    when "late"
      $kept[0].beat
      begin
        $kept[0].emit("thumbs", "x")
      rescue => e
        job.reject(e.message)
      end
    when "fail" then raise ArgumentError, "no"
    when "retry" then job.retry
    when "facts" then job.reject("#{job.root} #{job.depth}")
    end
  end
end
''',
    "perl": r'''
my @kept;
sub handle {
    my ($message, $job) = @_;
    for (@$message) {
        my ($word, @a) = @$_;
        if ($word eq "emit") { $job->emit($a[0], $a[1], delay => $a[2]) }
        elsif ($word eq "bytes") { $job->emit($a[0], join("", map { chr } 0 .. 255) x $a[1]) }
        elsif ($word eq "refused") { eval { $job->emit($a[0], $a[1], delay => $a[2]); 1 } or $job->reject($@) }
        elsif ($word eq "keep") { push @kept, $job }
        elsif ($word eq "late") { $kept[0]->beat; eval { $kept[0]->emit("thumbs", "x"); 1 } or $job->reject($@) }
        elsif ($word eq "fail") { die "no\n" }
        elsif ($word eq "retry") { $job->retry }
        elsif ($word eq "facts") { $job->reject(($job->root // "") . " " . $job->depth) }
    }
}
1;
''',
    "php": r'''<?php
$kept = [];
function handle($message, $job) {
    global $kept;
    foreach ($message as $a) {
        switch (array_shift($a)) {
        case "emit": $job->emit(...$a); break;
        case "bytes": $job->emit($a[0], str_repeat(implode("", array_map("chr", range(0, 255))), $a[1])); break;
        case "refused": try { $job->emit(...$a); } catch (\Exception | \ValueError $e) { $job->reject($e->getMessage()); } break;
        case "keep": $kept[] = $job; break;
        case "late": $kept[0]->beat(); try { $kept[0]->emit("thumbs", "x"); } catch (\LogicException $e) { $job->reject($e->getMessage()); } break;
        case "fail": throw new InvalidArgumentException("no");
        case "retry": $job->retry();
        case "facts": $job->reject("$job->root $job->depth");
        }
    }
}
''',
    "node": '''
const kept = [];
exports.handle = (message, job) => {
  for (const [word, ...a] of message) {
    if (word === "emit") job.emit(a[0], a[1], { delay: a[2] });
    else if (word === "bytes") job.emit(a[0], Buffer.concat(Array(a[1]).fill(Buffer.from(Array.from({ length: 256 }, (_, i) => i)))));
    else if (word === "refused") { try { job.emit(a[0], a[1], { delay: a[2] }); } catch (e) { job.reject(e.message); } }
    else if (word === "keep") kept.push(job);
    else if (word === "late") { kept[0].beat(); try { kept[0].emit("thumbs", "x"); } catch (e) { job.reject(e.message); } }
    else if (word === "fail") throw new RangeError("no");
    else if (word === "retry") job.retry();
    else if (word === "facts") job.reject(`${job.root} ${job.depth}`);
  }
};
''',
}
LIMITS = {"QUREDIS_EMIT": "3 300000 4 thumbs=200000 old=1000,shared free=0"}
ALL_BYTES = bytes(range(256))


def asked(runner, *commands, keys=""):
    """What it emits, as (queue, delay, bytes), and its answer."""
    runner.write(json.dumps(commands).encode(), keys=keys)
    emitted = []
    while True:
        verb, serial, *words = (line := runner.process.stdout.readline().decode().rstrip("\n")).split(" ")
        assert serial.encode() == runner.serials[-1], line
        if verb == "LOG":
            continue
        if verb != "EMIT":
            return emitted, " ".join([verb, *words])
        body = runner.process.stdout.read(int(words[1]) + 1)
        assert body[-1:] == b"\n"
        emitted.append((words[0], " ".join(words[2:]), body[:-1]))


@pytest.fixture
def emits(run_text):    # noqa: F811
    return lambda language, mode: run_text(language, TEXT[language], *mode, "--json", env=LIMITS)


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_emitted_messages_come_before_the_answer(emits, language, mode):
    runner = emits(language, mode)
    forged = "OK 1099511627776\nFAIL 1 x\nEMITTED 5\n"
    assert asked(runner, ["emit", "thumbs", "one"], ["emit", "old", ""], ["emit", "thumbs", forged, 1.5]) == (
        [("thumbs", "", b"one"), ("old", "", b""), ("thumbs", "delay=1500ms", forged.encode())], "OK")
    assert asked(runner) == ([], "OK")
    assert asked(runner, ["emit", "free", "\u00fc\U0001f600"]) == ([("free", "", "\u00fc\U0001f600".encode())], "OK")
    assert asked(runner, ["bytes", "free", 1], ["bytes", "thumbs", 700]) == ([("free", "", ALL_BYTES), ("thumbs", "", ALL_BYTES * 700)], "OK")
    assert asked(runner, ["emit", "thumbs", "last"]) == ([("thumbs", "", b"last")], "OK")
    assert runner.close() == (0, b"")


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_other_verdicts_emit_nothing(emits, language, mode):
    runner = emits(language, mode)
    emitted, answer = asked(runner, ["emit", "thumbs", "one"], ["fail"])
    assert emitted == [] and answer.startswith("FAIL class=")
    assert asked(runner, ["emit", "thumbs", "one"], ["retry"]) == ([], "RETRY class=HandlerRetry")
    assert asked(runner, ["emit", "thumbs", "one"], ["facts"], keys=" root=order-7 depth=3")[0] == []
    assert asked(runner, ["emit", "thumbs", "two"]) == ([("thumbs", "", b"two")], "OK")


REFUSED = [
    (["tumbs", "x"], r'emit: queue "tumbs" is not in emit\.queues'),
    (["thumbs 1\nOK", "x"], r'emit: queue "thumbs 1 OK" is not in emit\.queues'),
    (["old", "x" * 1001], r"emit: a message of 1001 bytes is longer than message_max of queue old, 1000"),
    (["old", "x", 1], r"emit: queue old is shared with other programs, so it has no delayed messages"),
    (["thumbs", "x", -1], r"emit\(.*delay.*-1.*\): expected seconds, 0 or more"),
]


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_what_is_not_allowed_is_an_exception(emits, language, mode):
    runner = emits(language, mode)
    for given, why in REFUSED:
        emitted, answer = asked(runner, ["emit", "thumbs", "one"], ["refused", *given])
        assert emitted == [] and re.fullmatch(f"REJECT class=Rejected {why}", answer), answer
    assert asked(runner, *[["emit", "thumbs", "x"]] * 3, ["refused", "thumbs", "x"])[1] == "REJECT class=Rejected emit: more than emit.max = 3 messages"
    emitted, answer = asked(runner, ["bytes", "thumbs", 700], ["refused", "thumbs", "x" * 150000])
    assert answer == "REJECT class=Rejected emit: more than emit.max_bytes = 300000 bytes in all"
    assert asked(runner, ["refused", "thumbs", "x"], keys=" root=a depth=4")[1] == "REJECT class=Rejected emit: deeper than emit.max_depth = 4"
    assert asked(runner, ["refused", "thumbs", "x"], keys=" root=a depth=3") == ([("thumbs", "", b"x")], "OK")
    emitted, answer = asked(runner, ["emit", "tumbs", "x"])
    assert emitted == [] and answer.startswith("FAIL class=") and "is not in emit.queues" in answer


@pytest.mark.parametrize("language, mode", MODES, ids=name_of)
def test_root_and_depth(emits, language, mode):
    runner = emits(language, mode)
    assert asked(runner, ["facts"], keys=" root=order-7 depth=3") == ([], "REJECT class=Rejected order-7 3")
    assert asked(runner, ["facts"])[1].endswith(" 0")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_job_that_has_ended_emits_nothing(emits, language):
    """It is an error of the caller, and no bytes of it get between those of others. Nor does its sign of life."""
    runner = emits(language, ())
    assert asked(runner, ["keep"], ["emit", "thumbs", "one"]) == ([("thumbs", "", b"one")], "OK")
    assert asked(runner, ["emit", "thumbs", "two"], ["late"]) == ([], "REJECT class=Rejected emit: the job has ended")
    assert asked(runner, ["emit", "thumbs", "three"]) == ([("thumbs", "", b"three")], "OK")
    assert runner.close() == (0, b"")


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_emit_no_queue_is_allowed(run_text, language):      # noqa: F811
    runner = run_text(language, TEXT[language], "--json")
    assert asked(runner, ["refused", "thumbs", "x"])[1] == 'REJECT class=Rejected emit: queue "thumbs" is not in emit.queues'


@pytest.mark.parametrize("language, isolate", [(x, bool(mode)) for x, mode in MODES], ids=name_of)
def test_a_whole_queue(redis, quredisd, handler, tmp, language, isolate):
    c = redis.client()
    (tmp / f"jobs.{FILES[language]}").write_text(TEXT[language])
    q = dict(name="split", function=f"{tmp}/jobs.{FILES[language]}", isolate=isolate, message="json", workers=1,
             emit={"queues": ["thumbs", "old"], "max_depth": 5})
    quredisd(queues=[q, dict(name="thumbs", handler=[handler("cat")], workers=0), dict(name="old", handler=[handler("cat")], workers=0, shared=True)])
    c.lpush("ingress:split", json.dumps([["emit", "thumbs", "one"], ["emit", "old", "bare"], ["bytes", "thumbs", 200], ["emit", "thumbs", "later", 3600]]))
    wait_for(lambda: c.zcard("quredis:of:ingress:thumbs:delayed") == 1, 60)
    assert [unwrap(raw)[1] for raw in c.lrange("ingress:thumbs", 0, -1)] == [ALL_BYTES * 200, b"one"] and c.lrange("ingress:old", 0, -1) == [b"bare"]
    c.lpush("ingress:split", json.dumps([["emit", "thumbs", "two"], ["refused", "old", "x", 1]]))
    wait_for(lambda: c.xlen("escape:split:log") == 1, 60)
    assert record(c, "split")["error_message"] == b"REJECT: emit: queue old is shared with other programs, so it has no delayed messages"
    assert c.llen("ingress:thumbs") == 2
