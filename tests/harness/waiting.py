"""Waiting for conditions."""
import time

PATIENCE = 3        # times as long waits each test on a machine that others load: only a failure pays for it


def wait_for(condition, timeout=20.0, what=None, interval=0.01):
    """Polls until condition() is true and returns its value; AssertionError after PATIENCE times timeout seconds.

    The interval grows to 0.1 s, so that a long wait costs little.
    """
    deadline = time.monotonic() + timeout * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {timeout * PATIENCE} s in vain for {what or condition!r}; last value {value!r}")
        time.sleep(interval)
        interval = min(interval * 1.5, 0.1)
