"""Each alert rule has its section in the runbook."""
import re

from harness import ROOT


def alerts_without_section(rules, runbook):
    """And the sections that are named like an alert that does not exist."""
    named, sections = re.findall(r"- alert: (\w+)", rules), re.findall(r"^### (.*)$", runbook, re.M)
    return [a for a in named if a not in sections], [s for s in sections if s.startswith("Quredis") and s not in named]


def test_each_alert_has_its_section_in_the_runbook():
    rules, runbook = (ROOT / "etc/prometheus/quredis.rules.yml").read_text(), (ROOT / "docs/runbook.md").read_text()
    assert rules.count("alert: ") > 10 and alerts_without_section(rules, runbook) == ([], [])
    assert alerts_without_section(rules, runbook.replace("### QuredisWaiting\n", "### QuredisWait\n")) == (["QuredisWaiting"], ["QuredisWait"])
