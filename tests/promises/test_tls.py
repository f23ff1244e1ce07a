"""Redis over TLS: messages pass, a connection is only made to a server that proves its name, and each failure says what to change."""
import json
import os
import re
import signal
import socket
import ssl
import threading

import pytest

from harness import SANITIZED, Authority, free_port, pss_kib, queue, wait_for
from harness.control import status
from harness.messages import anywhere
from harness.names import needs_localhost

QUICK = {"base": "1ms", "cap": "5ms"}
MIB = 1 << 20


@pytest.fixture
def ca(tmp):
    return Authority(tmp / "ca")


@pytest.fixture
def server(redis_server, ca):
    return redis_server(tls=ca.sign("server", "IP:127.0.0.1", "DNS:localhost"), config={"tls-ca-cert-file": ca.cert})


def tls(server, ca, **keys):
    """The group redis of a configuration."""
    return {"url": server.tls_url, "ca_file": ca.cert, **keys}


def down(d, *words, timeout=30):
    """The reason that the log gives for having no connection has these words in it; status and the command line agree."""
    def told():
        return [e for e in d.events("redis_down") if all(w in e["reason"] for w in words)]
    wait_for(lambda: told() or not d.running(), timeout, f"{words} in the log")
    assert told(), d.text()
    wait_for(lambda: (q := status(d, "mail"))["state"] == "no redis" and all(w in q["reason"] for w in words), 30, "the status to show it")
    result = d.quredis("ls")
    assert result.code == 69 and all(w in result.err for w in words), result
    rows = [r for r in json.loads(d.quredis("doctor", "--json").out) if r["check"] == "redis"]
    assert len(rows) == 1 and rows[0]["severity"] == "error" and all(w in rows[0]["what"] for w in words), rows


class Listener:
    """A server on 127.0.0.1 that hands each connection to serve(socket), in a thread."""

    def __init__(self, serve):
        self._socket, self._serve = socket.create_server(("127.0.0.1", 0)), serve
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection):
        with connection:
            try:
                self._serve(connection)
            except OSError:
                pass

    def close(self):
        self._socket.close()


@pytest.fixture
def listener():
    made = []

    def make(serve):
        made.append(Listener(serve))
        return made[-1]
    yield make
    for one in made:
        one.close()


# ---- what works ----

@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_messages_pass_with_client_certificate_and_password(redis_server, ca, quredisd, handler, ledger, tmp, version):
    client = ca.sign("client")
    server = redis_server(tls=ca.sign("server", "IP:127.0.0.1"), config={
        "requirepass": "s3cret", "tls-ca-cert-file": ca.cert, "tls-auth-clients": "yes", "tls-protocols": version})
    note = handler('read -r m; echo "$m" >>@LEDGER@; case $m in fail*) exit 1;; again*) [ "$QUREDIS_ATTEMPT" -gt 1 ] || exit 75;; esac')
    (tmp / "password").write_text("s3cret\n")
    (tmp / "password").chmod(0o600)
    d = quredisd(redis=tls(server, ca, password_file=tmp / "password", cert_file=client.cert, key_file=client.key),
                 queues=[queue("mail", note, workers=2, max_attempts=1, backoff=QUICK)], supervisor={"lease": "1s"})
    c = server.client()
    names = [f"{kind}{i}" for kind in ("ok", "fail", "again") for i in range(20)]
    c.lpush("ingress:mail", *names)
    wait_for(lambda: c.llen("escape:mail") == 20 and not anywhere(c, "mail"), 60, "everything settled")
    assert sorted(set(ledger.lines())) == sorted(names)
    connected = [i for i in c.client_list() if i["name"].startswith("quredisd:")]
    assert len(connected) == 3 and {i["laddr"].rsplit(":", 1)[1] for i in connected} == {str(server.tls_port)}
    assert f"Redis: 127.0.0.1:{server.tls_port} with TLS\n" in d.quredis("status").out
    assert d.quredis("ls").code == 0 and d.stop() == 0 and not d.events("redis_down")


