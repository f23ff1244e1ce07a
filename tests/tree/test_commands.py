"""The list of Redis commands (common/redis/command_name.h) has those that the sources and scripts send, and no others."""
import re

from harness import ROOT

SENT = [re.compile(x) for x in (
    r'(?:redis_appendf|redis_format|append_over|append_purge|purge_delayed|glance)\([^;]*?"([A-Z]{3,})[ "]',
    r'(?:redis_appendf|redis_format)\([^;]*? : "([A-Z]{3,}) ',
    r'argv\[[^=;]*\] = (?:\{ )?"([A-Z]{3,})"', r'#define ASK_\w+ "([A-Z]{3,}) ')]


def listed(text):
    return set(re.findall(r"X\((\w+)\)", text.split("#define COMMAND_NAMES(X)")[1].split("enum command_name")[0]))


def of_scripts(text):
    return set(re.findall(r"(?:call\(|did\(|\{ )'([A-Z]{3,})'", text)) - {"USAGE"}


def of_sources(text):
    return {name for pattern in SENT for name in pattern.findall(text)}


def test_the_list_is_complete():
    sent = set()
    for folder in ("common", "worker", "sweeper", "admin"):
        for f in (ROOT / folder).rglob("*.[ch]"):
            sent |= of_sources(f.read_text())
    for f in (ROOT / "common/queue/scripts").rglob("*.lua"):
        sent |= of_scripts(f.read_text())
    names = listed((ROOT / "common/redis/command_name.h").read_text())
    assert sent - names == set(), "missing in the list"
    assert names - sent == set(), "not sent"


def test_it_finds_commands():
    assert of_sources('redis_appendf(r, "LSET %s -1 %s", k, m); redis_append(x); const char *argv[9] = { "MGET", k };') == {"LSET", "MGET"}
    assert of_sources('redis_format(&c, o->blmove ? "LMOVE %s %s" : "RPOPLPUSH %s %s", a);') == {"LMOVE", "RPOPLPUSH"}
    assert of_scripts("redis.pcall('MEMORY', 'USAGE', k) did('HSET', a) { { 'LTRIM', list } }") == {"MEMORY", "HSET", "LTRIM"}
