"""The alert rules in a real Prometheus beside a running quredis."""
import contextlib
import http.server
import json
import re
import resource
import subprocess
import threading
import urllib.request

import pytest

from harness import BUILD, ROOT, queue, wait_for
from harness.queues import Queue
from harness.redis_server import free_port

PROMETHEUS = BUILD.parent / "tools/prometheus"
RULES = ROOT / "etc/prometheus/quredis.rules.yml"


class Prometheus:
    """Scrapes and judges every second; no rule waits for longer than that, and what is older than 20 s is old."""

    def __init__(self, directory, scrapes):
        directory.mkdir()
        rules = re.sub(r"for: \w+", "for: 1s", RULES.read_text())
        assert rules.count("> 300") == 2
        (directory / "rules.yml").write_text(rules.replace("> 300", "> 20"))
        (directory / "prometheus.yml").write_text(json.dumps({          # JSON is YAML
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"], "scrape_configs": scrapes}))
        self.url, self.log = f"http://127.0.0.1:{free_port()}", directory / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([PROMETHEUS, f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data",
                                             f"--web.listen-address={self.url[7:]}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def firing(self):
        """{(alert, the node, queue, job or instance that its first label names)}"""
        try:
            with urllib.request.urlopen(self.url + "/api/v1/alerts", timeout=10) as answer:
                alerts = json.load(answer)["data"]["alerts"]
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return set()
        whom = ("node", "queue", "instance", "job")
        return {(a["labels"]["alertname"], next(a["labels"][w] for w in whom if w in a["labels"])) for a in alerts if a["state"] == "firing"}

    def wait_firing(self, *alert, timeout=45):
        return wait_for(lambda: (found := self.firing()) >= {alert} and found, timeout, alert)

    def close(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def node_exporter(path):
    """As the node exporter serves metrics.textfile."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            text = path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(not PROMETHEUS.exists(), reason="no prometheus: make promtool fetches it")
def test_prometheus_rings_when_an_archive_takes_nothing(redis, quredisd, console, handler, tmp):
    """The limit of a file is the end of a disk."""
    (tmp / "archive").mkdir(mode=0o700)
    q = Queue(redis.client(), register=False)
    d = quredisd(queues=[queue("mail", handler("cat"), workers=0, dead_letter={"max_entries": 1, "archive": tmp / "archive"})],
                 health={"enabled": True, "interval": "1s"})
    d.wait_event("lead_taken")
    resource.prlimit(d.sweeper(), resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    web = console()
    prometheus = Prometheus(tmp / "prometheus", [{"job_name": "quredis", "authorization": {"credentials": web.token},
                                                  "static_configs": [{"targets": [f"{web.host}:{web.port}"]}]}])
    try:
        q.dead_letters(*[b"%d" % i for i in range(5)])
        prometheus.wait_firing("QuredisArchive", "mail")
        assert redis.client().llen(q.escape) == 5
        resource.prlimit(d.sweeper(), resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_for(lambda: ("QuredisArchive", "mail") not in prometheus.firing(), 60, "the alert to end")
        assert redis.client().llen(q.escape) == 1
    finally:
        prometheus.close()


@pytest.mark.skipif(not PROMETHEUS.exists(), reason="no prometheus: make promtool fetches it")
def test_prometheus_rings_when_a_breaker_opens_a_supervisor_is_killed_and_the_console_ends(redis, quredisd, console, tmp):
    (tmp / "typo").write_text("#!/usr/bin/pyhton3\n")
    (tmp / "typo").chmod(0o755)
    file = tmp / "quredis.prom"
    d = quredisd(queues=[queue("mail", str(tmp / "typo"))], supervisor={"node": "web1"}, metrics={"textfile": str(file), "interval": "1s"})
    web = console(supervisor={"node": "web1"})
    wait_for(file.exists)
    with node_exporter(file) as exporter:
        prometheus = Prometheus(tmp / "prometheus", [
            {"job_name": "consoles", "authorization": {"credentials": web.token}, "static_configs": [{"targets": [f"{web.host}:{web.port}"]}]},
            {"job_name": "node", "static_configs": [{"targets": [exporter]}]}])
        try:
            redis.client().lpush("ingress:mail", "x")
            assert prometheus.wait_firing("QuredisBreakerOpen", "mail") == {("QuredisBreakerOpen", "mail")}
            d.kill9()
            old = {("QuredisFiguresAreOld", "web1"), ("QuredisFiguresAreOld", exporter)}
            found = wait_for(lambda: (f := prometheus.firing()) >= old | {("QuredisSupervisorGone", "web1")} and f, 60, "the alerts of a dead supervisor")
            assert not {a for a in found if a[0] in ("QuredisConsoleGone", "QuredisRedisDown")}
            web.close()
            prometheus.wait_firing("QuredisConsoleGone", "consoles")
            wait_for(lambda: ("QuredisSupervisorGone", "web1") not in prometheus.firing(), 30, "nobody to know whether the supervisor lives")
        finally:
            prometheus.close()
