"""Each alert rule has its section in the runbook."""
import json
import re
import shutil
import subprocess

import pytest

from harness import BUILD, ROOT

PROMTOOL = shutil.which("promtool") or BUILD.parent / "tools/promtool"


def alerts_without_section(rules, runbook):
    """And the sections that are named like an alert that does not exist."""
    named, sections = re.findall(r"- alert: (\w+)", rules), re.findall(r"^### (.*)$", runbook, re.M)
    return [a for a in named if a not in sections], [s for s in sections if s.startswith("Quredis") and s not in named]


def test_each_alert_has_its_section_in_the_runbook():
    rules, runbook = (ROOT / "etc/prometheus/quredis.rules.yml").read_text(), (ROOT / "docs/runbook.md").read_text()
    assert rules.count("alert: ") > 10 and alerts_without_section(rules, runbook) == ([], [])
    assert alerts_without_section(rules, runbook.replace("### QuredisWaiting\n", "### QuredisWait\n")) == (["QuredisWaiting"], ["QuredisWait"])


def alerts_with_a_wrong_link(rules):
    """runbook_url is the address of the section, as a browser makes it from the heading."""
    links = dict(re.findall(r"- alert: (\w+)\n(?:(?!      - ).*\n)*?          runbook_url: \"(.*)\"", rules))
    return [a for a in re.findall(r"- alert: (\w+)", rules) if links.get(a) != f"file:///usr/share/doc/quredis/docs/runbook.md#{a.lower()}"]


def test_each_alert_links_to_its_section():
    rules = (ROOT / "etc/prometheus/quredis.rules.yml").read_text()
    assert alerts_with_a_wrong_link(rules) == []
    assert alerts_with_a_wrong_link(rules.replace("#quredisarchive", "#archive")) == ["QuredisArchive"]
    assert alerts_with_a_wrong_link(re.sub(r" *runbook_url.*quredisarchive.*\n", "", rules)) == ["QuredisArchive"]


def documented_configuration():
    """The prometheus.yml of docs/operating.md."""
    text = (ROOT / "docs/operating.md").read_text()
    return re.search(r"^\*\*Alerts in Prometheus\.\*\*.*?\n\n((?:    [^\n]*\n)+)", text, re.M | re.S)[1]


def test_the_manual_says_how_to_install_the_rules():
    text, rules = documented_configuration(), (ROOT / "etc/prometheus/quredis.rules.yml").read_text()
    assert re.findall(r"rule_files:\n +- (\S+)", text) == ["/etc/prometheus/quredis.rules.yml"]
    assert set(re.findall(r'job="(\w+)"', rules)) <= set(re.findall(r"job_name: (\w+)", text))
    assert f"{json.dumps('web1:7379')}" in text and '#listen = "127.0.0.1:7379"' in (ROOT / "etc/quredis.conf").read_text()


# After how many seconds the figures show it: the report of a dead supervisor leaves Redis after 30 s, supervisors report every 10 s, and health
# looks every 60 s.
SHOWN_AFTER = {"QuredisSupervisorGone": 30, "QuredisConsoleGone": 0, "QuredisBreakerOpen": 10, "QuredisArchive": 60}


def late_alerts(rules, configuration):
    """Those that take more than two minutes with the documented intervals."""
    scrape, evaluation = (int(re.search(rf"^ *{name}_interval: (\d+)s$", configuration, re.M)[1]) for name in ("scrape", "evaluation"))
    waits = {name: int(n) * {"s": 1, "m": 60}[unit] for name, n, unit in re.findall(r"- alert: (\w+)\n(?:(?!      - ).*\n)*?        for: (\d+)([sm])\n", rules)}
    return [name for name, shown in SHOWN_AFTER.items() if shown + scrape + waits[name] + evaluation > 120]


def test_what_nobody_may_miss_rings_within_two_minutes():
    rules, text = (ROOT / "etc/prometheus/quredis.rules.yml").read_text(), documented_configuration()
    assert late_alerts(rules, text) == []
    assert late_alerts(rules.replace("for: 30s", "for: 1m"), text) == ["QuredisArchive"]
    assert late_alerts(rules, text.replace("scrape_interval: 15s", "scrape_interval: 60s")) == list(SHOWN_AFTER)


@pytest.mark.skipif(not PROMTOOL or not shutil.which(PROMTOOL), reason="no promtool: make promtool fetches it")
def test_the_documented_configuration_is_valid(tmp):
    text = documented_configuration()
    (tmp / "quredis.rules.yml").write_bytes((ROOT / "etc/prometheus/quredis.rules.yml").read_bytes())
    (tmp / "quredis.token").write_text("x")
    for written, code in ((text, 0), (text.replace("rule_files", "rules"), 1)):
        (tmp / "prometheus.yml").write_text(re.sub("^    ", "", written.replace("/etc/prometheus", str(tmp)), flags=re.M))
        done = subprocess.run([PROMTOOL, "check", "config", tmp / "prometheus.yml"], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done
        assert code or re.search(r"1 rule files|\d+ rules found", done.stdout), done