def test_persistent_handlers_and_a_lost_connection(server, ca, quredisd, handler, ledger):
    stay = handler("import sys\nwhile head := sys.stdin.buffer.readline().split():\n"
                   "    body = sys.stdin.buffer.read(int(head[3]) + 1)[:-1]\n"
                   "    open('@LEDGER@', 'a').write(body.decode() + '\\n')\n"
                   "    print(f'OK {int(head[1])}', flush=True)\n", "python")
    d = quredisd(redis=tls(server, ca), queues=[queue("mail", stay, workers=2, mode="persistent", window=8)])
    c = server.client()
    for part in range(4):
        c.lpush("ingress:mail", *(f"{part}.{i}" for i in range(200)))
        wait_for(lambda: ledger.lines()[-1:], 30)
        c.client_kill_filter(_type="normal", skipme=True)
        wait_for(lambda: len(set(ledger.lines())) == 200 * (part + 1) and not anywhere(c, "mail"), 60, "everything done")
    assert not d.events("worker_died")


def test_a_message_of_8_mib(server, ca, quredisd, handler, tmp):
    keep = handler("cat >@TMP@/got.new; mv @TMP@/got.new @TMP@/got; exit 1")
    quredisd(redis=tls(server, ca), queues=[queue("mail", keep, max_attempts=1)])
    message = os.urandom(8 * MIB)
    c = server.client()
    c.lpush("ingress:mail", message)
    wait_for(lambda: c.llen("escape:mail") == 1, 60)
    assert (tmp / "got").read_bytes() == message == c.lindex("escape:mail", 0)


def test_the_command_line_pushes_and_reads_large_messages(server, ca, quredisd, tmp):
    d = quredisd(redis=tls(server, ca), queues=[queue("mail", "/bin/true", workers=0)])
    c = server.client()
    message = os.urandom(4 * MIB).replace(b"\n", b"x")
    assert d.quredis("push", "mail", input=message).code == 0
    assert c.lindex("ingress:mail", 0) == message


@needs_localhost
def test_names_addresses_and_directories(server, ca, quredisd):
    """The name localhost, the address 127.0.0.1, a directory of CAs, and a CA that only the address of the command line needs."""
    d = quredisd(redis={"url": server.tls_url.replace("127.0.0.1", "localhost"), "ca_dir": ca.directory()}, queues=[queue("mail", "/bin/true")])
    assert d.quredis("ls").code == 0 and d.quredis("-u", server.tls_url, "ls").code == 0
    plain = quredisd(redis={"url": server.url, "ca_file": ca.cert}, start=False)
    assert plain.quredis("-u", server.tls_url, "ls").code == 0
    assert "has no effect" in plain.check().stderr
    assert d.quredis("-H", "127.0.0.1", "ls").code == 0
    assert "not for the address 127.0.0.2" in d.quredis("-H", "127.0.0.2", "ls").err or "refused" in d.quredis("-H", "127.0.0.2", "ls").err


def test_the_systems_directory_is_the_default(server, ca, quredisd):
    d = quredisd(redis={"url": server.tls_url}, env={"SSL_CERT_DIR": str(ca.directory())}, queues=[queue("mail", "/bin/true")])
    wait_for(lambda: status(d, "mail")["state"] == "running", 30)


@needs_localhost
def test_sni_has_a_name_and_no_address(ca, quredisd, listener):
    """The name goes out in the handshake, so that a server of many names presents the right certificate. An address is no name."""
    made, heard = ca.sign("server", "IP:127.0.0.1", "DNS:localhost"), []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)
    context.sni_callback = lambda s, name, c: heard.append(name)
    port = listener(lambda s: context.wrap_socket(s, server_side=True).recv(1)).port
    d = quredisd(start=False)
    for host in ("localhost", "127.0.0.1"):
        d.write_conf(redis={"url": f"rediss://{host}:{port}", "ca_file": ca.cert})
        assert d.quredis("ls").code == 69
    assert heard == ["localhost", None]


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory")
def test_an_idle_worker_stays_small(server, ca, quredisd, handler, ledger):
    note = handler('read -r m; echo "$m" >>@LEDGER@')
    d = quredisd(redis=tls(server, ca), queues=[queue("mail", note, workers=16)])
    d.wait_workers("mail", 16)
    server.client().lpush("ingress:mail", *(f"m{i}" for i in range(200)))
    wait_for(lambda: len(ledger.lines()) == 200 and not anywhere(server.client(), "mail"))
    pss = sorted(pss_kib(pid) for pid in d.workers("mail").values())
    print(f"\nPSS of idle workers with TLS: {pss[0]} to {pss[-1]} KiB")
    assert pss[-1] <= 1024


