"""Celery's application: a task that does nothing."""
import os

from celery import Celery

app = Celery("bench", broker=f"redis+socket://{os.environ['BENCH_SOCKET']}?virtual_host=1")
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=4, worker_send_task_events=False)


@app.task
def noop(message):
    pass
