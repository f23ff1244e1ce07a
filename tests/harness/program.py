"""Running the command line."""
import collections
import os
import subprocess

from . import reach
from .paths import QUREDIS

Result = collections.namedtuple("Result", "code out err raw")


def run_quredis(*args, input=b"", timeout=60, env=None, tag=""):
    """quredis ARGS; out and err are text, raw is stdout's bytes. stdin is a pipe with input."""
    if isinstance(input, str):
        input = input.encode()
    clean = {k: v for k, v in os.environ.items() if not k.startswith("QUREDIS_")}
    with reach.arguments(args) as arguments:
        done = subprocess.run([str(QUREDIS), *arguments], input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                              env={**clean, "QUREDIS_TEST_TAG": tag, **(env or {})})
    err = done.stderr.decode(errors="replace")
    assert "Sanitizer" not in err and "runtime error:" not in err, err
    raw = reach.seen(done.stdout)
    return Result(done.returncode, raw.decode(errors="replace"), reach.seen(err), raw)
