"""Who may include, call and name what (docs/design.md). Every rule is also shown a tree that breaks it."""
import fnmatch
import importlib.machinery
import importlib.util
import re
import subprocess

import pytest

from harness import BUILD, ROOT

loader = importlib.machinery.SourceFileLoader("layers", str(ROOT / "tests/tree/layers"))
layers = importlib.util.module_from_spec(importlib.util.spec_from_loader("layers", loader))
loader.exec_module(layers)
TABLE = layers.read_table(ROOT)
PROGRAMS = ("worker", "sweeper", "supervisor", "admin")
SCRIPT_LINES_MAX = 30


def read_tree():
    """path -> text of every source of the programs."""
    files = [p for folder in ("common", *PROGRAMS) for ext in ("c", "h", "lua") for p in (ROOT / folder).rglob(f"*.{ext}")]
    return {str(p.relative_to(ROOT)): p.read_text() for p in files}


def sources(tree, *patterns):
    return {path: text for path, text in tree.items() if any(fnmatch.fnmatch(path, p) for p in patterns)}


def code(text):
    """Without comments; strings stay."""
    token = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//[^\n]*|/\*.*?\*/', re.S)
    return token.sub(lambda m: m[0] if m[0][0] in "\"'" else " ", text)


def includes(text):
    return re.findall(r'^\s*#\s*include\s+([<"][^>"]+)[>"]', text, re.M)


# ---- rules: each gives what breaks it ----

def folders_include_only_what_the_table_allows(tree):
    """tests/tree/layers prints the graph; the Makefile has the table."""
    return layers.breaches(TABLE, sources(tree, "*.[ch]"))


def includes_are_written_from_the_root(tree):
    return [f"{path}: {i}" for path, text in sources(tree, "*.[ch]").items() for i in includes(text)
            if i.startswith('"') and i[1:] not in tree]


def _only_in(tree, header, *allowed):
    return [path for path, text in sources(tree, "*.[ch]").items() for i in includes(text)
            if i.startswith(header) and not any(fnmatch.fnmatch(path, a) for a in allowed)]


def hiredis_is_included_by_redis_and_queue(tree):
    return _only_in(tree, "<hiredis", "common/redis/*.c", "common/queue/*.c")


def libconfig_is_included_by_conf(tree):
    return _only_in(tree, "<libconfig", "common/conf/*.c")


def libevent_is_included_by_admin(tree):
    return _only_in(tree, "<event", "admin/*.[ch]")


_KEY = re.compile(r'"[^"\n]*(?:\b(?:ingress|transit|escape):(?:[^ "\n]|"$)|\bquredis:(?:queue|health|node|schema)'
                  r'|:(?:delayed|workers|lease|rescue|rate|paused|sweeper|stats|done)\b)[^"\n]*"'
                  r'|"(?:ingress|transit|escape):"|":log"')


def key_names_are_in_queue_and_conf(tree):
    return [f"{path}: {m[0]}" for path, text in sources(tree, "*.[ch]").items()
            if not any(fnmatch.fnmatch(path, a) for a in ("common/queue*.[ch]", "common/conf/*.c"))
            for m in _KEY.finditer(code(text)) if not m[0].startswith('"quredisd:')]     # a connection's name


def scripts_are_files_of_their_own(tree):
    bad = [path for path, text in sources(tree, "*.[ch]").items()
           if re.search(r'redis\.p?call|"EVAL"', code(text)) or
           (".incbin" in text and not fnmatch.fnmatch(path, "common/queue/*.c") and path != "admin/web/assets.c")]
    return bad + [path for path in sources(tree, "*.lua") if not path.startswith("common/queue/scripts/")]


def scripts_are_short_and_name_their_arguments(tree):
    bad = []
    for path, text in sources(tree, "common/queue/scripts/*.lua").items():
        lines = text.splitlines()
        if len(lines) > SCRIPT_LINES_MAX:
            bad.append(f"{path}: {len(lines)} lines")
        names = lines[0].startswith("-- KEYS") and any(line.startswith("-- ARGV") for line in lines[1:4])
        if not names and "/shared/" not in path:
            bad.append(f"{path}: does not begin with KEYS and ARGV")
    return bad


def scripts_touch_only_keys_they_are_given(tree):
    """A key that is not in KEYS may lie in another Cluster slot. What stands before the others is told the list by them."""
    return [f"{path}: {m[0]}" for path, text in sources(tree, "common/queue/scripts/*.lua").items()
            for m in [*re.finditer(r"redis\.p?call\('([A-Z]+)'([^)]*)", text), *re.finditer(r"(entry_named)(\([^)]*)", text),
                      *re.finditer(r"\{ '([A-Z]{4,})'(, (?!list\b)[^}]*)", text)]
            if m[1] != "TIME" and "/shared/" not in path and not re.match(r"(?:, (?:'(?:STREAM|USAGE)', )?|\()KEYS\[", m[2])]


