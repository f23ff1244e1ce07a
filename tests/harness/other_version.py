"""Both programs out of the same sources, with another version: `make other-version`, seconds."""
import os
import subprocess

import pytest

from .daemon import Quredisd
from .paths import BUILD, ROOT, SANITIZED


class Version:
    """flags: more of the compiler, as in a shell."""

    def __init__(self, directory, version, schema=None, lowest=None, reads=1, flags=""):
        if SANITIZED:
            pytest.skip("the second version has no sanitizer of its own")
        self.dir, self.version = directory, version
        flags = f"-DQUREDIS_VERSION='\"{version}\"' {flags}"
        if schema is not None:
            flags += f" -DQUREDIS_SCHEMA={schema} -DQUREDIS_SCHEMA_LOWEST={lowest} -DQUREDIS_SCHEMA_READS={reads}"
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
        subprocess.run(["make", "-s", "other-version", f"O={BUILD}", f"OTHER={directory}", f"OTHER_FLAGS={flags}", "CFLAGS=-O1 -g"], cwd=ROOT,
                       check=True, env=env, stdin=subprocess.DEVNULL, timeout=100)

    def run(self, *args, program="quredis"):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("QUREDIS_")}
        return subprocess.run([self.dir / program, *args], env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


class OtherQuredisd(Quredisd):
    def __init__(self, version, *args, **options):
        self.version = version
        super().__init__(*args, **options)

    def command(self, *args):
        return [str(self.version.dir / "quredisd"), *super().command(*args)[1:]]
