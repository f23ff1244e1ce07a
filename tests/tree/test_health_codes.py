"""Codes of health that other files name, since they show such a reason in a way of its own, exist."""
import re

import pytest

from harness import ROOT, sources

NAMED = {       # file -> each pattern finds a list of codes, or one
    "admin/doctor/health.c": (r"\} found_by\[\] = \{(.*?)\n\};", r"\} shown_by\[\] = \{(.*?)\n\};"),
    "admin/web/metrics.c": (r"HEALTH, write_reason, (\"\w+\") ",),
    "admin/web/assets/page_overview.js": (r"OF_DEAD_LETTERS = \[(.*?)\]",),
}


def codes_in(text, patterns):
    """Of each row of a list only the first string is a code, unless the list has no rows."""
    found = set()
    for pattern in patterns:
        lists = re.findall(pattern, text, re.S)
        assert lists, pattern
        for one in lists:
            found.update(re.findall(r'\{ "(\w+)"', one) or re.findall(r'"(\w+)"', one))
    return found


@pytest.mark.parametrize("path", NAMED)
def test_codes_exist(path):
    assert codes_in((ROOT / path).read_text(), NAMED[path]) - set(sources.health_codes()) == set()


def test_a_wrong_code_is_seen():
    text = (ROOT / "admin/doctor/health.c").read_text().replace('{ "growth",', '{ "grown",')
    assert codes_in(text, NAMED["admin/doctor/health.c"]) - set(sources.health_codes()) == {"grown"}
