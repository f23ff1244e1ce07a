"""quredis doctor loads the function of each queue, as its user and as a worker would, and runs no message."""
import os
import shutil
import signal
import subprocess

import pytest

from harness import alive, wait_for
from harness.clinic import USER

# A good file, one that lacks a module, one that hangs, and one that writes its user, its directory and its environment, and leaves a process.
FILES = {
    "python": ("py", "def handle(message): pass\ndef three(message, job, more): pass\n", "import quredis_missing\n", "import time\ntime.sleep(77)\n",
               "No module named 'quredis_missing'"),
    "ruby": ("rb", "def handle(message) = nil\ndef three(message, job, more) = nil\n", "require 'quredis_missing'\n", "sleep 77\n",
             "cannot load such file -- quredis_missing"),
    "perl": ("pl", "use feature 'signatures'; no warnings;\nsub handle ($message) { }\nsub three ($message, $job, $more) { }\n1;\n",
             "use Quredis::Missing;\n", "sleep 77;\n", "Can't locate Quredis/Missing.pm"),
    "php": ("php", "<?php function handle($message) {}\nfunction three($message, $job, $more) {}\n", "<?php require 'quredis_missing';\n",
            "<?php sleep(77);\n", "Failed opening required 'quredis_missing'"),
    "node": ("js", "module.exports = { handle(message) {}, three(message, job, more) {} };\n", "require('quredis_missing');\n", "for (;;);\n",
             "Cannot find module 'quredis_missing'"),
}


@pytest.mark.parametrize("language", FILES)
def test_functions(clinic, language):
    if shutil.which({"python": "/usr/bin/python3"}.get(language, language)) is None:
        pytest.skip(f"{language} is not installed")
    ending, good, lacking, hanging, lack = FILES[language]
    for name, text in {"good": good, "lacking": lacking, "hanging": hanging}.items():
        (clinic.tmp / f"{name}.{ending}").write_text(text)
    wanted = {"good": ("good", "1m"), "missing": ("good", "1m"), "three": ("good", "1m"), "lacking": ("lacking", "1m"), "hanging": ("hanging", "700ms")}
    function = {"missing": ":hande", "three": ":three"}
    clinic.configure(*(dict(name=name, function=f"{clinic.tmp}/{file}.{ending}{function.get(name, '')}", start_timeout=limit, **USER)
                       for name, (file, limit) in wanted.items()))
    ended = "it ended before it was ready: exit status 1: "
    rows = {row["what"].split(": ")[0]: row for row in clinic.doctor().bad("functions")}
    assert sorted(rows) == sorted(set(wanted) - {"good"}), rows
    assert rows["missing"]["what"] == f"missing: {ended}quredis-{language}: good has no function hande (did you mean handle?)"
    assert rows["three"]["what"].startswith(f"three: {ended}quredis-{language}: three must take (message) or (message, job), not (")
    assert ended in rows["lacking"]["what"] and lack in rows["lacking"]["what"], rows["lacking"]
    assert "interpreter = [" in rows["lacking"]["advice"] and "interpreter" not in rows["three"]["advice"], rows
    assert rows["hanging"]["what"].startswith("hanging: it was not ready within start_timeout")     # Ruby also says where it was
    assert all(row["severity"] == "error" and row["where"].startswith(str(clinic.tmp)) for row in rows.values())


@pytest.mark.parametrize("language, ending, text", [
    ("python", "py", "import os\nos._exit(0)\n"), ("ruby", "rb", "exit!(0)\n"), ("perl", "pl", "use POSIX; POSIX::_exit(0);\n"),
    ("php", "php", "<?php posix_kill(getmypid(), 0); exit(0);\n"), ("node", "js", "process.reallyExit(0);\n"),
])
def test_a_file_that_ends_the_process(clinic, language, ending, text):
    """Status 0 is no word of the runner, which may not have come to the function."""
    if shutil.which({"python": "/usr/bin/python3"}.get(language, language)) is None:
        pytest.skip(f"{language} is not installed")
    (clinic.tmp / f"ends.{ending}").write_text(text)
    clinic.configure(dict(name="ends", function=f"{clinic.tmp}/ends.{ending}", **USER))
    clinic.doctor().one("functions", "error", "ends: it ended before it was ready")


LOOKS = """
import os, signal, subprocess
left = subprocess.Popen(["sh", "-c", "trap '' TERM; exec sleep 77"])
print("OK 1")
with open("@TMP@/seen/it", "w") as f:
    print(os.geteuid(), os.getcwd(), os.environ.get("WHOSE"), os.environ.get("QUREDIS_QUEUE"), left.pid, file=f)
def handle(message):
    open("@TMP@/seen/ran", "w")
"""


def test_a_function_is_loaded_as_the_user_of_its_queue(clinic):
    (clinic.tmp / "seen").mkdir()
    (clinic.tmp / "seen").chmod(0o777)
    (clinic.tmp / "jobs.py").write_text(LOOKS.replace("@TMP@", str(clinic.tmp)))
    clinic.configure({"name": "mail", "function": f"{clinic.tmp}/jobs.py", "run_as": {**USER.get("run_as", {}), "directory": f"{clinic.tmp}/seen"},
                      "env": ["WHOSE=mine"]})
    report = clinic.doctor()
    report.good("functions")
    assert "handler_output" not in report.err
    user, directory, whose, name, left = (clinic.tmp / "seen/it").read_text().split()
    assert (directory, whose, name) == (f"{clinic.tmp}/seen", "mine", "mail")
    assert int(user) == (os.geteuid() if not USER else int(subprocess.check_output(["id", "-u", "nobody"])))
    assert not alive(int(left)) and not (clinic.tmp / "seen/ran").exists()


def test_a_function_whose_user_doctor_cannot_become(clinic):
    (clinic.tmp / "jobs.py").write_text("def handle(message): pass\n")
    clinic.configure({"name": "mail", "function": f"{clinic.tmp}/jobs.py", "run_as": {"user": "no-such-user"}})
    clinic.doctor().one("functions", "note", "it was not loaded: ", advice="run doctor as the user that starts quredisd")


def test_an_interrupt_ends_the_load_and_doctor(clinic):
    (clinic.tmp / "seen").mkdir()
    (clinic.tmp / "seen").chmod(0o777)
    (clinic.tmp / "jobs.py").write_text(f"import os, time\nopen('{clinic.tmp}/seen/pid', 'w').write(f'{{os.getpid()}}\\n')\ntime.sleep(77)\n")
    clinic.configure({"name": "mail", "function": f"{clinic.tmp}/jobs.py", **USER})
    doctor = subprocess.Popen(clinic.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seen = clinic.tmp / "seen/pid"
    wait_for(lambda: seen.exists() and seen.read_text().endswith("\n"), 30)
    doctor.send_signal(signal.SIGINT)
    assert doctor.wait(60) == -signal.SIGINT
    assert not alive(int(seen.read_text()))
