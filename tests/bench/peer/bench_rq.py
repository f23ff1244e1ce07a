"""RQ: fills the queue with jobs of the function that does nothing."""
import os
import sys


def fill(n):
    from redis import Redis
    from rq import Queue
    queue = Queue("default", connection=Redis(unix_socket_path=os.environ["BENCH_SOCKET"], db=1))
    queue.enqueue_many([Queue.prepare_data("noop.handle", args=["x" * 100], result_ttl=0, timeout=300) for _ in range(n)])


if __name__ == "__main__":
    fill(int(sys.argv[1]))
