"""Each part of each alert rule matters to the tests of the rules: without it, or with another value, promtool says that they fail."""
import json
import os
import re
import subprocess

import pytest

from alerts.test_runbook import PROMTOOL
from harness import ROOT

RULES = (ROOT / "etc/prometheus/quredis.rules.yml").read_text()
TESTS = ROOT / "tests/alerts/quredis.test.yml"
HEAD, *ALERTS = re.split(r"^(?=      - alert: )", RULES, flags=re.M)
# The changes: the pattern of a part, and its replacement.
CHANGES = [
    (r"== (\d)\b", lambda m: f"== {1 + int(m[1])}"),
    (r"== \d\b", lambda m: ">= 0"),
    (r"> (\d+)\b", lambda m: f"> {1000 + 100 * int(m[1])}"),
    (r"> \d+\b", lambda m: "> -1"),
    (r"for: \w+", lambda m: "for: 0s"),
    (r"for: \w+", lambda m: "for: 10h"),
    (r"\[\w+\]", lambda m: "[1m]"),
    (r"\{\w+=\"\w+\"\}", lambda m: ""),
    (r" and on \([\w, ]+\) \w+ == 1", lambda m: ""),
    (r"\s+unless on \([\w, ]+\) .*", lambda m: ""),
    (r"^\s+or .*\n", lambda m: ""),
    (r"^( +expr: .*|  .*)\b(max|sum|group) by \(\w+, job\)", lambda m: m[0].replace(", job)", ")")),
    (r"severity: \w+", lambda m: "severity: info"),
    (r"runbook\.md#", lambda m: "runbook.md#x"),
]


def name_of(rule):
    return re.match(r" +- alert: (\w+)", rule)[1]


def mutants(rule):
    """(what was changed into what, the rule with that change)"""
    yield "gone", ""
    for pattern, change in CHANGES:
        for m in re.finditer(pattern, rule, re.M):
            yield f"{m[0].strip()} -> {change(m)}", rule[:m.start()] + change(m) + rule[m.end():]


@pytest.fixture(scope="module")
def questions():
    """All tests of the rules, read once: to read and to write YAML costs more than to answer."""
    return pytest.importorskip("yaml").safe_load(TESTS.read_text())


def questions_about(alert, questions):
    """The tests that ask for this alert, in JSON, which is YAML, too."""
    groups = [{**g, "alert_rule_test": [t for t in g["alert_rule_test"] if t["alertname"] == alert]} for g in questions["tests"]]
    return json.dumps({**questions, "rule_files": ["RULES"], "tests": [g for g in groups if g["alert_rule_test"]]})


@pytest.mark.skipif(not PROMTOOL or not os.path.exists(PROMTOOL), reason="no promtool: make promtool fetches it")
@pytest.mark.parametrize("rule", ALERTS, ids=name_of)
def test_each_part_of_a_rule_matters(rule, questions, tmp):
    alert = name_of(rule)
    asked = questions_about(alert, questions)
    changed = [("as it is", rule), *mutants(rule)]
    for i, (_, text) in enumerate(changed):
        (tmp / f"{i}.rules.yml").write_text(HEAD + (text or re.sub("alert: .*", "alert: Other", rule)))
        (tmp / f"{i}.yml").write_text(asked.replace('"RULES"', f'"{i}.rules.yml"'))
    done = subprocess.run([PROMTOOL, "test", "rules", *[f"{i}.yml" for i in range(len(changed))]], cwd=tmp, capture_output=True, text=True, timeout=120)
    verdicts = dict(re.findall(r"^Unit Testing:  (\d+)\.yml\n +(SUCCESS|FAILED)", done.stdout + done.stderr, re.M))
    assert len(changed) > 5 and "parse" not in done.stdout + done.stderr, done.stderr
    assert [what for i, (what, _) in enumerate(changed) if verdicts.get(str(i)) == "SUCCESS"] == ["as it is"], done.stdout
