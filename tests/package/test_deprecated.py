"""A key, an option or a metric that a later version removes warns for one release: the table in common/base/deprecated.h."""
import importlib.machinery
import importlib.util
import re

import pytest

from harness import ROOT, SANITIZED, VERSION, queue, wait_for
from harness.other_version import OtherQuredisd, Version

_loader = importlib.machinery.SourceFileLoader("names", str(ROOT / "tests/release/names"))
names = importlib.util.module_from_spec(importlib.util.spec_from_loader("names", _loader))
_loader.exec_module(names)


# ---- the names of a release ----

def test_no_promised_name_is_gone():
    """docs/versions.md: when a name may leave tests/release/names.list."""
    assert names.differences(names.promised(), names.existing())[0] == []


def test_each_kind_has_names():
    kinds = {kind: [n for n in names.promised() if n.startswith(kind + " ")] for kind in names.KINDS}
    assert [kind for kind, found in kinds.items() if not found] == []
    assert sum(map(len, kinds.values())) == len(names.promised())


@pytest.mark.parametrize("lost", ["metric quredis_queue_messages{list}", "event message_escaped.class", "exit status of quredisd 78",
                                  "JSON ingress.size", "key queue.max_attempts", "option of quredis --json"])
def test_a_lost_name_is_seen(lost):
    existing = names.existing()
    assert lost in existing and names.differences(names.promised(), existing - {lost})[0] == [lost]
    assert names.differences(names.promised() - {lost}, existing)[1] >= [lost]


# ---- the table ----

def rows_of(header):
    """(kind, name, what replaces it, the version that removes it) of each row; comments have examples."""
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    rows = re.findall(r'\bX\((KEY|OPTION|METRIC), "([^"]*)", "([^"]*)", "([^"]*)"\)', code)
    assert len(rows) == len(re.findall(r"\bX\(", code)), "a row is not understood"
    return rows


def numbers(version):
    return tuple(map(int, version.split("-")[0].split(".")))


def wrong_rows(rows, version, existing):
    for kind, name, instead, removed_in in rows:
        words = {"KEY": f"key {name}", "METRIC": f"metric {name}", "OPTION": "option of " + name}
        if words[kind] not in existing:
            yield f"{name}: the table has it, and the program does not: remove the row"
        if not instead:
            yield f"{name}: nothing replaces it: say what to do"
        if not re.fullmatch(r"\d+\.\d+\.\d+", removed_in):
            yield f"{name}: \"{removed_in}\" is no version"
        elif numbers(removed_in) <= numbers(version):
            yield f"{name}: {removed_in} was to remove it, this is {version}: remove the name and its row"
        elif numbers(version)[0] > 0 and numbers(removed_in)[1:] != (0, 0):
            yield f"{name}: {removed_in} may remove nothing: from 1.0.0 on only a first number that rises may"


def test_no_row_is_past_its_version():
    assert list(wrong_rows(rows_of((ROOT / "common/base/deprecated.h").read_text()), VERSION, names.existing())) == []


GOOD = '#define DEPRECATED_TABLE(X) \\\n\tX(KEY, "queue.ttl", "queue.keep", "0.3.0") \\\n\tX(OPTION, "quredis --json", "--as", "1.0.0")\n'


@pytest.mark.parametrize("old, new, seen", [
    ("", "", None),
    ("0.3.0", "0.2.0", "queue.ttl: 0.2.0 was to remove it, this is 0.2.0"),
    ("0.3.0", "0.1.9", "queue.ttl: 0.1.9 was to remove it"),
    ("0.3.0", "soon", "is no version"),
    ('"--as"', '""', "say what to do"),
    ("queue.ttl", "queue.tll", "queue.tll: the table has it, and the program does not"),
    ("quredis --json", "quredisd --json", "quredisd --json: the table has it"),
])
def test_rows_past_their_version_are_seen(old, new, seen):
    found = list(wrong_rows(rows_of(GOOD.replace(old, new)), "0.2.0", names.existing()))
    assert (found == []) if seen is None else (len(found) == 1 and seen in found[0])


@pytest.mark.parametrize("removed_in, seen", [("1.5.0", True), ("2.0.1", True), ("2.0.0", False)])
def test_from_the_first_version_on_only_the_next_first_number_removes(removed_in, seen):
    row = f'X(KEY, "queue.ttl", "queue.keep", "{removed_in}")'
    assert any("may remove nothing" in found for found in wrong_rows(rows_of(row), "1.4.0", names.existing())) == seen


# ---- the warnings, of programs with rows of their own ----

ROWS = [("KEY", "health.interval", "health.every", "9.1.0"), ("KEY", "queue.timeout", "queue.limit", "9.2.0"),
        ("OPTION", "quredis --json", "--as json", "9.3.0"), ("OPTION", "quredisd --print", "--show", "9.4.0"),
        ("METRIC", "quredis_redis_up", "quredis_up", "9.5.0")]


@pytest.fixture
def warning(tmp):
    """This version, with ROWS in its table."""
    if SANITIZED:
        pytest.skip("the second version has no sanitizer of its own")
    rows = " ".join(f'X({kind}, "{name}", "{instead}", "{removed_in}")' for kind, name, instead, removed_in in ROWS)
    return Version(tmp / "warning", VERSION, flags=f"'-DDEPRECATED_TABLE(X)={rows}'")


def test_a_deprecated_name_warns_where_it_is_used(warning, machine, redis, handler, tmp):
    """And works as before."""
    d = OtherQuredisd(warning, tmp / "d", tag=machine.tag, redis=redis, queues=[queue("mail", handler("cat >/dev/null"), timeout="5s")],
                      health={"enabled": True, "interval": "1s"}, metrics={"textfile": str(tmp / "q.prom"), "interval": "1s"})
    machine.daemons.append(d)
    d.start()
    lines = d.conf.read_text().splitlines()
    said = warning.run("-c", str(d.conf), "--print", program="quredisd")
    assert said.returncode == 0 and "--print is deprecated: version 9.4.0 removes it; use --show" in said.stderr
    for key, rest in (("health.interval", "version 9.1.0 removes it; use health.every"), ("timeout", "version 9.2.0 removes it; use queue.limit")):
        line = re.search(rf"^warning: {re.escape(str(d.conf))}:(\d+): {re.escape(key)} is deprecated: {re.escape(rest)}$", said.stderr, re.M)
        assert line and re.match(rf"\s*{key.split('.')[-1]} = ", lines[int(line[1]) - 1]), said.stderr
    assert said.stderr.count("deprecated") == 3
    assert any("health.interval is deprecated" in e["reason"] for e in d.events("config_problem"))

    listed = warning.run("-c", str(d.conf), "ls", "--json")
    assert listed.returncode == 0 and listed.stderr.count("quredis: warning: --json is deprecated: version 9.3.0 removes it; use --as json\n") == 1
    assert "--json" not in warning.run("-c", str(d.conf), "ls").stderr
    wait_for(lambda: (tmp / "q.prom").exists() and "\nquredis_redis_up 1\n" in (tmp / "q.prom").read_text(), 60)
    text = (tmp / "q.prom").read_text()
    assert "# HELP quredis_redis_up 1 while Redis answers. This metric is deprecated: version 9.5.0 removes it; use quredis_up.\n" in text
    assert text.count("deprecated") == 1