# ---- what is refused ----

def test_an_unknown_ca(server, tmp, quredisd):
    other = Authority(tmp / "other", "other")
    d = quredisd(redis=tls(server, other), queues=[queue("mail", "/bin/true")], wait=False)
    down(d, "unknown CA", "redis.ca_file")


@pytest.mark.parametrize("names, host, words", [
    (["DNS:redis.example"], "localhost", ["not for the name localhost"]),
    (["DNS:*.example"], "localhost", ["not for the name localhost"]),
    (["IP:127.0.0.9"], "localhost", ["not for the name localhost"]),
    (["DNS:localhost", "IP:127.0.0.9"], "127.0.0.1", ["not for the address 127.0.0.1"]),
    (["DNS:127.0.0.1"], "127.0.0.1", ["not for the address 127.0.0.1"]),
    ([], "127.0.0.1", ["not for the address 127.0.0.1"]),
], ids=["other-name", "other-wildcard", "address-for-name", "other-address", "address-as-name", "no-name"])
@needs_localhost
def test_a_wrong_name(redis_server, ca, quredisd, names, host, words):
    server = redis_server(tls=ca.sign("server", *names))
    d = quredisd(redis=tls(server, ca, url=server.tls_url.replace("127.0.0.1", host)), queues=[queue("mail", "/bin/true")], wait=False)
    down(d, *words)


@needs_localhost
def test_a_common_name_is_no_name(redis_server, ca, quredisd):
    """Only the list of names counts, as in browsers: a common name may be any text."""
    server = redis_server(tls=ca.sign("localhost"))
    d = quredisd(redis=tls(server, ca, url=server.tls_url.replace("127.0.0.1", "localhost")), start=False)
    assert "not for the name localhost" in d.quredis("ls").err


def test_every_connection_verifies_the_name(server, ca, quredisd):
    """Also one that a worker opens while it has another: the server changes its certificate meanwhile."""
    d = quredisd(redis=tls(server, ca), queues=[queue("mail", "/bin/true")])
    c = server.client()
    wait_for(lambda: "blmove" in (cmds := [i["cmd"] for i in c.client_list()]) or "brpoplpush" in cmds, 30, "a worker that blocks")
    server.present(ca.sign("other", "DNS:other.example"))
    d.signal(signal.SIGTERM)        # a worker ends its blocking fetch with CLIENT UNBLOCK on a second connection
    wait_for(lambda: "bad certificate" in server.log.read_text(), 30, "a connection for CLIENT UNBLOCK")
    assert d.wait_exit() == 0
    assert "cmdstat_client|unblock" not in c.info("commandstats")


def test_an_expired_certificate(redis_server, ca, quredisd):
    server = redis_server(tls=ca.sign("server", "IP:127.0.0.1", ago_days=20, days=10))
    d = quredisd(redis=tls(server, ca), queues=[queue("mail", "/bin/true")], wait=False)
    down(d, "has expired")


def test_a_certificate_of_the_future(redis_server, ca, quredisd):
    server = redis_server(tls=ca.sign("server", "IP:127.0.0.1", ago_days=-3))
    d = quredisd(redis=tls(server, ca), queues=[queue("mail", "/bin/true")], wait=False)
    down(d, "not valid yet", "clock")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_certificate_is_required(redis_server, ca, quredisd, tmp, version):
    server = redis_server(tls=ca.sign("server", "IP:127.0.0.1"),
                          config={"tls-ca-cert-file": ca.cert, "tls-auth-clients": "yes", "tls-protocols": version})
    d = quredisd(redis=tls(server, ca), queues=[queue("mail", "/bin/true")], wait=False)
    down(d, "requires a client certificate", "redis.cert_file")
    stranger = Authority(tmp / "other", "other").sign("client")
    d.reload(redis=tls(server, ca, cert_file=stranger.cert, key_file=stranger.key))
    down(d, "refuses the client certificate of redis.cert_file")


