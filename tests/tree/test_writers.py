"""Each struct has one owner: tests/tree/writers finds every way to assign a field, and nothing else."""
import importlib.machinery
import importlib.util
import shutil
import subprocess
import sys

import pytest

from harness import ROOT

_loader = importlib.machinery.SourceFileLoader("writers", str(ROOT / "tests/tree/writers"))
writers = importlib.util.module_from_spec(importlib.util.spec_from_loader("writers", _loader))
sys.modules["writers"] = writers        # its processes load it by this name
_loader.exec_module(writers)

pytestmark = pytest.mark.skipif(shutil.which("clang") is None, reason="no clang")

HEADER = """#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

struct place { int tray; };
struct thing {
	int n, list[4];
	_Atomic(int) count;
	char name[8];
	struct place place, places[2];
	struct timespec at;
	struct { int inner; } unnamed;
	union { int one; };
	struct thing *next;
};

void fill(int *n);
void copy(char *to, const char *from, ...);
void place_init(struct place *p);
"""

# a body of f(struct thing *t, const struct thing *other, int i) -> what it writes
WRITES = {
    "t->n = 1": {("thing", "n")},
    "(*t).n = 1": {("thing", "n")},
    "t->n += 1": {("thing", "n")},
    "t->n++": {("thing", "n")},
    "--t->n": {("thing", "n")},
    "t->list[i] = 1": {("thing", "list")},
    "(t + 1)->next->n = 1": {("thing", "n")},
    "t->place.tray = 1": {("place", "tray")},
    "t->places[i].tray = 1": {("place", "tray")},
    "t->place = other->place": {("thing", "place")},
    "t->place = (struct place){ 1 }": {("thing", "place"), ("place", "*")},
    "t->unnamed.inner = 1": {("thing", "inner")},
    "t->one = 1": {("thing", "one")},
    "t->at.tv_sec = 1": {("thing", "at")},
    "*t = (struct thing){ .n = 1 }": {("thing", "*")},
    "atomic_store(&t->count, 1)": {("thing", "count")},
    "atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed)": {("thing", "count")},
    "t->count = 1": {("thing", "count")},
    "fill(&t->n)": {("thing", "n")},
    "fill(&t->list[2])": {("thing", "list")},
    "fill(t->list)": {("thing", "list")},
    "clock_gettime(CLOCK_REALTIME, &t->at)": {("thing", "at")},
    "copy(t->name, other->name)": {("thing", "name")},
    "memset(t, 0, sizeof(*t))": {("thing", "*")},
    "memcpy(t, other, sizeof(*t))": {("thing", "*")},
    "memset(t->name, 0, sizeof(t->name))": {("thing", "name")},
    "static struct thing kept; kept.n = 1": {("thing", "n")},
    # nothing is assigned
    "(void)(t->n == 1 && other->n)": set(),
    "(void)atomic_load(&t->count)": set(),
    "copy(NULL, t->name, t->name, &t->n)": set(),
    "place_init(&t->place)": set(),
    "place_init(&t->places[i])": set(),
    # a value of its own
    "struct thing own = { .n = 1 }; own.n = 2; own.list[i] = 3; own.place.tray = 4; fill(&own.n); memset(&own, 0, sizeof(own))": set(),
    "struct thing own[2]; own[i].n = 1; own[0] = (struct thing){ 0 }": set(),
    "struct thing own = *other, *p = &own; own.next->n = 1; (void)p": {("thing", "n")},
}


@pytest.fixture
def source(tmp):
    (tmp / "common").mkdir()
    (tmp / "common/thing.h").write_text(HEADER)

    def write(name, text):
        (tmp / name).write_text('#include "common/thing.h"\n' + text)
        return writers.writes_of(name, root=tmp)
    return write


@pytest.mark.parametrize("body", WRITES)
def test_what_writes_a_field(source, body):
    found = source("common/x.c", f"void f(struct thing *t, const struct thing *other, int i)\n{{\n\t{body};\n}}\n")
    assert {(struct, field) for struct, field, _, _ in found} == {(f"{struct} of common/thing.h", field) for struct, field in WRITES[body]}
    assert {(file, function) for _, _, file, function in found} <= {("common/x.c", "f")}


def test_each_write_has_its_file(source):
    """An inline function of a header writes there. Structs of two sources that have one name are two."""
    text = "struct own { int n; }; void g(struct own *o, struct thing *t) { o->n = 1; set(t); t->n = 1; }"
    inline = "static inline void set(struct thing *t) { t->n = 1; }\n"
    (source("common/x.c", ""))
    found = source("common/set.h", inline) | source("common/a.c", '#include "common/set.h"\n' + text) | source("common/b.c", inline + text)
    assert writers.writers(found) == {"own of common/a.c": ["common/a.c"], "own of common/b.c": ["common/b.c"],
                                      "thing of common/thing.h": ["common/a.c", "common/b.c", "common/set.h"]}


def test_a_source_that_does_not_compile_is_an_error(source):
    with pytest.raises(RuntimeError, match="no_such_type"):
        source("common/x.c", "no_such_type n;\n")


# ---- the tree ----

@pytest.mark.limit(600)
def test_each_struct_with_several_writers_is_listed():
    found = writers.list_problems(writers.all_writes(), writers.read_list(writers.LIST.read_text()))
    if b"version 14." not in subprocess.run(["clang", "--version"], stdout=subprocess.PIPE, check=True).stdout:
        found = [f for f in found if not f.endswith("does not need to be")]     # the tree of clang 19 lacks some calls
    assert found == []


def test_the_list_is_sorted():
    rows = [line for line in writers.LIST.read_text().splitlines() if not line.startswith("#")]
    assert rows == sorted(rows) and len(rows) == len(writers.read_list("\n".join(rows)))


def test_breaches_of_the_list_are_seen():
    writes = {("a", "n", "x.c", "f"), ("a", "n", "y.c", "f"), ("b", "n", "x.c", "f")}
    assert writers.list_problems(writes, writers.read_list("a: x.c y.c # it is so\n")) == []
    assert writers.list_problems(writes, {}) == ["a: x.c writes it and is not listed", "a: y.c writes it and is not listed"]
    assert writers.list_problems(writes, writers.read_list("a: x.c y.c\n")) == ["a: no reason"]
    assert writers.list_problems(writes, writers.read_list("a: x.c y.c z.c # so\nb: x.c # so\n")) == \
        ["a: z.c is listed and does not need to be", "b: x.c is listed and does not need to be"]
