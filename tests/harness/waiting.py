"""Waiting for conditions."""
import time


def wait_for(condition, timeout=20.0, what=None, interval=0.01):
    """Polls until condition() is true and returns its value; AssertionError after timeout seconds.

    The interval grows to 0.1 s, so that a long wait costs little.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {timeout} s in vain for {what or condition!r}; last value {value!r}")
        time.sleep(interval)
        interval = min(interval * 1.5, 0.1)
