"""What the programs link and how they are hardened, read from their ELF headers."""
import subprocess

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.dynamic import DynamicSection

from harness import QUREDIS, QUREDISD, SANITIZED

DAEMON = {"libhiredis", "libssl", "libcrypto", "libconfig", "libbsd", "libnettle", "libjansson", "libc"}
CLI = DAEMON | {"libevent_core", "libevent_extra"}
SANITIZERS = {"libasan", "libubsan", "libm", "libgcc_s", "libdl", "libpthread", "librt", "libresolv"} if SANITIZED else set()

DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 0x8, 0x1, 0x08000000
PF_X, PF_W = 1, 2


def needed(path):
    """Names without versions: libhiredis.so.0.14 is libhiredis, libevent_core-2.1.so.7 libevent_core."""
    with open(path, "rb") as f:
        dynamic = ELFFile(f).get_section_by_name(".dynamic")
        names = [t.needed for t in dynamic.iter_tags("DT_NEEDED")]
    names = [n for n in names if not n.startswith("ld-linux")]
    return {n.split(".so")[0].split("-")[0] for n in names}


def softness(path):
    """What is missing of the hardening."""
    missing = []
    with open(path, "rb") as f:
        elf = ELFFile(f)
        segments = list(elf.iter_segments())
        dynamic = next((s for s in elf.iter_sections() if isinstance(s, DynamicSection)), None)
        tags = {t.entry.d_tag: t.entry.d_val for t in dynamic.iter_tags()} if dynamic else {}
        symbols = elf.get_section_by_name(".dynsym")
        names = {s.name for s in symbols.iter_symbols()} if symbols else set()
        stack = [s for s in segments if s["p_type"] == "PT_GNU_STACK"]
        if elf["e_type"] != "ET_DYN" or not tags.get("DT_FLAGS_1", 0) & DF_1_PIE:
            missing.append("pie")
        if not any(s["p_type"] == "PT_GNU_RELRO" for s in segments):
            missing.append("relro")
        if not (tags.get("DT_FLAGS", 0) & DF_BIND_NOW or tags.get("DT_FLAGS_1", 0) & DF_1_NOW):
            missing.append("now")
        if not stack or stack[0]["p_flags"] & PF_X:
            missing.append("noexecstack")
        if any(s["p_type"] == "PT_LOAD" and s["p_flags"] & (PF_X | PF_W) == PF_X | PF_W for s in segments):
            missing.append("w^x")
        if "__stack_chk_fail" not in names:
            missing.append("stack protector")
        if not any(n.endswith("_chk") for n in names):
            missing.append("fortify")
    return missing


@pytest.mark.parametrize("program, allowed", [(QUREDISD, DAEMON), (QUREDIS, CLI)], ids=["quredisd", "quredis"])
def test_links_only(program, allowed):
    assert needed(program) - SANITIZERS <= allowed
    assert "libhiredis" in needed(program)


@pytest.mark.parametrize("program", [QUREDISD, QUREDIS], ids=["quredisd", "quredis"])
def test_is_hardened(program):
    assert [m for m in softness(program) if not (SANITIZED and m in ("fortify", "stack protector"))] == []


# ---- that these can fail ----

PROGRAM = """#include <math.h>
#include <stdio.h>
#include <string.h>
int main(int c, char **v) { char b[64]; strcpy(b, v[0]); printf("%s %f", b, pow(c, 0.5)); return 0; }
"""


@pytest.fixture
def compiled(tmp):
    """A small program with these flags."""
    def build(*flags, text=PROGRAM):
        (tmp / "x.c").write_text(text)
        subprocess.run(["cc", *flags, str(tmp / "x.c"), "-o", str(tmp / "x"), "-lm"], check=True, capture_output=True)
        return tmp / "x"
    return build


def test_a_soft_program_is_seen(compiled):
    soft = compiled("-no-pie", "-fno-pie", "-U_FORTIFY_SOURCE", "-fno-stack-protector", "-Wl,-z,norelro", "-Wl,-z,lazy",
                    "-Wl,-z,execstack")
    assert set(softness(soft)) == {"pie", "relro", "now", "noexecstack", "stack protector", "fortify"}
    assert "w^x" in softness(compiled("-nostdlib", "-static", "-Wl,-N", text="void _start(void) { for (;;) ; }"))


def test_a_hard_program_passes(compiled):
    hard = compiled("-O2", "-fPIE", "-pie", "-D_FORTIFY_SOURCE=2", "-fstack-protector-all", "-Wl,-z,relro", "-Wl,-z,now",
                    "-Wl,-z,noexecstack")
    assert softness(hard) == []


def test_another_library_is_seen(compiled):
    assert needed(compiled("-O0")) - DAEMON == {"libm"}
