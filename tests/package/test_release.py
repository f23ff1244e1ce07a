"""What a release needs: one version everywhere, a clean tree, and the same bytes wherever it is built."""
import importlib.machinery
import importlib.util
import re
import shutil
import subprocess

import pytest

from harness import ROOT, VERSION

_loader = importlib.machinery.SourceFileLoader("versions", str(ROOT / "tests/release/versions"))
versions = importlib.util.module_from_spec(importlib.util.spec_from_loader("versions", _loader))
_loader.exec_module(versions)

OF_VERSION = ("Makefile", "debian/changelog", "CHANGELOG.md", "docs/versions.md")
NO_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


# ---- one version ----

def test_versions_agree():
    assert versions.of_tree(ROOT) == []


UNRELEASED = {"makefile": "VERSION = 1.2.0\n", "debian": "quredis (1.2.0-0quredis1) unstable; urgency=medium\n",
              "changes": "# Changes\n\n## Unreleased\n\n## 1.1.0 - 2026-11-30\n", "promises": "| 1.2.0, not released yet | 2 |\n| 1.1.0 | 2 |\n"}
RELEASED = {**UNRELEASED, "changes": "# Changes\n\n## 1.2.0 - 2026-12-01\n", "promises": "| 1.2.0 | 2 |\n", "tags_here": ["v1.2.0"]}


@pytest.mark.parametrize("good", [UNRELEASED, RELEASED])
def test_versions_that_agree_pass(good):
    assert list(versions.disagreements(**good)) == []


@pytest.mark.parametrize("before, change, seen", [
    (UNRELEASED, {"makefile": "VERSION = 1.2\n"}, "expected three numbers"),
    (UNRELEASED, {"debian": "quredis (1.1.0-1) unstable\n"}, "debian/changelog: its newest version is 1.1.0"),
    (UNRELEASED, {"changes": "## 1.1.0\n"}, "first heading is 1.1.0"),
    (UNRELEASED, {"changes": "## Unreleased\n\n## 1.2.0 - 2026-12-01\n"}, "has changes after it: raise VERSION"),
    (UNRELEASED, {"promises": "| 1.1.0 | 2 |\n"}, "no row for 1.2.0"),
    (UNRELEASED, {"promises": "| 1.2.0 | 2 |\n"}, "the first heading of CHANGELOG.md is Unreleased"),
    (UNRELEASED, {"tags_here": ["v1.2.0"]}, "the first heading of CHANGELOG.md is Unreleased"),
    (UNRELEASED, {"tags_elsewhere": ["v1.1.0", "v1.2.0"]}, "v1.2.0 is on another commit"),
    (RELEASED, {"tags_here": ["v1.3.0"]}, "tag v1.3.0 is on this commit, VERSION in the Makefile is 1.2.0"),
])
def test_versions_that_differ_are_seen(before, change, seen):
    assert any(seen in sentence for sentence in versions.disagreements(**{**before, **change}))


def dead_contacts(security, control):
    """Addresses at which nobody can be reached (RFC 2606, RFC 6761), and which a reader is told to use, or not told to leave alone."""
    reserved = re.compile(r"[\w.+-]+@(?:[\w-]+\.)*(?:example(?:\.(?:com|net|org))?|invalid|localhost|test)\b")
    yield from reserved.findall(security)
    if reserved.search(versions.found(r"^Maintainer: (.*)$", control)) and not re.search(r"^# Nobody gets mail at this address.*\nMaintainer: ", control, re.M):
        yield versions.found(r"^Maintainer: (.*)$", control)


def test_reports_of_vulnerabilities_go_where_somebody_reads_them():
    security, control = ((ROOT / name).read_text() for name in ("SECURITY.md", "debian/control"))
    assert list(dead_contacts(security, control)) == [] and "Report it in private" in security
    assert list(dead_contacts(security + "Write to a@packages.example.org.\n", control)) == ["a@packages.example.org"]
    assert list(dead_contacts(security, control.replace("# Nobody", "# Somebody"))) == ["quredis authors <quredis@packages.example.org>"]


