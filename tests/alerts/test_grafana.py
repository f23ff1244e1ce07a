"""Each query of the dashboard gives series in a real Prometheus beside a running quredis."""
import json
import re
import urllib.parse
import urllib.request

import pytest

from alerts.test_prometheus import PROMETHEUS, Prometheus, node_exporter
from harness import ROOT, queue, sources, wait_for

DASHBOARD = json.loads((ROOT / "etc/grafana/quredis.json").read_text())
PANELS = [p for p in DASHBOARD["panels"] if p["type"] != "row"]
QUERIES = {(p["title"], t["legendFormat"]): t["expr"] for p in PANELS for t in p["targets"]}
VARIABLES = {v["name"]: v for v in DASHBOARD["templating"]["list"]}
HANDLER = """case $(cat) in fail) exit 3;; slow) sleep 600;; esac"""


def test_panels_do_not_overlap_and_ask_for_figures_that_exist():
    places = [(x, y) for p in DASHBOARD["panels"] for g in [p["gridPos"]]
              for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])]
    assert len(places) == len(set(places)) and max(x for x, _ in places) < 24
    ids = [p["id"] for p in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids)) and len(QUERIES) > 25
    known = sources.metrics()
    asked = {re.sub(r"_(bucket|sum|count)$", "", m) for e in QUERIES.values() for m in re.findall(r"quredis_\w+", e)}
    assert asked and not asked - set(known), asked - set(known)
    used = {v for p in PANELS for t in p["targets"] for v in re.findall(r"\$(\w+)", t["expr"] + t["legendFormat"] + p["title"])}
    assert used <= set(VARIABLES) and {"queue", "node"} <= used


def series(prometheus, expression):
    expression = re.sub(r"\$(queue|node)", ".*", expression)
    try:
        with urllib.request.urlopen(f"{prometheus.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}", timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
    except OSError:                           # it starts, or has ended
        assert prometheus.process.poll() is None, prometheus.log.read_text()
        return []
    return [s for s in found if s["value"][1] != "NaN"]


@pytest.mark.skipif(not PROMETHEUS.exists(), reason="no prometheus: make promtool fetches it")
def test_each_query_has_series(redis, quredisd, console, handler, tmp):
    c = redis.client()
    file = tmp / "quredis.prom"
    (tmp / "typo").write_text("#!/usr/bin/pyhton3\n")
    (tmp / "typo").chmod(0o755)
    limits = {"enabled": True, "interval": "1s", "thresholds": {"failure_min": 1, "failure_rate_warning": 1}}
    d = quredisd(queues=[queue("mail", handler(HANDLER), workers=2, max_in_flight=2, max_attempts=2, backoff={"base": "100ms"}, timeout="20m"),
                         queue("typo", str(tmp / "typo"))],
                 supervisor={"node": "web1", "lease": "2s"}, health=limits, metrics={"textfile": str(file), "interval": "1s"})
    web = console(supervisor={"node": "web1"})
    wait_for(file.exists)
    with node_exporter(file) as exporter:
        prometheus = Prometheus(tmp / "prometheus", [
            {"job_name": "quredis", "authorization": {"credentials": web.token}, "static_configs": [{"targets": [f"{web.host}:{web.port}"]}]},
            {"job_name": "node", "static_configs": [{"targets": [exporter]}]}])
        try:
            c.lpush("ingress:typo", "x")
            c.lpush("ingress:mail", "slow")
            missing = set(QUERIES)

            def asked():
                c.lpush("ingress:mail", "done", "fail")
                missing.difference_update({q for q in missing if series(prometheus, QUERIES[q])})
                return not missing
            wait_for(asked, 60, missing, interval=1)
        finally:
            prometheus.close()
    for name in ("queue", "node"):
        assert re.fullmatch(r"label_values\(quredis_\w+, (\w+)\)", VARIABLES[name]["query"]["query"])[1] == name
    assert d.stop(sig=3) == 0