def children_start_in_one_file(tree):
    callers = {f: sorted(path for path, text in sources(tree, "*.c").items()
                         if path.split("/")[0] != f.split("_")[0] and re.search(rf"\b{f}\s*\(", code(text)))
               for f in ("worker_run", "sweeper_run")}
    both = set(callers["worker_run"] + callers["sweeper_run"])
    if len(both) == 1 and all(callers.values()) and both.pop().startswith("supervisor/"):
        return []
    return [str(callers)]


def only_the_core_iterates_over_queues(tree):
    return [path for path, text in sources(tree, "sweeper/*.c").items()
            if not path.startswith("sweeper/core/") and re.search(r"TAILQ_\w+\([^;{]*->queues\b", code(text))]


def sources_say_what_they_are_for(tree):
    return [path for path, text in sources(tree, "*.c").items() if not text.startswith("/*")]


def comments_name_their_subject(tree):
    """A comment that begins with such a word must be read twice to see what it is about."""
    begin = re.compile(r"/\*[\s*]*((?:What|That|Who|Somebody|Nobody|They|He|It|One (?:that|who|is|has|may|must|does|of))\b[^\n]{0,60})")
    return [f"{path}: {m[1]}" for path, text in sources(tree, "*.[ch]").items() for m in begin.finditer(text)]


BREAKING = {
    folders_include_only_what_the_table_allows: {"common/base/x.c": '/* */\n#include "common/redis/redis.h"\n'},
    includes_are_written_from_the_root: {"worker/x.c": '/* */\n#include "handler.h"\n'},
    hiredis_is_included_by_redis_and_queue: {"worker/x.c": "/* */\n#include <hiredis/hiredis.h>\n"},
    libconfig_is_included_by_conf: {"common/redis/x.c": "/* */\n#include <libconfig.h>\n"},
    libevent_is_included_by_admin: {"supervisor/x.c": "/* */\n#include <event2/event.h>\n"},
    key_names_are_in_queue_and_conf: {"sweeper/x.c": '/* */\nchar *k = "ingress:";\n'},
    scripts_are_files_of_their_own: {"common/queue/x.c": "/* */\nchar *s = \"redis.call('DEL', KEYS[1])\";\n"},
    scripts_are_short_and_name_their_arguments: {"common/queue/scripts/x.lua": "-- KEYS: a\n-- ARGV: b\n" + "\n" * 29},
    scripts_touch_only_keys_they_are_given: {"common/queue/scripts/x.lua": "-- KEYS: a\n-- ARGV: b\nredis.call('DEL', ARGV[1])\n"},
    children_start_in_one_file: {"supervisor/x.c": "/* */\nvoid f(void) { sweeper_run(NULL); }\n",
                                 "supervisor/y.c": "/* */\nvoid g(void) { worker_run(NULL); }\n"},
    only_the_core_iterates_over_queues: {"sweeper/age/x.c": "/* */\nvoid f(void) { TAILQ_FOREACH(q, &s->queues, entry) g(q); }\n"},
    sources_say_what_they_are_for: {"worker/x.c": "#include <stdio.h>\n"},
    comments_name_their_subject: {"worker/x.c": "/*\n * What is kept of it.\n */\n", "worker/y.c": "/* Nobody else may. */\n/* One that has no name. */\n"},
}


@pytest.mark.parametrize("rule", BREAKING, ids=lambda r: r.__name__)
def test_tree_keeps(rule):
    assert rule(read_tree()) == []


@pytest.mark.parametrize("rule", BREAKING, ids=lambda r: r.__name__)
def test_breach_is_seen(rule):
    tree = read_tree()
    assert len(rule({**tree, **BREAKING[rule]})) > len(rule(tree)) or rule is children_start_in_one_file
    assert rule({**tree, **BREAKING[rule]})


@pytest.mark.parametrize("literal", ['"ingress:%s"', '"quredis:queues"', '"%s:delayed"', '"transit:mail"', '":log"',
                                     '"%s:lease:%s"', '"escape:"'])
def test_key_names_are_seen(literal):
    assert key_names_are_in_queue_and_conf({"worker/x.c": f"f({literal});"})


