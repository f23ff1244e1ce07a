"""The manifests of etc/kubernetes: what they say of each other, and pods of the image with the mounts, the user and the probes of the manifests.

A pod is a container with a network of its own. Its volumes have the owners, modes and links that a kubelet gives them.
"""
import json
import os
import re
import shutil
import subprocess

import pytest

from alerts.test_grafana import series
from alerts.test_prometheus import PROMETHEUS, Prometheus
from harness import Authority, BUILD, ROOT, queue, wait_for
from harness.manual import access_lists

yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")

FILES = sorted((ROOT / "etc/kubernetes").glob("*.yaml"))
OBJECTS = {(o["kind"], o["metadata"]["name"]): o for file in FILES for o in yaml.safe_load_all(file.read_text()) if o}
WORKER, CONSOLE = OBJECTS["Deployment", "quredis-worker"], OBJECTS["Deployment", "quredis-console"]
DEPLOYMENTS = (WORKER, CONSOLE)
SECRETS = {"redis.password": "p" * 20, "redis-ca.pem": "", "web.token": "t" * 32}
MODELS = BUILD.parent / "kubernetes-models/node_modules"
POD_ADDRESS = "10.1.2.3:7379"           # a kubelet and a Prometheus name a pod by its address


def pod_of(deployment):
    return deployment["spec"]["template"]["spec"]


def container_of(deployment):
    (container,) = pod_of(deployment)["containers"]
    return container


def is_part(part, whole):
    return part.items() <= whole.items()


# ---- the manifests by themselves ----

def test_objects_name_objects_that_are_there():
    for deployment in DEPLOYMENTS:
        assert is_part(deployment["spec"]["selector"]["matchLabels"], deployment["spec"]["template"]["metadata"]["labels"])
        volumes = {v["name"]: v for v in pod_of(deployment)["volumes"]}
        assert [m["name"] for m in container_of(deployment)["volumeMounts"]] == list(volumes)
        assert ("ConfigMap", volumes["configuration"]["configMap"]["name"]) in OBJECTS
        assert {i["key"] for i in volumes["secret"]["secret"].get("items", [])} <= set(SECRETS)
    labels = CONSOLE["spec"]["template"]["metadata"]["labels"]
    service, policy, ingress = (OBJECTS[kind, "quredis-console"] for kind in ("Service", "NetworkPolicy", "Ingress"))
    assert is_part(service["spec"]["selector"], labels) and is_part(policy["spec"]["podSelector"]["matchLabels"], labels)
    assert not is_part(service["spec"]["selector"], WORKER["spec"]["template"]["metadata"]["labels"])
    (port,) = container_of(CONSOLE)["ports"]
    assert [p["targetPort"] for p in service["spec"]["ports"]] == [p["port"] for p in policy["spec"]["ingress"][0]["ports"]] == [port["name"]]
    (rule,) = ingress["spec"]["rules"]
    (backend,) = [p["backend"]["service"] for p in rule["http"]["paths"]]
    assert backend["name"] == "quredis-console" and backend["port"]["name"] in [p["name"] for p in service["spec"]["ports"]]
    scaled = OBJECTS["ScaledObject", "quredis-worker"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == WORKER["metadata"]["name"] and "replicas" not in WORKER["spec"]


def test_pods_have_no_rights_and_a_root_that_is_read_only():
    for deployment in DEPLOYMENTS:
        pod, own = pod_of(deployment)["securityContext"], container_of(deployment)["securityContext"]
        assert (pod["runAsUser"], pod["runAsGroup"], pod["fsGroup"], pod["runAsNonRoot"]) == (65534, 65534, 65534, True)
        assert own == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        writable = [m["mountPath"] for m in container_of(deployment)["volumeMounts"] if not m.get("readOnly")]
        assert writable == (["/run/quredis"] if deployment is WORKER else [])


def against_the_schemas(objects):
    """What is wrong with them: a line each."""
    done = subprocess.run(["node", ROOT / "tests/container/validate.js"], input=json.dumps(objects), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, env={**os.environ, "NODE_PATH": str(MODELS)})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("node") is None or not MODELS.is_dir(), reason="no node, or no kubernetes-models (make kubernetes-models)")
