"""What the table of codes of health names exists, and so do the codes that other files name."""
import re

import pytest

from harness import ROOT, sources

CODES = (ROOT / "common/holds/codes.h").read_text()
HOLDS = (ROOT / "common/holds/table.c").read_text()
CHECKS = set(re.findall(r"\b(?:SYSTEM|QUEUE)\((\w+), ", (ROOT / "admin/doctor/checks.h").read_text()))


def named(codes, holds):
    """The checks, commands and pages of the tables."""
    checks = {c for row in re.findall(r"\.checks = \{(.*?)\}", codes) for c in re.findall(r'"(\w+)"', row)}
    commands, pages = (set(re.findall(rf'\.{column} = "([^"]+)"', codes)) for column in ("before", "page"))
    return checks | set(re.findall(r'\.check = "(\w+)"', holds)), commands, pages


def test_links_exist():
    checks, commands, pages = named(CODES, HOLDS)
    assert checks and checks <= CHECKS
    assert commands and all(any(shown.startswith(c + " ") for shown in sources.commands()) for c in commands)
    assert pages and all(f'["{page}", "#' in (ROOT / "admin/web/assets/console.js").read_text() for page in pages)


def test_a_wrong_check_is_seen():
    assert named(CODES.replace('"lost"', '"lots"'), HOLDS)[0] - CHECKS == {"lots"}


@pytest.mark.parametrize("code", re.findall(r'HEALTH, write_reason, "(\w+)"', (ROOT / "admin/web/metrics.c").read_text()))
def test_codes_exist(code):
    assert code in sources.health_codes()
