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


# A file in a directory of the project, which wants a module beside it and one of the root of the project.
PROJECTS = {
    "python": ("PYTHONPATH", {"shop/__init__.py": "", "shop/models.py": "name = 'orders'\n", "jobs/beside.py": "name = 'beside'\n"},
               "import beside, shop.models\ndef handle(message, job): job.reject(beside.name + ' ' + shop.models.name)\n"),
    "ruby": ("RUBYLIB", {"shop/models.rb": "ROOT = 'orders'\n", "jobs/beside.rb": "BESIDE = 'beside'\n"},
             'require "beside"\nrequire "shop/models"\ndef handle(message, job) = job.reject("#{BESIDE} #{ROOT}")\n'),
    "perl": ("PERL5LIB", {"Shop/Models.pm": "package Shop::Models; sub name { 'orders' } 1;\n", "jobs/Beside.pm": "package Beside; sub name { 'beside' } 1;\n"},
             'use Beside;\nuse Shop::Models;\nsub handle { $_[1]->reject(Beside->name . " " . Shop::Models->name) }\n1;\n'),
    "php": (None, {"shop.php": "<?php const ROOT = 'orders';\n", "jobs/beside.php": "<?php const BESIDE = 'beside';\n"},
            '<?php require "beside.php"; require __DIR__ . "/../shop.php";\nfunction handle($m, $job) { $job->reject(BESIDE . " " . ROOT); }\n'),
    "node": ("NODE_PATH", {"shop/models.js": "exports.name = 'orders';\n", "jobs/beside.js": "exports.name = 'beside';\n"},
             'const beside = require("./beside"), models = require("shop/models");\n'
             'exports.handle = (m, job) => job.reject(`${beside.name} ${models.name}`);\n'),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_root_of_a_project(language, tmp):
    variable, files, text = PROJECTS[language]
    path = tmp / f"jobs/send.{FILES[language]}"
    for name, content in {**files, f"jobs/{path.name}": text}.items():
        (tmp / name).parent.mkdir(exist_ok=True)
        (tmp / name).write_text(content)
    if variable is not None:
        assert f".Ev {variable}" in PAGE or f"{variable}=" in PAGE
        assert Runner(language, "--check", str(path), tmp=tmp).close()[0] == 1
    runner = Runner(language, str(path), tmp=tmp, env={variable: str(tmp)} if variable else {})
    assert runner.process.stdout.readline() == b"READY\n", runner.said()
    assert runner.ask(b"x") == "REJECT class=Rejected beside orders"
    assert runner.close() == (0, b"")
