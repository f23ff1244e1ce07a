"""quredis doctor: the Sentinels of redis.sentinels, and the certificates of TLS."""
import contextlib

import pytest

from harness import Authority, free_port, wait_for
from harness.sentinels import Sentinel

ADDRESS = "127.0.0.1"


def of(report, sentinel):
    """The findings of this check about one Sentinel, without those that are ok."""
    return [r for r in report.bad("sentinels") if r["where"].endswith(f":{getattr(sentinel, 'port', sentinel)}")]


def test_sentinels(clinic, sentinels):
    """Each in another state. One after the other is spoilt, since to make three Sentinels agree takes seconds."""
    watched = sentinels()
    first, second, third = watched.sentinels
    clinic.configure(redis=watched.redis())
    healthy = clinic.doctor()
    assert not healthy.bad("sentinels") and sum("2 others; the quorum is 2" in r["what"] for r in healthy.rows) == 3, healthy.rows

    clinic.configure(redis={**watched.redis(), "sentinels": [first.address]})
    clinic.doctor().one("sentinels", "note", "knows 2 others", "names only 0", advice="name them all", where=str(first.port))

    dead = free_port()
    clinic.configure(redis=watched.redis(dead=[f"{ADDRESS}:{dead}"]))
    report = clinic.doctor()
    row, = of(report, dead)
    assert row["severity"] == "warning" and "it cannot be asked: Connection refused" in row["what"] and "start it" in row["advice"]
    assert all("knows 2 others, but redis.sentinels names 3" in of(report, s)[0]["what"] for s in watched.sentinels)

    clinic.configure(redis=watched.redis())
    second.ask("REMOVE", watched.name)
    second.ask("MONITOR", "mai1", ADDRESS, watched.servers[0].port, 2)
    row, = of(clinic.doctor(), second)
    assert row["severity"] == "warning" and "does not know redis.master" in row["what"] and 'it knows "mai1"' in row["what"]
    assert f"SENTINEL MONITOR {watched.name}" in row["advice"]

    second.ask("REMOVE", "mai1")
    other = clinic.machine.server(tcp=True)
    second.ask("MONITOR", watched.name, ADDRESS, other.port, 2)
    found = {r["what"].split(":")[0].split(",")[0]: r for r in of(clinic.doctor(), second)}
    wrong = next(r for what, r in found.items() if what.startswith("it names"))
    assert wrong["severity"] == "error" and f":{other.port} as the master" in wrong["what"] and "the one in use" in wrong["what"] and "RESET" in wrong["advice"]
    assert [r["severity"] for what, r in found.items() if "no replica of the master" in what] == ["warning"]

    second.kill9()
    third.kill9()

    def no_quorum():
        return [r for r in of(clinic.doctor(), first) if r["what"].startswith("no failover is possible: NOQUORUM")]
    row, = wait_for(no_quorum, 60, "the Sentinel to notice that it is alone")
    assert row["severity"] == "error" and "start the Sentinels" in row["advice"]
    clinic.machine.servers[-1].stop()


def test_a_lone_sentinel(clinic, sentinels):
    """Another name of the same server is no other server."""
    watched = sentinels(servers=1, sentinels=1)
    clinic.configure(redis=watched.redis())
    what = [r["what"] for r in clinic.doctor().bad("sentinels")]
    assert len(what) == 2 and "no replica" in what[0] and "knows no other Sentinel" in what[1], what


def test_a_sentinel_with_another_password(clinic, sentinels, tmp):
    watched = sentinels(servers=1, sentinels=2, sentinel_config={"requirepass": "of-sentinel", "sentinel": "sentinel-pass of-sentinel"})
    (tmp / "p").write_text("of-sentinel\n")
    (tmp / "p").chmod(0o600)
    clinic.configure(redis={**watched.redis(), "sentinel_password_file": tmp / "p"})
    with watched.sentinels[1]._connect() as c:
        c.execute_command("ACL", "SETUSER", "default", "resetpass", ">another")
    row, = of(clinic.doctor(), watched.sentinels[1])
    assert row["severity"] == "warning" and "it refuses this user: WRONGPASS" in row["what"] and "redis.sentinel_password_file" in row["advice"]


def test_no_sentinels_and_no_tls(clinic):
    report = clinic.doctor()
    assert [r["what"] for r in report.rows if r["check"] in ("sentinels", "certificates")] == ["no Sentinels are configured", "TLS is not used"]


# ---- certificates ----

@pytest.fixture
def ca(tmp):
    return Authority(tmp / "ca")


@pytest.mark.parametrize("days, severity, said", [(60, "ok", "is valid until"), (20, "warning", ", in 19 days"), (-2, "error", "has expired on")])
def test_certificates(clinic, redis_server, ca, days, severity, said):
    """Of the server and of the client. Without verification a connection to a server whose certificate has expired is possible."""
    ago = {"ago_days": 10, "days": 10 + days}
    server = redis_server(tls=ca.sign("server", f"IP:{ADDRESS}", **ago), config={"tls-ca-cert-file": ca.cert})
    client = ca.sign("client", **ago)
    clinic.configure(redis={"url": server.tls_url, "tls_verify": False, "cert_file": client.cert, "key_file": client.key})
    rows = [r for r in clinic.doctor().rows if r["check"] == "certificates"]
    assert [(r["severity"], r["where"].startswith("rediss://"), said in r["what"]) for r in rows] in (
        [(severity, True, True), (severity, False, True)], [(severity, False, True), (severity, True, True)]), rows
    if severity != "ok":
        assert {("CN = server" in r["what"], "CN = client" in r["what"]) for r in rows} == {(True, False), (False, True)}
        assert {"quredis reload" in r["advice"] for r in rows} == {True, False}


def test_a_refused_certificate_says_when_it_expired(clinic, redis_server, ca):
    server = redis_server(tls=ca.sign("server", f"IP:{ADDRESS}", ago_days=20, days=10))
    clinic.configure(redis={"url": server.tls_url, "ca_file": ca.cert})
    clinic.doctor().one("redis", "error", "has expired on 20", "CN = server")


def test_the_certificate_of_a_sentinel(clinic, redis_server, ca, tmp):
    certificate = ca.sign("server", f"IP:{ADDRESS}", days=5)
    server = redis_server(tls=certificate, config={"tls-ca-cert-file": ca.cert})
    with contextlib.closing(Sentinel(tmp / "sentinel", tag=clinic.machine.tag, tls=(ca, certificate))) as sentinel:
        sentinel.start("mail", server, 1)
        clinic.configure(redis={"url": "rediss:///0", "sentinels": [sentinel.address], "master": "mail", "sentinel_tls": True, "ca_file": ca.cert})
        report = clinic.doctor()
        assert any("expires on" in r["what"] and r["severity"] == "warning" for r in of(report, sentinel)), report.rows
        report.one("certificates", "warning", "expires on", where="redis master mail")
