"""Where the tree and the binaries are."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = (ROOT / os.environ.get("QUREDIS_BUILD", "build/release")).resolve()
QUREDISD = BUILD / "quredisd"
QUREDIS = BUILD / "quredis"
SANITIZED = BUILD.name.endswith("san")
