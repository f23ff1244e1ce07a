"""Sizes and names of the sources: rules that keep the tree readable. Every rule is also shown a tree that breaks it.

Public functions that do not keep the rule of names yet stand in tests/tree/names.list, which may only become shorter: a test fails on a function that is not
listed, and on a row that is not needed any more.
"""
import os
import re
import statistics
import subprocess

import pytest

from harness import BUILD, ROOT

FOLDERS = ("common", "worker", "sweeper", "supervisor", "admin")
FILE_LINES_MOST = 450
FUNCTION_LINES_MOST = 60
FUNCTION_LINES_MEDIAN = 12
SHORT_FILE = 60
SHORT_FILES_MOST = 0.10           # it may only become smaller
NAMES = ROOT / "tests/tree/names.list"
PROGRAM = ("main",)
# Defined at the start of a line, with its opening brace on a line of its own.
FUNCTION = re.compile(r"^([A-Za-z_][^;{}()=#/]*?)\b(\w+)\((?:[^;{}()]|\([^()]*\))*\)[^;{}()=]*\n\{\n.*?^\}", re.M | re.S)


def read_tree(folders=FOLDERS, suffix="c"):
    """path -> text of each source."""
    return {str(p.relative_to(ROOT)): p.read_text() for folder in folders for p in sorted((ROOT / folder).rglob(f"*.{suffix}"))}


def functions(tree):
    """(path, name, lines, whether others can call it)"""
    return [(path, m[2], m[0].count("\n") + 1, not re.search(r"\bstatic\b", m[1])) for path, text in tree.items() for m in FUNCTION.finditer(text)]


def listed():
    return set(NAMES.read_text().split())


# ---- rules: each gives what breaks it ----

def files_are_not_long(tree):
    return [f"{path}: {lines} lines" for path, text in tree.items() if (lines := text.count("\n")) > FILE_LINES_MOST]


def functions_are_not_long(tree):
    return [f"{path}: {name}(): {lines} lines" for path, name, lines, _ in functions(tree) if lines > FUNCTION_LINES_MOST]


def most_functions_are_short(tree):
    median = statistics.median(lines for _, _, lines, _ in functions(tree))
    return [f"median {median}"] if median > FUNCTION_LINES_MEDIAN else []


def few_files_are_short(tree):
    """A thought that is split over many files is as hard to read as one long file."""
    short = [path for path, text in tree.items() if text.count("\n") < SHORT_FILE]
    return [f"{len(short)} of {len(tree)} files: {' '.join(short)}"] if len(short) > SHORT_FILES_MOST * len(tree) else []


def says_its_file(path, name):
    """moves_fetch() in queue/moves.c, queue_moves_fetch() there, or queue_fetch(): by file, by both, by folder. Commands: cmd_ls() in admin/. Rows of
    the table of checks: check_memory() in admin/doctor/."""
    *_, folder, file = path.removesuffix(".c").split("/")
    rows = [prefix for prefix, where in (("cmd_", "admin/"), ("check_", "admin/doctor/")) if path.startswith(where)]
    return name in (*PROGRAM, file, folder) or name.startswith((f"{file}_", f"{folder}_", *rows))


def public_functions_say_their_file(tree):
    return [f"{path}: {name}()" for path, name, _, public in functions(tree) if public and not says_its_file(path, name) and name not in listed()]


BREAKING = {
    files_are_not_long: {"worker/x.c": "/* */\n" * (FILE_LINES_MOST + 1)},
    functions_are_not_long: {"worker/x.c": "static int f(void)\n{\n" + "\tg();\n" * FUNCTION_LINES_MOST + "}\n"},
    most_functions_are_short: {"worker/x.c": ("static int f(void)\n{\n" + "\tg();\n" * 20 + "}\n") * 5000},
    few_files_are_short: {f"worker/x{i}.c": "/* */\n" for i in range(40)},
    public_functions_say_their_file: {"worker/x.c": "int\nfetch_x(void (*f)(int), int n)\n{\n\treturn 0;\n}\n"},
}


@pytest.mark.parametrize("rule", BREAKING, ids=lambda r: r.__name__)
def test_tree_keeps(rule):
    assert rule(read_tree()) == []


def test_tests_and_examples_are_not_long_either():
    assert files_are_not_long(read_tree(["tests", "etc"])) == []


def test_headers_are_not_long_either():
    assert files_are_not_long(read_tree([*FOLDERS, "tests"], "h")) == []


@pytest.mark.parametrize("rule", BREAKING, ids=lambda r: r.__name__)
def test_breach_is_seen(rule):
    assert rule({**read_tree(), **BREAKING[rule]})


@pytest.mark.parametrize("path, name, good", [
    ("worker/tray.c", "tray_take", True), ("worker/tray.c", "worker_tray_take", True), ("worker/tray.c", "tray", True),
    ("common/queue/moves.c", "queue_moves_fetch", True), ("common/queue/moves.c", "queue_fetch", True), ("common/queue/moves.c", "fetch", False),
    ("admin/doctor/server.c", "check_memory", True), ("admin/web/server.c", "check_memory", False),
    ("worker/tray.c", "trays_take", False), ("common/queue/moves.c", "common_fetch", False)])
def test_names_that_say_their_file(path, name, good):
    assert says_its_file(path, name) == good


def test_listed_names_break_the_rule():
    """The list only becomes shorter."""
    wrong = {name for path, name, _, public in functions(read_tree()) if public and not says_its_file(path, name)}
    assert sorted(listed() - wrong) == []
    assert NAMES.read_text().split() == sorted(listed())


@pytest.mark.skipif(not (BUILD / "worker").is_dir(), reason="no objects")
def test_no_public_function_is_overlooked():
    """What the text shows are the functions that the objects define."""
    tree = read_tree()
    seen = {(path, name) for path, name, _, public in functions(tree) if public}
    objects = [str(o) for path in tree if (o := BUILD / path.replace(".c", ".o")).exists()]
    said = subprocess.check_output(["nm", "-A", "--defined-only", *objects], text=True, stderr=subprocess.DEVNULL)
    defined = {(os.path.relpath(m[1], BUILD).replace(".o", ".c"), m[2]) for m in re.finditer(r"^(.*?\.o):\S* T (\w+)$", said, re.M)}
    newer = {path for path in tree if (o := BUILD / path.replace(".c", ".o")).exists() and o.stat().st_mtime >= (ROOT / path).stat().st_mtime}
    assert sorted(x for x in defined ^ seen if x[0] in newer and "_RB_" not in x[1]) == []      # what a macro of sys/tree.h defines
    assert len(seen) > 500