def test_an_old_version_of_tls(ca, quredisd, listener):
    made = ca.sign("server", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    port = listener(lambda s: context.wrap_socket(s, server_side=True)).port
    d = quredisd(redis={"url": f"rediss://127.0.0.1:{port}", "ca_file": ca.cert}, queues=[queue("mail", "/bin/true")], wait=False)
    down(d, "1.2 or later")


def test_a_plain_port(redis_server, ca, quredisd):
    server = redis_server(tcp=True)
    d = quredisd(redis={"url": server.tcp_url.replace("redis:", "rediss:"), "ca_file": ca.cert}, queues=[queue("mail", "/bin/true")], wait=False)
    down(d, "does the server speak TLS on this port?")


def test_a_port_that_answers_in_plain_text(ca, quredisd, listener):
    port = listener(lambda s: (s.recv(1), s.sendall(b"-ERR unknown command\r\n"), s.recv(1 << 16), s.recv(1))).port
    d = quredisd(redis={"url": f"rediss://127.0.0.1:{port}", "ca_file": ca.cert}, queues=[queue("mail", "/bin/true")], wait=False)
    down(d, "answers in plain text", "does the server speak TLS on this port?")


def test_a_tls_port_that_is_reached_in_plain_text(server, quredisd):
    d = quredisd(redis={"url": server.tls_url.replace("rediss:", "redis:")}, queues=[queue("mail", "/bin/true")], wait=False)
    down(d, "does it want TLS (rediss://)?")


def test_a_tls_port_that_answers_with_an_alert(quredisd, listener):
    port = listener(lambda s: (s.recv(1 << 16), s.sendall(b"\x15\x03\x01\0\x02\x02\x46"), s.recv(1))).port
    d = quredisd(redis={"url": f"redis://127.0.0.1:{port}"}, queues=[queue("mail", "/bin/true")], wait=False)
    down(d, "answers with TLS", "rediss://")


def test_a_closed_port_is_called_closed(ca, quredisd):
    d = quredisd(redis={"url": f"rediss://127.0.0.1:{free_port()}", "ca_file": ca.cert}, queues=[queue("mail", "/bin/true")], wait=False)
    down(d, "Connection refused")


def test_without_verification(redis_server, tmp, quredisd):
    """Any certificate will do, and every place says so."""
    server = redis_server(tls=Authority(tmp / "other", "other").sign("server", "DNS:elsewhere", ago_days=20, days=10))
    d = quredisd(redis={"url": server.tls_url, "tls_verify": False}, queues=[queue("mail", "/bin/true")])
    wait_for(lambda: status(d, "mail")["state"] == "running", 30)
    assert re.search(r"quredis.conf:\d+: redis.tls_verify = false", d.wait_event("config_problem")["reason"])
    assert "warning: " in d.check().stderr and "tls_verify" in d.check().stderr
    rows = [r for r in json.loads(d.quredis("doctor", "--json").out) if "tls_verify" in r["what"]]
    assert [r["severity"] for r in rows] == ["warning"]


# ---- reload ----

def reload(d, **changes):
    mark = d.mark()
    d.reload(**changes)
    return wait_for(lambda: d.events("reload_done", since=mark) or d.events("reload_failed", since=mark))[0]


def test_a_reload_takes_a_renewed_certificate(redis_server, ca, quredisd, ledger, handler):
    """The files have the names of before. Without a change of their bytes every process stays."""
    config = {"tls-ca-cert-file": ca.cert, "tls-auth-clients": "yes"}
    server = redis_server(tls=ca.sign("server", "IP:127.0.0.1"), config=config)
    client = ca.sign("client", "DNS:first")
    d = quredisd(redis=tls(server, ca, cert_file=client.cert, key_file=client.key), queues=[queue("mail", handler('read -r m; echo "$m" >>@LEDGER@'))])
    before = d.children()
    assert reload(d)["changed"] == "0" and d.children() == before
    worker = d.workers("mail")["mail/0"]
    ca.sign("client", "DNS:second")
    assert reload(d)["changed"] == "1"
    wait_for(lambda: d.workers("mail").get("mail/0") not in (None, worker))
    server.client().lpush("ingress:mail", "after")
    wait_for(lambda: ledger.count("after") == 1)
    client.key.write_text("no key")
    mark = d.mark()
    assert reload(d)["event"] == "reload_failed"
    assert any("redis.key_file" in e["reason"] for e in d.events("config_problem", since=mark))
    server.client().lpush("ingress:mail", "still")
    wait_for(lambda: ledger.count("still") == 1)


def test_a_reload_takes_another_ca(server, ca, tmp, quredisd, handler, ledger):
    other = Authority(tmp / "other", "other")
    d = quredisd(redis=tls(server, ca), queues=[queue("mail", handler('read -r m; echo "$m" >>@LEDGER@'))])
    ca.cert.write_bytes(ca.cert.read_bytes() + other.cert.read_bytes())      # both, while servers go over to the new one
    assert reload(d)["changed"] == "1"
    server.present(other.sign("server", "IP:127.0.0.1"))
    server.client().client_kill_filter(_type="normal", skipme=True)
    server.client().lpush("ingress:mail", "after")
    wait_for(lambda: ledger.count("after") == 1)
    assert not [e for e in d.events("redis_down") if "certificate" in e["reason"]]


def test_a_worker_opens_no_key(redis_server, ca, quredisd, handler, ledger):
    """It reconnects without the files: the master has read them."""
    server = redis_server(tls=ca.sign("server", "IP:127.0.0.1"), config={"tls-ca-cert-file": ca.cert, "tls-auth-clients": "yes"})
    client = ca.sign("client")
    d = quredisd(redis=tls(server, ca, cert_file=client.cert, key_file=client.key), queues=[queue("mail", handler('read -r m; echo "$m" >>@LEDGER@'))])
    workers = d.workers("mail")
    for path in (client.cert, client.key, ca.cert):
        path.rename(path.with_suffix(".gone"))
    server.client().client_kill_filter(_type="normal", skipme=True)
    server.client().lpush("ingress:mail", "after")
    wait_for(lambda: ledger.count("after") == 1)
    assert d.workers("mail") == workers


# ---- quredisd -t ----

@pytest.mark.parametrize("break_it, words", [
    (lambda c: c.cert.unlink(), ["redis.cert_file", "client.pem does not exist"]),
    (lambda c: c.key.chmod(0o644), ["redis.key_file", "client.key can be read by others (mode 0644)", "chmod go-rwx"]),
    (lambda c: c.key.write_text("x"), ["redis.key_file", "client.key holds no private key"]),
    (lambda c: c.cert.write_text("x"), ["redis.cert_file", "client.pem holds no certificate"]),
    (lambda c: c.cert.chmod(0o666), ["redis.cert_file", "client.pem can be written by others"]),
], ids=["missing", "readable", "no key", "no certificate", "writable"])
def test_files_are_checked(server, ca, quredisd, break_it, words):
    client = ca.sign("client")
    d = quredisd(redis=tls(server, ca, cert_file=client.cert, key_file=client.key), start=False)
    assert d.check().returncode == 0, d.check().stderr
    break_it(client)
    line = next(i for i, text in enumerate(d.conf.read_text().splitlines(), 1) if words[0].split(".")[1] in text)
    said = d.check()
    assert said.returncode == 78 and f"{d.conf}:{line}: " in said.stderr and all(w in said.stderr for w in words), said.stderr
    other = d.quredis("ls")
    assert other.code == 69 or words[1] in other.err or "TLS" in other.err


def test_a_key_of_another_certificate(server, ca, quredisd):
    client, other = ca.sign("client"), ca.sign("other")
    d = quredisd(redis=tls(server, ca, cert_file=client.cert, key_file=other.key), start=False)
    assert "other.key does not belong to the certificate" in d.check().stderr
    d.write_conf(redis=tls(server, ca, cert_file=client.cert))
    assert "redis.cert_file requires redis.key_file" in d.check().stderr


def test_a_file_that_the_user_cannot_read_never_weakens_the_connection(server, ca, quredisd):
    """Without redis.ca_file the command line does not fall back to other CAs, or to plain text."""
    d = quredisd(redis=tls(server, ca, ca_file="/nowhere/ca.pem"), start=False, env={"SSL_CERT_DIR": str(ca.directory())})
    result = d.quredis("ls")
    assert result.code == 69 and "TLS is not set up" in result.err