# ---- make release-check ----

class Checkout:
    """A checkout of git with what a release is made of, apart from the sources."""

    def __init__(self, place):
        self.place = place
        for name in (*OF_VERSION, "tests/release/check", "tests/release/versions", ".gitignore"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
        self.git("init", "-q")
        self.commit()

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@localhost", *words], cwd=self.place, check=True, timeout=60)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "test", "--allow-empty")

    def edit(self, name, old, new):
        text = (self.place / name).read_text()
        assert old in text
        (self.place / name).write_text(text.replace(old, new))

    def check(self, steps):
        done = subprocess.run(["make", "-s", "release-check", f"STEPS={steps}"], cwd=self.place, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300)
        return done.returncode, done.stdout


@pytest.fixture
def checkout(tmp):
    (tmp / "checkout").mkdir()
    return Checkout(tmp / "checkout")


@NO_GIT
def test_a_clean_commit_passes(checkout):
    code, said = checkout.check("versions tarball")
    assert code == 0 and "release-check: versions ... good" in said and "release-check: tarball ... good" in said
    assert "can be released" not in said and "is checked in part; not run: tests names distcheck deb binaries sbom\n" in said
    name, total = (checkout.place / "build/release-check/tarball.log").read_text().split()
    assert name == f"quredis-{VERSION}.tar.gz" and len(total) == 64


@NO_GIT
def test_a_tree_with_changes_is_refused(checkout):
    checkout.edit("CHANGELOG.md", "# Changes", "# Changed")
    (checkout.place / "docs/new.md").write_text("new\n")
    code, said = checkout.check("versions")
    assert code != 0 and " M CHANGELOG.md" in said and "?? docs/new.md" in said and "good" not in said


@NO_GIT
def test_a_tag_of_another_version_is_the_end(checkout):
    checkout.git("tag", "v9.9.9")
    code, said = checkout.check("versions tarball")
    assert code != 0 and "versions ... FAILED\ntag v9.9.9 is on this commit" in said and "tarball ..." not in said


@NO_GIT
def test_a_tarball_that_differs_is_the_end(checkout):
    checkout.edit("Makefile", "| gzip -9n >", "| { cat; date +%N; } | gzip -9n >")
    checkout.commit()
    code, said = checkout.check("tarball")
    assert code != 0 and "tarball ... FAILED" in said and "differs the second time" in said


@NO_GIT
def test_unknown_steps_are_refused(checkout):
    code, said = checkout.check("tarbal")
    assert code != 0 and 'unknown step "tarbal"; the steps are versions tests names' in said


# ---- the same bytes in each folder ----

def program_in(place, edit=lambda makefile: makefile):
    """The bytes of a small program with the flags of quredis: a library of two files, linked."""
    (place / "common/base").mkdir(parents=True)
    for path in (ROOT / "common/base").iterdir():
        if path.suffix == ".h" or path.name in ("alloc.c", "buffer.c"):
            shutil.copy(path, place / "common/base")
    (place / "Makefile").write_text(edit((ROOT / "Makefile").read_text()))
    subprocess.run(["make", "-s", "BUILD=build", "CC=gcc", "build/release/common/base/wall"], cwd=place, check=True, timeout=300,
                   env={"PATH": "/usr/bin:/bin", "CCACHE_DISABLE": "1"}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return (place / "build/release/common/base/wall").read_bytes()


@pytest.mark.parametrize("edit, same", [(lambda m: m, True), (lambda m: m.replace("-ffile-prefix-map=$(CURDIR)=.", ""), False)],
                         ids=["as it is", "with the folder in it"])
def test_programs_are_the_same_in_each_folder(tmp, edit, same):
    one, another = program_in(tmp / "one", edit), program_in(tmp / "and" / "another", edit)
    assert (one == another) == same and len(one) > 10000
