"""Access to the console: the token, sessions of browsers, peers of a unix socket."""
import json
import os
import re
import socket
import subprocess
import sys

import pytest

from harness import QUREDISD, ROOT, SANITIZED, render
from harness.console import Stream
from harness.queues import Queue, dumps

READS = ["/api/v1/queues", "/api/v1/queue/health", "/api/v1/queue/stats", "/api/v1/queue/trend?queue=mail",
         "/api/v1/queue/messages?queue=mail&list=ingress", "/api/v1/queue/dlq?queue=mail",
         "/api/v1/queue/dlq/stats?queue=mail", "/api/v1/queue/dlq/record?queue=mail&id=1-1", "/api/v1/queue/done?queue=mail", "/api/v1/queue/stale", "/api/v1/operations", "/api/v1/supervisor",
         "/api/v1/nodes", "/api/v1/doctor", "/api/v1/schedules", "/api/v1/events", "/metrics"]
PAUSE = "/api/v1/queue/pause?queue=mail"


def browser_of(answer):
    """What a browser sends after this answer to POST /api/v1/session."""
    cookie, *_ = answer.headers["set-cookie"].split(";")
    return {"Cookie": cookie, "X_Quredis_Session": json.loads(answer.body)["key"]}


def sign_in(web, code, **headers):
    return web.ask("/api/v1/session", "POST", Authorization=f"Code {code}", **headers)


# ---- the token ----

def test_these_are_all_addresses_that_read():
    text = (ROOT / "admin/web/routes.c").read_text()
    paths = {f"/api/v1/{p}" for p in re.findall(r'\bGET\("(\S+)"', text)} | set(re.findall(r'\.path = "(/metrics)"', text)) | {"/api/v1/events"}
    assert paths == {p.split("?")[0] for p in READS}