@pytest.mark.parametrize("text", ['"escape: cannot be written"', '/* "ingress:mail" */', '"quredis: wrong"', '"quredisd:%s:sweeper"', '"log"'])
def test_other_words_are_left_alone(text):
    assert key_names_are_in_queue_and_conf({"worker/x.c": f"f({text});"}) == []


def test_every_program_has_sources():
    """A rule over no file would hold always."""
    tree = read_tree()
    assert all(sources(tree, f"{p}/*.c") for p in ("common", *PROGRAMS)) and sources(tree, "common/queue/scripts/*.lua")


@pytest.mark.parametrize("path, text, found", [
    ("common/queue/x.c", '#include "common/redis/redis.h"', []),
    ("worker/x.c", '#include "common/base/base.h"', []),                # through others
    ("common/queue/x.c", '# include "worker/worker.h"', ["common/queue may not use worker"]),
    ("worker/x.c", '#include "sweeper/core/core.h"', ["worker may not use sweeper/core"]),
    ("worker/x.c", '#include "common/redis/info.h"', ["only common/redis/redis.h is for other folders"]),
    ("common/redis/x.c", '#include "common/redis/info.h"', []),
    ("worker/x.c", '#include "nowhere/nowhere.h"', ["is in no folder of the Makefile's table"]),
])
def test_an_include_past_the_table_is_seen(path, text, found):
    assert [line.rpartition(": ")[2] for line in layers.breaches(TABLE, {path: text})] == found


def test_a_table_with_a_circle_is_seen():
    with pytest.raises(ValueError, match="common/a -> common/b -> common/a: a circle"):
        layers.below({"common/a": ["common/b"], "common/b": ["common/a"]}, "common/a")


def test_no_folder_goes_round_in_a_circle():
    """Neither the table nor the includes themselves."""
    assert all(layers.below(TABLE, folder) is not None for folder in TABLE)
    used = {folder: list(row) for folder, row in layers.graph(TABLE, layers.read_sources(ROOT, TABLE)).items()}
    assert all(layers.below(used, folder) is not None for folder in TABLE)


def test_circles_of_files_have_a_reason():
    """Two files that call each other can only be read together. A folder stands in the list as long as it has such files."""
    rows = [line.split("\t") for line in (ROOT / "tests/tree/circles.list").read_text().splitlines()]
    tree = layers.read_sources(ROOT, TABLE)
    assert [folder for folder, reason in rows if reason] == sorted(folder for folder in TABLE if layers.circles(tree, folder))


def test_a_circle_of_files_is_seen():
    tree = {"a/x.c": "int x_go(void)\n{\n\treturn y_go();\n}\n", "a/y.c": "int y_go(void)\n{\n\treturn z_go();\n}\n",
            "a/z.c": "/* x_go */\nint z_go(void)\n{\n\treturn x_go(\"y_go\");\n}\n", "a/w.c": "int w_go(void)\n{\n\treturn x_go();\n}\n"}
    assert layers.circles(tree, "a") == [("a/x.c", "a/y.c", "a/z.c")]
    assert layers.circles({**tree, "a/z.c": "static int x_go(void)\n{\n\treturn 0;\n}\n"}, "a") == []


def test_make_layers_prints_the_graph():
    done = subprocess.run(["make", "-s", "layers"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert "common/log (" in done.stdout and "\n    common/base (" in done.stdout


def test_every_source_is_in_a_folder_of_the_table():
    inside = {path for path in read_tree() if path.endswith((".c", ".h"))}
    assert inside == set(layers.read_sources(ROOT, TABLE))


def test_a_call_across_a_wall_does_not_link(tmp_path):
    """common/log with one more file, which calls what a folder above it has."""
    (tmp_path / "x.c").write_text("int scoreboard_make(void);\nint x(void);\nint x(void) { return scoreboard_make(); }\n")
    built = BUILD.relative_to(ROOT) if BUILD.is_relative_to(ROOT) else BUILD
    command = subprocess.run(["make", "-n", "-W", f"{built}/common/log/library.a", f"{built}/common/log/wall"], cwd=ROOT, capture_output=True, text=True)
    link = next(line for line in command.stdout.splitlines() if "--whole-archive" in line).replace(f"{built}/common/log/wall", str(tmp_path / "wall"))
    assert subprocess.run(link, cwd=ROOT, shell=True, capture_output=True).returncode == 0
    across = subprocess.run(link.replace("-Wl,--whole-archive", f"-fPIE {tmp_path}/x.c -Wl,--whole-archive"), cwd=ROOT, shell=True, capture_output=True, text=True)
    assert across.returncode != 0 and "undefined reference to `scoreboard_make'" in across.stderr
