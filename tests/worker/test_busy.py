"""A worker that waits for something sleeps, whatever it holds."""
from harness import queue, wait_for
from promises.test_idle import cpu_s

SLOW_END = """
import os, sys, time
for line in sys.stdin.buffer:
    size = int(line.split()[3])
    sys.stdin.buffer.read(size + 1)
    os.write(1, b"OK " + line.split()[1] + b"\\n")
time.sleep(2)
"""


def test_waiting_for_a_handler_to_end(redis, quredisd, handler):
    """A message is at hand, the next handler may not start before the last one has ended, and that takes two seconds."""
    c = redis.client()
    d = quredisd(queues=[queue("mail", handler(SLOW_END, "python"), mode="persistent", recycle={"jobs": 1}, kill_grace="20s")])
    pid = d.wait_workers("mail", 1)["mail/0"]
    c.lpush("ingress:mail", "one", "two")
    before = cpu_s(pid)
    wait_for(lambda: c.llen("ingress:mail") == 0 and not c.keys("transit:mail:*:[0-2]"), 60, "both")
    used = cpu_s(pid) - before
    print(f"{used:.2f} s of CPU in two seconds and more of waiting")
    assert used < 0.5
