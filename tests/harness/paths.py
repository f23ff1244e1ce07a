"""Where the tree and the binaries are."""
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = (ROOT / os.environ.get("QUREDIS_BUILD", "build/release")).resolve()
QUREDISD = BUILD / "quredisd"
QUREDIS = BUILD / "quredis"
SERVER = os.environ.get("QUREDIS_TEST_SERVER", "redis-server")     # what private servers run: a program in PATH, or its path
VERSION = re.search(r"^VERSION = (\S+)$", (ROOT / "Makefile").read_text(), re.M)[1]
SANITIZED = BUILD.name.endswith("san")
