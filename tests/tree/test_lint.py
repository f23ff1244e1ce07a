"""Rules for the sources that a program can check."""
import collections
import io
import pathlib
import re
import shutil
import subprocess
import tokenize

import pytest

from harness import ROOT

SHELL = [p for p in [ROOT / "bootstrap", ROOT / ".ci/run", *sorted((ROOT / "debian").rglob("*")), *sorted((ROOT / "etc").rglob("*"))]
         if p.is_file() and p.read_bytes()[:9] == b"#!/bin/sh"]
PYTHON = [p for p in [*sorted((ROOT / "tests").rglob("*")), *sorted((ROOT / "etc").rglob("*"))]
          if p.is_file() and (p.suffix == ".py" or p.read_bytes()[:17] == b"#!/usr/bin/python")]


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program}")


def said(*command):
    done = subprocess.run([str(c) for c in command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=580)
    return done.stdout if done.returncode or done.stdout else ""


@needs("shellcheck")
@pytest.mark.parametrize("script", SHELL, ids=lambda p: str(p.relative_to(ROOT)))
def test_shell(script):
    assert said("shellcheck", script) == ""


@needs("mandoc")
@pytest.mark.parametrize("page", sorted((ROOT / "man").glob("*.[1-9]")), ids=lambda p: p.name)
def test_manual(page):
    assert said("mandoc", "-T", "lint", "-W", "warning", page) == ""


# the two uninitvars take every loop for one that may not run, and a call that fills for one that reads
CPPCHECK = ["cppcheck", "--quiet", "--error-exitcode=1", "--std=c11", "--inline-suppr", "-I.", "-D_GNU_SOURCE",
            '-DQUREDIS_VERSION="0"', '-DQUREDIS_SYSCONFDIR="/etc"', '-DQUREDIS_LIBEXECDIR="/usr/libexec"', "-DElfW(type)=Elf64_##type",
            "--enable=warning,performance,portability",
            "--suppress=missingIncludeSystem", "--suppress=uninitvar", "--suppress=ctuuninitvar",
            "--suppress=normalCheckLevelMaxBranches"]       # 2.17 tells that it looks as closely as 2.10
# Headers of libraries whose macros it must know; those of libbsd lie in one place in Debian 12 and in another in 13.
MACROS = {"bsd/sys/queue.h", "bsd/sys/tree.h", "jansson.h"}


@pytest.fixture
def libraries(tmp):
    """An option: a directory with these headers alone, so that a source that does not include them is read without them."""
    for found in pathlib.Path("/usr/include").rglob("*.h"):
        name = next((name for name in MACROS if found.as_posix().endswith(f"/{name}")), None)
        if name:
            (tmp / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp / name).unlink(missing_ok=True)
            (tmp / name).symlink_to(found)
    return f"-I{tmp}"


@needs("cppcheck")
@pytest.mark.limit(600)
@pytest.mark.parametrize("folder", ["common", "worker", "sweeper", "supervisor", "admin"])
def test_c(folder, libraries):
    assert said(*CPPCHECK, libraries, folder) == ""


@needs("cppcheck")
def test_c_mistakes_are_seen(tmp, libraries):
    (tmp / "x.c").write_text("#include <stdlib.h>\nint f(int n) { char *p = malloc(3); p[n] = 1; int a[2] = {0}; return a[2]; }\n")
    assert "arrayIndexOutOfBounds" in said(*CPPCHECK, libraries, "--template=gcc", tmp / "x.c")


@pytest.mark.parametrize("path", PYTHON, ids=lambda p: str(p.relative_to(ROOT)))
def test_python(path):
    compile(path.read_text(), str(path), "exec")


@pytest.mark.parametrize("path", [p for p in SHELL + PYTHON if p.suffix != ".py"], ids=lambda p: p.name)
def test_scripts_are_executable(path):
    assert path.stat().st_mode & 0o111 == 0o111


# ---- .editorconfig, read by Debian's editorconfig ----

# (ending, rule) -> lines that break it. These numbers may only become smaller.
KEPT = {("py", "long"): 30}


def tracked():
    """Paths of what is committed, or of every file where there is no git: a release has nothing else, but what was built."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return [p for p in listed.split("\0") if p and (ROOT / p).is_file()]
    except (OSError, subprocess.CalledProcessError):
        pass
    return [str(p.relative_to(ROOT)) for p in sorted(ROOT.rglob("*")) if p.is_file() and p.relative_to(ROOT).parts[0] != "build"
            and "__pycache__" not in p.parts]


def styles(root, paths):
    """path -> what .editorconfig says of it."""
    done = subprocess.run(["editorconfig", *(str(root / p) for p in paths)], stdout=subprocess.PIPE, text=True, check=True)
    blocks = re.split(r"^\[(.*)\]\n", done.stdout, flags=re.M) if len(paths) > 1 else ["", str(root / paths[0]), done.stdout]
    return {str(pathlib.Path(path).relative_to(root)): dict(line.split("=", 1) for line in text.split())
            for path, text in zip(blocks[1::2], blocks[2::2])}


def width(line, tab):
    return len(line.expandtabs(tab))


def indented_wrongly(style, path, lines):
    if path.endswith(".py"):       # not what stands in a string
        text = "\n".join(lines) + "\n"
        return [t.start[0] for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.INDENT and "\t" in t.string]
    if style.get("indent_style") == "tab":
        return [n for n, line in enumerate(lines, 1) if not re.match(r" \*|(?:    |\t+ *)?\S|$", line)]
    return [n for n, line in enumerate(lines, 1) if line.startswith("\t")] if style.get("indent_style") == "space" else []


def style_breaches(root, paths):
    """(path, line, rule) of each."""
    found = []
    for path, style in styles(root, paths).items():
        raw = (root / path).read_bytes()
        try:
            text = raw.decode("utf-8", "strict" if style.get("charset") == "utf-8" else "replace")
        except UnicodeDecodeError:
            found.append((path, 0, "charset"))
            continue
        lines = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
        if style.get("insert_final_newline") == "true" and text and not text.endswith("\n"):
            found.append((path, len(lines), "final newline"))
        if style.get("end_of_line") == "lf" and "\r" in text:
            found.append((path, text[:text.index("\r")].count("\n") + 1, "line end"))
        if style.get("trim_trailing_whitespace") == "true":
            found += [(path, n, "blank at the end") for n, line in enumerate(lines, 1) if line != line.rstrip(" \t")]
        if "max_line_length" in style:
            found += [(path, n, "long") for n, line in enumerate(lines, 1)
                      if width(line, int(style.get("tab_width", 8))) > int(style["max_line_length"]) and not line.startswith(("/* links: ", "/* ldflags: "))]
        found += [(path, n, "indent") for n in indented_wrongly(style, path, lines)]
    return found


def not_kept(found):
    """What exceeds KEPT, and what is below it: then KEPT must be reduced."""
    counts = collections.Counter((path.rsplit(".", 1)[-1], rule) for path, _, rule in found)
    return [f"{ending} {rule}: {counts[ending, rule]} lines, KEPT says {KEPT.get((ending, rule), 0)}: " +
            ", ".join(f"{p}:{n}" for p, n, r in found if r == rule and p.endswith(ending))
            for ending, rule in sorted({*counts, *KEPT}) if counts[ending, rule] != KEPT.get((ending, rule), 0)]


@needs("editorconfig")
def test_files_are_as_editorconfig_says():
    assert not_kept(style_breaches(ROOT, tracked())) == []


@needs("editorconfig")
@pytest.mark.parametrize("name, text, rule", [
    ("x.c", b"int a;", "final newline"), ("x.c", b"int a;\r\n", "line end"), ("x.c", b"int a; \n", "blank at the end"),
    ("x.c", b"        int a;\n", "indent"), ("x.c", b"/* \xff */\n", "charset"), ("x.lua", b"\treturn 1\n", "indent"),
    ("x.py", b"if a:\n\tb\n", "indent"), ("x.py", b"# " + b"x" * 160 + b"\n", "long"), ("x.h", b"\t" * 20 + b"int a;\n", "long"),
    ("worker/x.c", b"/* " + b"x" * 120 + b" */\n", "long"), ("x.md", b"a \n", "blank at the end")])
def test_other_styles_are_seen(tmp, name, text, rule):
    shutil.copy(ROOT / ".editorconfig", tmp)
    (tmp / name).parent.mkdir(exist_ok=True)
    (tmp / name).write_bytes(text)
    assert [r for _, _, r in style_breaches(tmp, [name])] == [rule]
