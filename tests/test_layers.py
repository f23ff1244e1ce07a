"""Who may include, call and name what (docs/design.md). Every rule is also shown a tree that breaks it."""
import fnmatch
import re

import pytest

from harness import ROOT
from harness.redis_proxy import PRELUDES as PRELUDE_NAMES

PROGRAMS = ("worker", "sweeper", "supervisor", "admin")
SCRIPT_LINES_MAX = 30
PRELUDES = tuple(f"common/scripts/{name}.lua" for name in PRELUDE_NAMES.values())


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

def common_includes_nothing_above(tree):
    return [f"{path}: {i}" for path, text in sources(tree, "common/*.[ch]").items() for i in includes(text)
            if i.startswith('"') and not i.startswith('"common/')]


def programs_do_not_include_each_other(tree):
    return [f"{path}: {i}" for path, text in sources(tree, *(f"{p}/*.[ch]" for p in PROGRAMS)).items()
            for i in includes(text) if i.startswith('"')
            and not i.startswith(('"common/', f'"{path.split("/")[0]}/'))]


def includes_are_written_from_the_root(tree):
    return [f"{path}: {i}" for path, text in sources(tree, "*.[ch]").items() for i in includes(text)
            if i.startswith('"') and i[1:] not in tree]


def _only_in(tree, header, *allowed):
    return [path for path, text in sources(tree, "*.[ch]").items() for i in includes(text)
            if i.startswith(header) and not any(fnmatch.fnmatch(path, a) for a in allowed)]


def hiredis_is_included_by_redis_and_queue(tree):
    return _only_in(tree, "<hiredis", "common/redis*.c", "common/queue*.c", "admin/*adapter*.c")


def libconfig_is_included_by_conf(tree):
    return _only_in(tree, "<libconfig", "common/conf*.c")


def libevent_is_included_by_admin(tree):
    return _only_in(tree, "<event", "admin/*.[ch]")


_KEY = re.compile(r'"[^"\n]*(?:\b(?:ingress|transit|escape):(?:[^ "\n]|"$)|\bquredis:(?:queue|health|node|schema)'
                  r'|:(?:delayed|workers|lease|rescue|rate|paused|sweeper|stats|done)\b)[^"\n]*"'
                  r'|"(?:ingress|transit|escape):"|":log"')


def key_names_are_in_queue_and_conf(tree):
    return [f"{path}: {m[0]}" for path, text in sources(tree, "*.[ch]").items()
            if not any(fnmatch.fnmatch(path, a) for a in ("common/queue*.[ch]", "common/conf*.c"))
            for m in _KEY.finditer(code(text)) if not m[0].startswith('"quredisd:')]     # a connection's name


def scripts_are_files_of_their_own(tree):
    bad = [path for path, text in sources(tree, "*.[ch]").items()
           if re.search(r'redis\.p?call|"EVAL"', code(text)) or
           (".incbin" in text and not fnmatch.fnmatch(path, "common/queue*.c") and path != "admin/web_assets.c")]
    return bad + [path for path in sources(tree, "*.lua") if not path.startswith("common/scripts/")]


def scripts_are_short_and_name_their_arguments(tree):
    bad = []
    for path, text in sources(tree, "common/scripts/*.lua").items():
        lines = text.splitlines()
        if len(lines) > SCRIPT_LINES_MAX:
            bad.append(f"{path}: {len(lines)} lines")
        names = lines[0].startswith("-- KEYS") and any(line.startswith("-- ARGV") for line in lines[1:4])
        if not names and path not in PRELUDES:
            bad.append(f"{path}: does not begin with KEYS and ARGV")
    return bad


def scripts_touch_only_keys_they_are_given(tree):
    """A key that is not in KEYS may lie in another Cluster slot. What stands before the others is told the list by them."""
    return [f"{path}: {m[0]}" for path, text in sources(tree, "common/scripts/*.lua").items()
            for m in [*re.finditer(r"redis\.p?call\('([A-Z]+)'([^)]*)", text), *re.finditer(r"(entry_named)(\([^)]*)", text)]
            if m[1] != "TIME" and path not in PRELUDES and not re.match(r"(?:, (?:'(?:STREAM|USAGE)', )?|\()KEYS\[", m[2])]


def children_start_in_one_file(tree):
    callers = {f: sorted(path for path, text in sources(tree, "*.c").items()
                         if path.split("/")[0] != f.split("_")[0] and re.search(rf"\b{f}\s*\(", code(text)))
               for f in ("worker_run", "sweeper_run")}
    both = set(callers["worker_run"] + callers["sweeper_run"])
    if len(both) == 1 and all(callers.values()) and both.pop().startswith("supervisor/"):
        return []
    return [str(callers)]


def sources_say_what_they_are_for(tree):
    return [path for path, text in sources(tree, "*.c").items() if not text.startswith("/*")]


BREAKING = {
    common_includes_nothing_above: {"common/x.c": '/* */\n#include "worker/worker.h"\n'},
    programs_do_not_include_each_other: {"admin/x.h": '# include "sweeper/sweeper.h"\n'},
    includes_are_written_from_the_root: {"worker/x.c": '/* */\n#include "handler.h"\n'},
    hiredis_is_included_by_redis_and_queue: {"worker/x.c": "/* */\n#include <hiredis/hiredis.h>\n"},
    libconfig_is_included_by_conf: {"common/redis_x.c": "/* */\n#include <libconfig.h>\n"},
    libevent_is_included_by_admin: {"supervisor/x.c": "/* */\n#include <event2/event.h>\n"},
    key_names_are_in_queue_and_conf: {"sweeper/x.c": '/* */\nchar *k = "ingress:";\n'},
    scripts_are_files_of_their_own: {"common/queue_x.c": "/* */\nchar *s = \"redis.call('DEL', KEYS[1])\";\n"},
    scripts_are_short_and_name_their_arguments: {"common/scripts/x.lua": "-- KEYS: a\n-- ARGV: b\n" + "\n" * 29},
    scripts_touch_only_keys_they_are_given: {"common/scripts/x.lua": "-- KEYS: a\n-- ARGV: b\nredis.call('DEL', ARGV[1])\n"},
    children_start_in_one_file: {"supervisor/x.c": "/* */\nvoid f(void) { sweeper_run(NULL); }\n",
                                 "supervisor/y.c": "/* */\nvoid g(void) { worker_run(NULL); }\n"},
    sources_say_what_they_are_for: {"worker/x.c": "#include <stdio.h>\n"},
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
    assert all(sources(tree, f"{p}/*.c") for p in ("common", *PROGRAMS)) and sources(tree, "common/scripts/*.lua")