def test_objects_are_as_the_schemas_of_kubernetes_and_keda():
    assert against_the_schemas(list(OBJECTS.values())) == []


@pytest.mark.skipif(shutil.which("node") is None or not MODELS.is_dir(), reason="no node, or no kubernetes-models (make kubernetes-models)")
@pytest.mark.parametrize("kind, old, new, seen", [
    ("ScaledObject", '"minReplicaCount": 1', '"minReplicaCount": "1"', "ScaledObject: data/spec/minReplicaCount must be integer"),
    ("ScaledObject", '"scaleTargetRef"', '"target"', "ScaledObject: data/spec must have required property scaleTargetRef"),
    ("ScaledObject", '"cooldownPeriod"', '"coolDownPeriod"', "ScaledObject.spec.coolDownPeriod: not in the schema"),
    ("Ingress", '"pathType"', '"pathTyp"', "Ingress.spec.rules.0.http.paths.0.pathTyp: not in the schema"),
    ("NetworkPolicy", '"from"', '"form"', "NetworkPolicy.spec.ingress.0.form: not in the schema"),
])
def test_a_mistake_in_an_object_is_seen(kind, old, new, seen):
    text = json.dumps([o for (k, _), o in OBJECTS.items() if k == kind])
    assert old in text and seen in against_the_schemas(json.loads(text.replace(old, new)))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["metadata"]["name"])
