"""The tracer by itself, and whether it may be used here."""
import pathlib
import subprocess
import tempfile

import pytest

from harness import SANITIZED, wait_for

from .lane import PROGRAMS


def trace(directory, *options, command=("/bin/true",)):
    """(the tracer's report as rows, the command's output and status)."""
    report = directory / "report"
    report.unlink(missing_ok=True)
    done = subprocess.run([PROGRAMS / "tracer", "-o", report, *options, "--", *command], stdout=subprocess.PIPE, timeout=30)
    # it lives a little longer than the command
    wait_for(lambda: "calls" in (text := report.read_text()) or "error" in text, 20, "the tracer's last line")
    return [line.split() for line in report.read_text().splitlines()], done.stdout.decode(), done.returncode


def _may_trace():
    with tempfile.TemporaryDirectory() as d:
        return trace(pathlib.Path(d), "-t", "0:0")[0][-1][0] == "calls"


BUILT = (PROGRAMS / "tracer").exists()
NEEDS_PTRACE = [pytest.mark.skipif(SANITIZED, reason="the leak sanitizer cannot be traced, and nomem replaces its malloc"),
                pytest.mark.skipif(not BUILT, reason="make crashpoint-programs builds what these need"),
                pytest.mark.skipif(BUILT and not SANITIZED and not _may_trace(), reason="ptrace is not allowed here")]
