"""What tests/functions/test_runners.py runs; the other files of this folder do the same in their languages."""
import asyncio
import ctypes
import hashlib
import os
import signal
import subprocess
import sys
import time


def crash(message):
    if message == b"segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if message == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if message == b"quick":
        os._exit(0)
    if message in (b"exit 0", b"exit 3"):
        sys.exit(int(message[5:]))


def break_down(message):
    if message == b"allocate":
        kept = []
        while True:
            kept.append(b"x" * (8 << 20))
    if message in (b"hang", b"good hang"):
        while True:
            time.sleep(0.05)
    if message == b"hang in C":         # no signal ends the wait
        mutex = ctypes.create_string_buffer(128)
        for _ in range(2):
            ctypes.PyDLL(None).pthread_mutex_lock(mutex)


def note(message):
    if message.startswith(b"good"):
        with open(os.environ["LEDGER"], "ab", buffering=0) as f:
            f.write(message + b"\n")


def speak(message):
    if message == b"print":
        print("OK 7")
        os.write(1, b"OK 8\n")
        subprocess.run(["echo", "OK 9"])
    if message == b"cat":
        os.system("cat; test ! -e /proc/self/fd/3 || echo inherited")
    if message == b"daemon":
        subprocess.Popen(["setsid", "sleep", "77"])
    if message == b"linger" and os.fork() == 0:
        time.sleep(77)
    if message == b"fork" and os.fork() == 0:
        raise ValueError("of a fork")


def decide(message, job):
    if message == b"retry":
        job.retry(after=0.25, reason="later\nnow", error_class="SMTP")
    if message == b"negative":
        job.retry(after=-1)
    if message == b"hold":
        job.hold(after=0.25, reason="429\nnow")
    if message == b"holds":
        try:
            job.hold()
        except Exception:
            print("swallowed")
    if message == b"below":
        job.hold(after=-1)
    if message == b"reject":
        job.reject("no\0thing", error_class="Bad Mail")
    if message == b"fail":
        job.fail("later")
    if message == b"rescue":
        try:
            job.reject("no", error_class="X")
        except Exception as e:
            print("swallowed", e)
    if message == b"swallow":
        try:
            job.reject("no", error_class="X")
        except BaseException:
            pass
        try:
            job.fail("a second verdict")
        except BaseException:
            pass
    if message == b"verbose":
        raise ValueError("\n".join(f"line {n}" for n in range(1, 301)))
    if message == b"raise":
        raise ValueError("bad\nthing\0here OK 1")


def wait(message, job):
    if not message.startswith(b"wait"):
        return
    try:
        job.beat()
        job.progress(140, "half\nway")
        while not os.path.exists(message[5:] or b"/none"):
            time.sleep(0.01)
    finally:
        print("finally ran")


def handle(message, job):
    crash(message)
    note(message)
    break_down(message)
    speak(message)
    decide(message, job)
    wait(message, job)
    if message == b"job":
        job.reject(f"{job.queue} {job.id} {job.request_id} {job.traceparent} {job.schedule} {job.scheduled_at} {job.attempt} "
                   f"{job.max_attempts} {job.redelivered} {job.deadline:.3f} "
                   f"{os.environ.get('QUREDIS_REPLY_FD')}")
    if message.startswith(b"count"):
        job.reject(f"{len(message)} {hashlib.sha1(message).hexdigest()} {job.id}")


def one(message):
    print("one ran")


def three(message, job, other):
    pass


def none():
    pass


def generate(message):
    yield message


def decoded(message, job):
    job.reject(message if isinstance(message, str) else message["key"])


def after_fork():
    print("after fork")


released = None


async def together(message, job):
    """Its first job ends after its second."""
    global released
    released = released or asyncio.Event()
    if message == b"first":
        await released.wait()
    released.set()
    job.reject(message.decode())