def test_kubectl_knows_each_field_of_the_deployments(deployment, tmp):
    """It reads them into its own types, and what it does not know is gone from its answer."""
    def lost(before, after, at=""):
        if isinstance(before, dict) and isinstance(after, dict):
            return [x for k, v in before.items() for x in (lost(v, after[k], f"{at}.{k}") if k in after else [f"{at}.{k}"])]
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            return [x for i, (b, a) in enumerate(zip(before, after)) for x in lost(b, a, f"{at}[{i}]")]
        return [] if before == after else [f"{at}: {before!r} became {after!r}"]
    (tmp / "json").write_text(json.dumps(deployment))
    done = subprocess.run(["kubectl", "set", "env", "--local", "-f", tmp / "json", "-o", "json", "ADDED=1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    after = json.loads(done.stdout)
    assert container_of(after)["env"].pop() == {"name": "ADDED", "value": "1"}
    assert lost(deployment, after) == []


# ---- pods ----

class Volumes:
    """The directories of a pod's volumes, as a kubelet makes them: files behind the link ..data, of root and of the group fsGroup."""

    def __init__(self, directory, deployment, secrets):
        self._dir, self._pod, self._secrets = directory, pod_of(deployment), secrets
        self._dir.mkdir()

    def mounts(self):
        """mountPath -> a command that mounts it at $at."""
        volumes = {v["name"]: v for v in self._pod["volumes"]}
        return [(m["mountPath"], self._mount(volumes[m["name"]], m)) for m in container_of({"spec": {"template": {"spec": self._pod}}})["volumeMounts"]]

    def _mount(self, volume, mount):
        group = self._pod["securityContext"]["fsGroup"]
        if "emptyDir" in volume:
            assert volume["emptyDir"]["medium"] == "Memory"         # others have no sticky bit
            return f'mount -t tmpfs -o mode=3777,gid={group},size={volume["emptyDir"]["sizeLimit"].rstrip("i")} none "$at"'
        assert mount["readOnly"]
        return f'mount --bind {self._files(volume, group)} "$at" && mount -o remount,bind,ro "$at"'

    def _files(self, volume, group):
        if "configMap" in volume:
            source, mode = OBJECTS["ConfigMap", volume["configMap"]["name"]]["data"], volume["configMap"].get("defaultMode", 0o644)
            files = dict(source)
        else:
            secret, mode = volume["secret"], volume["secret"]["defaultMode"]
            files = {i["path"]: self._secrets[i["key"]] for i in secret["items"]} if "items" in secret else self._secrets
        top = self._dir / volume["name"]
        data = top / "..2026_11_30_10_00_00.123456789"
        data.mkdir(parents=True)
        (top / "..data").symlink_to(data.name)
        for name, text in files.items():
            (data / name).write_text(text)
            (top / name).symlink_to(f"..data/{name}")
            shutil.chown(data / name, 0, group)
            (data / name).chmod(mode | 0o440)
        for directory, rights in ((data, 0o2755), (top, 0o3777)):
            shutil.chown(directory, 0, group)
            directory.chmod(rights)
        return top


@pytest.fixture
def cluster(containers, redis_server, started, tmp):
    """Starts a pod of a deployment. Redis is the service `redis`, with the user that the configuration names."""
    ca = Authority(tmp / "ca")
    secrets = {**SECRETS, "redis-ca.pem": ca.cert.read_text()}
    server = redis_server(inside=containers.middle, tls=ca.sign("redis", "DNS:redis"), config={**containers.redis_config, "port": "0", "tls-port": "6379"})
    server.client().execute_command("ACL", "SETUSER", "quredis", "on", ">" + SECRETS["redis.password"], *access_lists()["supervisor"])

    def start(deployment, command=None):
        net, own, name = containers.container(), container_of(deployment), f"{deployment['metadata']['name']}-{len(list(tmp.iterdir()))}"
        pod = started(inside=net.net.enter, mounts=Volumes(tmp / name, deployment, secrets).mounts(), hostname=name, command=command or own.get("command"),
                      hosts=f"127.0.0.1 localhost\n{net.middle_address} redis\n", env={e["name"]: e["value"] for e in own["env"]})
        pod.name, pod.address = name, net.address
        return pod
    start.redis, start.middle = server.client(), containers.middle
    return start


ASK = """import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], 7379, timeout=20)
connection.request("GET", sys.argv[2], headers=dict(h.split("=", 1) for h in sys.argv[3:]))
answer = connection.getresponse()
print(answer.status)
print(answer.read().decode(), end="")
"""


def ask(cluster, pod, path, **headers):
    """(status, body) of a request from outside of the pod; 0 if it does not listen."""
    done = subprocess.run([*cluster.middle, "/usr/bin/python3", "-c", ASK, pod.address, path, f"Host={POD_ADDRESS}", *(f"{k}={v}" for k, v in headers.items())],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
    status, _, body = done.stdout.partition("\n")
    return int(status or 0), body


BEARER = f"Bearer {SECRETS['web.token']}"


def ready(pod):
    wait_for(lambda: '"event":"ready"' in pod.text() or pod.ended(), what=pod.text)
    assert not pod.ended(), pod.text()


def warnings(pod):
    """Every pod begins with two: kubelets make an emptyDir in which every user may create a file. No other user is in the pod."""
    expected = re.compile(r"supervisor\.(?:lock_file|control_socket): /run/quredis/\S+ does not exist, and others can create it first")
    found = [line for line in pod.text().splitlines() if "warning" in line]
    return [line for line in found if not expected.search(line)], len(found)


def probes_of(deployment):
    return {kind: probe for kind, probe in container_of(deployment).items() if kind.endswith("Probe")}


def test_configuration_is_good_and_a_pod_lives_longer_than_its_drain(cluster):
    pod = cluster(WORKER, ["quredisd", "-t"])
    assert pod.wait_exit() == 0 and warnings(pod) == ([], 2), pod.text()
    effective = cluster(WORKER, ["quredisd", "-T"])
    assert effective.wait_exit() == 0
    seconds = {k: int(n) * {"s": 1, "m": 60}[unit] for k, n, unit in re.findall(r'\b(drain_timeout|kill_grace|timeout) = "(\d+)([sm])"', effective.text())}
    assert seconds["timeout"] <= seconds["drain_timeout"]
    assert seconds["drain_timeout"] + seconds["kill_grace"] + 5 < pod_of(WORKER)["terminationGracePeriodSeconds"]


def test_worker_handles_a_message_answers_its_probes_without_redis_and_ends_with_0(cluster):
    pod = cluster(WORKER)
    ready(pod)
    assert warnings(pod) == ([], 2) and f'"node":"{pod.name}"' in pod.text(), pod.text()
    cluster.redis.lpush("ingress:mail", "hello")
    wait_for(lambda: cluster.redis.hget("quredis:of:ingress:mail:stats", "done") == b"1", what=pod.text)
    probes = probes_of(WORKER)
    assert set(probes) == {"startupProbe", "livenessProbe"}
    assert [pod.run(*p["exec"]["command"]).returncode for p in probes.values()] == [0, 0]
    cluster.redis.execute_command("ACL", "SETUSER", "quredis", "off")
    cluster.redis.execute_command("CLIENT", "KILL", "USER", "quredis")
    wait_for(lambda: "redis_down" in pod.text() or "refused" in pod.run("quredis", "status").stdout, what=pod.text)
    assert [pod.run(*p["exec"]["command"]).returncode for p in probes.values()] == [0, 0]
    cluster.redis.execute_command("ACL", "SETUSER", "quredis", "on")
    pod.signal(15)
    assert pod.wait_exit() == 0


def test_console_answers_probes_to_any_host_and_metrics_with_the_token(cluster):
    pod = cluster(CONSOLE)
    probes = {k: p["httpGet"]["path"] for k, p in probes_of(CONSOLE).items()}
    wait_for(lambda: ask(cluster, pod, "/livez")[0] == 200, what=pod.text)
    assert probes == {"livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert [ask(cluster, pod, path)[0] for path in probes.values()] == [200, 200], pod.text()
    assert ask(cluster, pod, "/metrics")[0] == 401
    status, body = ask(cluster, pod, "/metrics", Authorization=BEARER)
    assert status == 200 and "\nquredis_redis_up 1\n" in body
    assert ask(cluster, pod, "/", Host="quredis.example.org")[0] == 200
    pod.signal(15)
    assert pod.wait_exit() == 0


def scaling_query():
    (trigger,) = OBJECTS["ScaledObject", "quredis-worker"]["spec"]["triggers"]
    return trigger["metadata"]["query"]


@pytest.fixture
def busy(redis, quredisd, console, handler, tmp):
    """A console; two messages run, and five wait, in ingress or in the trays of the workers."""
    d = quredisd(queues=[queue("mail", handler("echo >>@LEDGER@; until [ -e @TMP@/go ]; do sleep 0.05; done"), workers=2)])
    redis.client().lpush("ingress:mail", *"abcdefg")
    wait_for(lambda: redis.client().llen("ingress:mail") < 7)
    yield console()
    (tmp / "go").touch()
    assert d.stop() == 0


def test_scaling_query_asks_for_metrics_of_the_console(busy):
    body, asked = busy.ask("/metrics").body.decode(), re.findall(r"(quredis_\w+)\{([^}]*)\}", scaling_query())
    assert asked
    for name, labels in asked:
        wanted = dict(re.findall(r'(\w+)=~?"([^"]*)"', labels))
        found = {m[1]: float(m[2]) for m in re.finditer(rf'^{name}\{{queue="{wanted["queue"]}",list="({wanted["list"]})"\}} (\S+)$', body, re.M)}
        assert set(found) == set(wanted["list"].split("|")) and sum(found.values()) == 7, body


@pytest.mark.skipif(not PROMETHEUS.exists(), reason="no prometheus: make promtool fetches it")
def test_prometheus_counts_what_waits_and_what_runs(busy, tmp):
    prometheus = Prometheus(tmp / "prometheus", [{"job_name": "quredis", "authorization": {"credentials": busy.token},
                                                  "static_configs": [{"targets": [f"{busy.host}:{busy.port}"]}]}])
    try:
        (found,) = wait_for(lambda: series(prometheus, scaling_query()), 60, scaling_query(), interval=1)
        assert found["value"][1] == "7"
    finally:
        prometheus.close()
