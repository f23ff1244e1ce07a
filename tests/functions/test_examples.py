"""The examples of quredis-function(7): those of EXAMPLES run, those of FRAMEWORKS have the syntax of their language."""
import os
import re
import shutil
import subprocess

import pytest

from harness import ROOT
from functions.test_runners import FILES, INTERPRETER, LANGUAGES, Runner

PAGE = (ROOT / "man/quredis-function.7").read_text()
FRAMEWORKS = {"Django": "python", "Rails": "ruby", "Laravel": "php", "Express": "node", "Mojolicious": "perl"}
SYNTAX = {"python": ["-m", "py_compile"], "ruby": ["-c"], "php": ["-l"], "node": ["--check"], "perl": ["-c"]}


def example(title):
    block = re.search(rf"^\.Ss {re.escape(title)}\n\.Bd -literal -offset indent\n(.*?)^\.Ed\n", PAGE, re.M | re.S)
    return block[1].replace(r"\e", "\\")


@pytest.mark.parametrize("language", LANGUAGES)
def test_example(language, tmp):
    name = f"words.{FILES[language]}"
    title = re.search(rf"^\.Ss (.*: {re.escape(name)})$", PAGE, re.M)[1]
    (tmp / name).write_text(example(title))
    (tmp / "text").write_text("one two\nthree\n")
    runner = Runner(language, "--json", f"{tmp}/{name}", tmp=tmp)
    assert runner.process.stdout.readline() == b"READY\n", runner.said()
    assert runner.ask(b'{"path": "%s"}' % os.fsencode(tmp / "text"), keys=" id=order-1") == "OK"
    assert "order-1 3\n" in runner.said()
    assert runner.ask(b"{}") == "REJECT class=Rejected no path in the message"
    assert runner.ask(b'{"path": "/none"}').startswith("RETRY 30000ms class=NotThere ")
    assert runner.close() == (0, b"")


@pytest.mark.parametrize("framework, language", FRAMEWORKS.items())
def test_framework(framework, language, tmp):
    program = INTERPRETER.get(language, language)
    if shutil.which(program) is None:
        pytest.skip(f"{language} is not installed")
    path = tmp / f"jobs.{FILES[language]}"
    path.write_text(example(framework))
    (tmp / "Mojo").mkdir()
    (tmp / "Mojo/Server.pm").write_text("package Mojo::Server;\n1;\n")
    subprocess.run([program, *SYNTAX[language], path], env={**os.environ, "PERL5LIB": str(tmp)}, check=True, stdout=subprocess.DEVNULL)
    path.write_text(example(framework).replace("handle", "handle(((", 1))
    assert subprocess.run([program, *SYNTAX[language], path], env={**os.environ, "PERL5LIB": str(tmp)}, check=False, capture_output=True).returncode != 0