@pytest.mark.parametrize("path", READS)
def test_reading_needs_the_token_also_on_loopback(web, path):
    for token in (None, "x", web.token[:-1], web.token + "0", web.token.upper()):
        for method in "GET", "HEAD":
            answer = web.ask(path, method, token)
            assert (answer.code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert web.ask(path, Authorization=f"Basic {web.token}").code == web.ask(path, Authorization=f"Bearer{web.token}").code == 401
    if path == "/api/v1/events":
        stream = Stream(web)
        assert stream.next()[0] == "overview"
        stream.close()
    else:
        assert web.ask(path).code not in (401, 403)


def test_public_reads(console, redis):
    Queue(redis.client())
    web = console(web={"public_reads": True})
    for path in READS:
        assert path == "/api/v1/events" or web.ask(path, token=None).code not in (401, 403), path
    stream = Stream(web, Authorization="")
    assert stream.next()[0] == "overview"
    stream.close()
    before = dumps(redis.client())
    assert web.ask(PAUSE, "POST", None).code == 401 and dumps(redis.client()) == before
    assert web.ask("/api/v1/queues", token=None, Sec_Fetch_Site="cross-site").code == 403


# ---- sessions ----

def test_a_code_opens_one_session(web, redis):
    Queue(redis.client())
    code, = web.codes
    answer = sign_in(web, code)
    assert answer.code == 200 and web.token not in str(answer)
    cookie = [part.strip() for part in answer.headers["set-cookie"].split(";")]
    assert re.fullmatch(rf"quredis-{web.port}=[0-9a-f]{{64}}", cookie[0]) and {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} == set(cookie[1:])
    browser = browser_of(answer)
    again = sign_in(web, code)
    assert again.code == 401 and "was used already" in json.loads(again.body)["error"] and "set-cookie" not in again.headers
    assert web.ask("/api/v1/queues", token=None, **browser).code == 200
    assert web.ask(PAUSE, "POST", None, **browser).code == 200 and redis.client().exists("quredis:of:ingress:mail:paused")
    stream = Stream(web, Authorization="", **{k.replace("_", "-"): v for k, v in browser.items()})
    assert stream.next()[0] == "overview"
    stream.close()
    assert "secure" not in answer.headers["set-cookie"].lower() and web.text().count(code) == 1


def test_a_session_needs_both_of_its_secrets(web, redis):
    """A browser sends the cookie to every port of this host, but a program that gets it there cannot use it. Nor can a page of another site."""
    Queue(redis.client())
    one, other = browser_of(sign_in(web, web.codes[0])), browser_of(sign_in(web, web.new_code()))
    before = dumps(redis.client())
    wrong = [{}, {"Cookie": one["Cookie"]}, {"X_Quredis_Session": one["X_Quredis_Session"]}, {**one, "X_Quredis_Session": other["X_Quredis_Session"]},
             {**one, "X_Quredis_Session": ""}, {**one, "Cookie": one["Cookie"].replace(f"-{web.port}=", f"-{web.port + 1}=")}, {**one, "Cookie": one["Cookie"][:-1]},
             {**one, "Cookie": f"quredis-{web.port}="}, {"Cookie": "", "X_Quredis_Session": ""}]
    for headers in wrong:
        assert web.ask("/api/v1/queues", token=None, **headers).code == web.ask(PAUSE, "POST", None, **headers).code == 401, headers
    for headers in ({"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "http://evil.example"}, {"Origin": f"http://{web.host}:1"}):
        assert web.ask("/api/v1/queues", token=None, **one, **headers).code == web.ask(PAUSE, "POST", None, **one, **headers).code == 403
        assert web.ask("/api/v1/session", "POST", **headers).code == 403
    assert dumps(redis.client()) == before
    assert web.ask(PAUSE, "POST", None, **{**one, "Cookie": f"a=b; {one['Cookie']}; c=d"}, Origin=f"http://{web.host}:{web.port}").code == 200


def test_codes_that_do_not_count(web):
    first = web.codes[0]
    for code in ("", "0" * 64, first[:-1], first + "0", first.upper() if first.upper() != first else "F" * 64):
        assert sign_in(web, code).code == 401
    second = web.new_code()
    assert sign_in(web, first).code == 401          # a new one replaces it
    assert web.ask("/api/v1/queues", token=None, Authorization=f"Code {second}").code == 401         # no request is answered for a code
    assert web.ask("/api/v1/queues", token=None, Authorization=f"Bearer {second}").code == 401
    assert sign_in(web, second, Sec_Fetch_Site="cross-site").code == 403
    assert sign_in(web, second).code == 200


def test_the_token_opens_a_session(web):
    assert web.ask("/api/v1/session", "POST", "x").code == web.ask("/api/v1/session", "POST", None).code == 401
    answer = web.ask("/api/v1/session", "POST")
    assert answer.code == 200 and web.token not in str(answer)
    browser = browser_of(answer)
    assert web.ask("/api/v1/queues", token=None, **browser).code == 200
    assert json.loads(web.ask("/api/v1/session/end", "POST", None).body) == {"ended": False}
    assert web.ask("/api/v1/queues", token=None, **browser).code == 200
    ended = web.ask("/api/v1/session/end", "POST", None, **browser)
    assert json.loads(ended.body) == {"ended": True} and "Max-Age=0" in ended.headers["set-cookie"]
    assert web.ask("/api/v1/queues", token=None, **browser).code == 401


def test_behind_tls_the_cookie_is_secure(console):
    web = console(web={"hosts": ["console.example.org"]})
    answer = web.ask("/api/v1/session", "POST", Host="console.example.org", Origin="https://console.example.org")
    assert answer.headers["set-cookie"].endswith("; Secure")


def test_an_address_as_a_name(console, redis):
    """On the loopback no other address is ours, unless web.hosts names it, such as that of the proxy."""
    web = console(web={"hosts": ["10.1.2.3"]})
    assert [web.ask("/api/v1/queues", Host=host).code for host in ("10.1.2.3", "127.0.0.1", "10.1.2.4")] == [200, 200, 421]


def test_a_console_that_changes_nothing_lets_people_in(console, redis):
    Queue(redis.client())
    web = console(web={"read_only": True})
    browser = browser_of(sign_in(web, web.codes[0]))
    assert web.ask("/api/v1/queues", token=None, **browser).code == 200 and web.ask(PAUSE, "POST", None, **browser).code == 403
    assert web.ask("/api/v1/session/end", "POST", None, **browser).code == 200


def test_with_a_token_file_a_code_is_shown_on_request_only(console, tmp):
    path = tmp / "token"
    path.write_text("sEcret_.~+/=0123\n")
    path.chmod(0o600)
    web = console(web={"token_file": str(path)})
    assert web.codes == []
    assert sign_in(web, web.new_code()).code == 200 and "sEcret" not in web.text()


# ---- a unix socket ----

ASK_AS = """
import os, socket, sys
uid, path, request = int(sys.argv[1]), sys.argv[2], sys.argv[3].encode()
os.setgroups([int(g) for g in sys.argv[4:]])
os.setgid(uid), os.setuid(uid)
s = socket.socket(socket.AF_UNIX)
s.connect(path)
s.sendall(request)
sys.stdout.buffer.write(b"".join(iter(lambda: s.recv(65536), b"")))
"""


def ask_as(uid, web, line, more="", groups=()):
    """The status of the answer to a process of another user."""
    request = f"{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n"
    done = subprocess.run([sys.executable, "-c", ASK_AS, str(uid), web.path, request, *map(str, groups)], capture_output=True, timeout=60, check=True)
    return int(done.stdout[9:12])


def test_on_a_unix_socket_the_user_counts(console, redis, tmp):
    Queue(redis.client())
    path = tmp / "web.sock"
    web = console(web={"listen": f"unix:{path}"})
    assert path.stat().st_mode & 0o777 == 0o660 and f"unix:{path}\n" in web.text() and web.codes == []
    assert web.ask("/api/v1/queues", token=None).code == web.ask(PAUSE, "POST", None).code == 200
    assert re.search(rf"Z uid {os.getuid()}: POST /api/v1/queue/pause\?queue=mail: 200\n", web.text())
    assert web.ask("/api/v1/queues", token=None, Host="evil.example").code == 421
    assert web.ask("/api/v1/session", "POST", None).code == 200


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.skipif(SANITIZED, reason="as without")
def test_on_a_unix_socket_others_need_the_token(console, redis, tmp):
    Queue(redis.client())
    path = tmp / "web.sock"
    web = console(web={"listen": f"unix:{path}"})
    for directory in (tmp, path):
        directory.chmod(0o777)
    before = dumps(redis.client())
    assert ask_as(4711, web, "GET /api/v1/queues") == ask_as(4711, web, f"POST {PAUSE}") == 401
    assert ask_as(4711, web, "GET /livez") == 200 and dumps(redis.client()) == before
    assert ask_as(4711, web, "GET /api/v1/queues", groups=[os.getgid()]) == 200
    assert ask_as(4711, web, "GET /api/v1/queues", f"Authorization: Bearer {web.token}\r\n") == 200


def test_behind_a_proxy_a_unix_socket_tells_nothing(console, redis, tmp):
    """The peer is the proxy, whoever asks it."""
    Queue(redis.client())
    web = console(web={"listen": f"unix:{tmp / 'web.sock'}", "behind_proxy": True, "hosts": ["console.example.org"]})
    assert web.ask("/api/v1/queues", token=None, Host="console.example.org").code == 401
    assert web.ask("/api/v1/queues", Host="console.example.org").code == 200
    assert f"https://console.example.org/#code={web.codes[0]}\n" in web.text()


def test_a_unix_socket_is_replaced_when_nobody_listens(console, quredis, tmp):
    path = tmp / "web.sock"
    web = console(web={"listen": f"unix:{path}"})
    r = quredis("web", conf=web.conf)
    assert r.code == 69 and "a console is running there already" in r.err
    assert web.ask("/livez").code == 200 and web.stop() == 0 and not path.exists()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))            # what a console that was killed leaves
    again = console(web={"listen": f"unix:{path}"})
    assert again.ask("/livez").code == 200 and again.stop() == 0 and not path.exists()
    third = console(web={"listen": f"unix:{path}"})
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:        # somebody replaces it meanwhile
        other.bind(str(path))
        assert third.stop() == 0 and path.is_socket()
    path.unlink()
    path.write_text("mine")
    r = quredis("web", conf=web.conf)
    assert r.code == 69 and "File exists" in r.err and path.read_text() == "mine"
    assert quredis("web", "-p", "1", conf=web.conf).code == 64
    assert quredis("web", "-b", "unix:relative", conf=web.conf).code == 78


def test_what_web_listen_may_be(quredis, tmp):
    conf = tmp / "web.conf"
    for listen, code, said in (("unix:" + "/a" * 60, 78, "at most 107 bytes"), ("unix:a", 78, "unix:/path"), ("0.0.0.0:80", 0, "web.behind_proxy"), ("[2001:db8::1]:80", 0, "no TLS"),
                               ("unix:/run/web.sock", 0, None), ("[::1]:80", 0, None)):
        conf.write_text(render({"web": {"listen": listen}}))
        done = subprocess.run([QUREDISD, "-t", "-c", conf], capture_output=True, text=True, timeout=60)
        assert done.returncode == code and (said or "") in done.stderr and (said is not None or "web.listen" not in done.stderr), done
