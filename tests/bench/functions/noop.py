"""The function that does nothing, and the handler for exec mode that calls it."""
import os
import sys

if os.environ.get("BENCH_FRAMEWORK"):
    import celery.app.task
    import celery.app.trace
    import celery.worker


def handle(message):
    pass


async def handle_async(message):
    pass


if __name__ == "__main__":
    handle(sys.stdin.buffer.read())
