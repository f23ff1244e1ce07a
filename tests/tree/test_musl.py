"""The sources keep to what musl has, too. Debian has no hiredis or libconfig built with musl, so nothing is linked."""
import pathlib
import subprocess

import pytest

from harness import ROOT

MUSL = next(iter(sorted(pathlib.Path("/usr/include").glob("*-linux-musl"))), None)
FOLDERS = ("common", "supervisor", "worker", "sweeper", "admin")
# headers of the kernel and of libraries, without those of glibc beside them
FOREIGN = ("asm", "asm-generic", "bsd", "event2", "hiredis", "jansson.h", "jansson_config.h", "libconfig.h", "linux", "nettle")

pytestmark = pytest.mark.skipif(MUSL is None, reason="no headers of musl (musl-dev)")


def link_headers(directory):
    places = [pathlib.Path("/usr/include"), *pathlib.Path("/usr/include").glob("*-linux-gnu")]
    for name in FOREIGN:
        found = next((p for place in places if (p := place / name).exists()), None)
        if found:
            (directory / name).symlink_to(found)
    (directory / "openssl").mkdir()             # its headers are in two places
    for header in (h for place in places for h in (place / "openssl").glob("*.h")):
        (directory / "openssl" / header.name).symlink_to(header)


def errors(tmp, *sources):
    own = subprocess.run(["gcc", "-print-file-name=include"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    command = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", '-DQUREDIS_VERSION="0"', '-DQUREDIS_SYSCONFDIR="/etc"',
               '-DQUREDIS_LIBEXECDIR="/usr/libexec"', "-I.", "-fsyntax-only", "-Wall",
               "-Werror=implicit-function-declaration", "-nostdinc", "-isystem", MUSL, "-isystem", own, "-isystem", tmp]
    done = subprocess.run([*map(str, command), *map(str, sources)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_sources_compile_against_musl(tmp, folder):
    link_headers(tmp)
    assert errors(tmp, *sorted((ROOT / folder).rglob("*.c"))) == ""


def test_what_musl_lacks_is_seen(tmp):
    (tmp / "x.c").write_text("#include <malloc.h>\nvoid f(void);\nvoid f(void) { malloc_trim(0); }\n")
    assert "malloc_trim" in errors(tmp, tmp / "x.c")
