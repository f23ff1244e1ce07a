"""quredisd -t and -T, as a person calls them. What is said about which mistake is in tests/unit/conf/."""
import os
import re
import subprocess

import pytest

from harness import QUREDISD, ROOT

EX_CONFIG = 78
GOLDEN = sorted((ROOT / "tests/conf/golden").glob("*.conf"))


def call(flag, path, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith("QUREDIS_")}
    return subprocess.run([QUREDISD, flag, "-c", path], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL,
                          env={**env, **environment})


def write(path, text, mode=0o600):
    path.parent.mkdir(mode=0o755, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def values(printed):
    """What -T printed without the origins."""
    return [line.split("\t# ")[0] for line in printed.splitlines() if not line.startswith("# ")]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda p: p.stem)
def test_mistakes_are_all_told_with_their_lines(tmp, golden):
    conf = write(tmp / "etc/quredis.conf", golden.read_text())
    expected = golden.with_suffix(".expected").read_text().splitlines()
    done = call("-t", conf)
    said = done.stderr.replace(f"{tmp}/etc/", "").splitlines()
    assert [line for line in expected if line not in said] == []
    assert done.returncode == (EX_CONFIG if any(not line.startswith("warning: ") for line in expected) else 0)
    assert done.stdout == ""


@pytest.mark.parametrize("zone", ["Europe/Berlinn", "../../etc/passwd", "/etc/localtime"])
def test_the_supervisor_requires_the_zone_of_a_schedule(tmp, zone):
    conf = write(tmp / "etc/quredis.conf", f"""queues = ( {{ name = "mail"; handler = ["/bin/cat"]; }} );
schedules = ( {{ name = "nightly"; queue = "mail"; cron = "@daily"; timezone = "{zone}"; message = "go"; }} );
""")
    done = call("-t", conf)
    assert done.returncode == EX_CONFIG
    assert f'quredis.conf:2: schedule nightly: the time zone "{zone}" is not known here.' in done.stderr, done.stderr


def test_the_shipped_configuration_is_right(tmp):
    conf = write(tmp / "etc/quredis.conf", (ROOT / "etc/quredis.conf").read_text(), 0o644)
    assert call("-t", conf).returncode == 0
    assert call("-T", conf).returncode == 0


@pytest.mark.parametrize("end", ["# the end", "// the end", "/* the end */", " ", ""])
def test_the_last_line_needs_no_newline(tmp, end):
    queues = 'queues = ( { name = "mail"; handler = ["/bin/true"]; } );'
    for text in (queues + end, queues + "\n" + end):
        done = call("-t", write(tmp / "etc/quredis.conf", text))
        assert done.returncode == 0, (text, done.stderr)


def test_printed_is_read_again_and_equal(tmp):
    conf = write(tmp / "etc/quredis.conf", r"""
redis = { url = "redis://me:geheim@127.0.0.1:1/2"; };
log = { level = "debug"; };
defaults = { timeout = "3s"; handler = ["/bin/sh", "-c", "printf '%s\\n' \"$1\" ü \x01\t"]; };
queues = ( { name = "a"; backoff = { jitter = 0.25; }; exit_codes = { retry = [1]; fail = [75]; }; } );
""")
    write(tmp / "etc/conf.d/b.conf", 'queues = ( { name = "b"; env = ["A=\\"b\\""]; limits = { memory = "1G"; }; } );')
    first = call("-T", conf)
    assert first.returncode == 0, first.stderr
    assert "geheim" not in first.stdout + first.stderr
    assert f"{conf}:3" in first.stdout and "etc/conf.d/b.conf:1" in first.stdout
    second = call("-T", write(tmp / "again/quredis.conf", first.stdout))
    assert second.returncode == 0, second.stderr
    assert values(second.stdout) == values(first.stdout)
    assert r'"printf \'%s\\n\' \"$1\" ü \x01\x09"'.replace(r"\'", "'") in first.stdout


def test_the_environment_is_named_as_origin(tmp):
    conf = write(tmp / "etc/quredis.conf", 'log = { level = "debug"; };')
    printed = call("-T", conf, QUREDIS_LOG_LEVEL="error", QUREDIS_REDIS_URL="redis://:geheim@h").stdout
    assert 'level = "error";\t# environment QUREDIS_LOG_LEVEL' in printed
    assert 'url = "redis://h";\t# environment QUREDIS_REDIS_URL; the password is left out here' in printed
    assert "geheim" not in printed


def test_a_wrong_configuration_is_not_printed(tmp):
    conf = write(tmp / "etc/quredis.conf", "wrong = 1;")
    done = call("-T", conf)
    assert (done.returncode, done.stdout) == (EX_CONFIG, "")
    assert re.search(r"quredis\.conf:1: unknown key 'wrong'", done.stderr)


def test_the_files_of_functions_are_looked_for(tmp):
    there = write(tmp / "jobs.py", "def handle(message): pass\n")
    conf = write(tmp / "etc/quredis.conf", f"""queues = (
    {{ name = "a"; function = "{there}:handle"; }},
    {{ name = "b"; function = "{tmp}/nothing.py:handle"; }},
    {{ name = "c"; function = "{there}"; interpreter = ["/nowhere/python"]; }},
    {{ name = "d"; function = "{tmp}/jobs.js"; isolate = true; }} );\n""")
    said = call("-t", conf).stderr.replace(f"{tmp}/etc/", "").splitlines()
    assert not any("functions are not loaded" in line for line in said)
    assert [line for line in said if ":2:" in line and not line.startswith("warning: ")] == []
    assert f"queue held: quredis.conf:3: function: {tmp}/nothing.py: it does not exist: put it there, or correct the path" in said
    assert "queue held: quredis.conf:4: interpreter: /nowhere/python: it does not exist: put it there, or correct the path" in said
    assert "and quredisd does not start with it, because of the lines without \"warning\" or \"queue held\"" in said[-1]
    assert [line for line in said if line.startswith("quredis.conf:5: queue d: isolate: Node cannot fork")], said


def test_the_handler_of_a_function_is_printed(tmp):
    there = write(tmp / "jobs.py", "def handle(message): pass\n")
    conf = write(tmp / "etc/quredis.conf", f"""queues = (
    {{ name = "a"; function = "{there}:handle"; isolate = true; message = "json"; interpreter = ["/usr/bin/env", "python3"]; }} );\n""")
    printed = call("-T", conf).stdout
    found = re.search(r'# handler = \["/usr/bin/env", "python3", "([^"]*)/quredis-python", "--isolate", "--json", "([^"]*)"\];\t# from function', printed)
    assert found and found[2] == f"{there}:handle" and os.access(found[1] + "/quredis-python", os.X_OK), printed
    assert '# mode = "persistent";\t# from function' in printed and "# ready = true;\t# from function" in printed


def test_functions_are_not_loaded(tmp):
    """And -t says which command does it."""
    conf = write(tmp / "etc/quredis.conf", f"""queues = ( {{ name = "a"; function = "{write(tmp / "jobs.py", "not Python")}"; }} );\n""")
    done = call("-t", conf)
    assert done.returncode == 0 and f"note: functions are not loaded here: quredis -c {conf} doctor loads them" in done.stderr, done.stderr
    write(conf, 'queues = ( { name = "a"; handler = ["/bin/true"]; } );\n')
    assert "functions" not in call("-t", conf).stderr
