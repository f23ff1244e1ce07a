"""Celery's application: a task that calls the function that does nothing."""
import os

import noop as functions
from celery import Celery

app = Celery("bench", broker=f"redis+socket://{os.environ['BENCH_SOCKET']}?virtual_host=1")
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=4, worker_send_task_events=False)


@app.task
def noop(message):
    functions.handle(message)
