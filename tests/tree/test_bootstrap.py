"""bootstrap, with stand-ins for dpkg, apt, sudo and make: what it installs, and what its last line says."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import ROOT

STUBS = {
    "dpkg-query": 'for p; do :; done; case $* in *Version*) cat @TMP@/version.$p 2>/dev/null || echo 99; exit ;; esac; '
                  'grep -qx -- "$p" @TMP@/installed && printf installed',
    "apt-get": 'echo "apt-get $*" >>@TMP@/calls; [ ! -e @TMP@/no-network ]',
    "sudo": 'printf "sudo %s\\n" "$(printf %s "$*" | tr "\\n" " ")" >>@TMP@/calls; case $* in *policy-rc.d*) ;; *) exec "$@" ;; esac',
    "id": "echo 1000",
    "make": 'echo "make $*" >>@TMP@/calls; [ ! -e @TMP@/broken ]',
}


def packages():
    """All that bootstrap names, by purpose."""
    text = (ROOT / "bootstrap").read_text()
    return {name: words.split() for name, words in re.findall(r'^(\w+)_packages="([^"]*)"', text, re.M)}


@pytest.fixture
def tree(tmp):
    """A tree with bootstrap, and a machine on which every package is there."""
    shutil.copy(ROOT / "bootstrap", tmp / "bootstrap")
    (tmp / "bin").mkdir()
    for name, body in STUBS.items():
        (tmp / "bin" / name).write_text("#!/bin/sh\n" + body.replace("@TMP@", str(tmp)) + "\n")
    for path, line in (("tests/run", "echo '3 passed, 0 failed'"), ("etc/demo/run", "echo demo $*; exit 1")):
        (tmp / path).parent.mkdir(parents=True)
        (tmp / path).write_text(f"#!/bin/sh\n{line}\n")
    for path in [*(tmp / "bin").iterdir(), tmp / "tests/run", tmp / "etc/demo/run"]:
        path.chmod(0o755)
    (tmp / "installed").write_text("\n".join(sum(packages().values(), [])) + "\n")
    (tmp / "calls").touch()
    return tmp


def bootstrap(tree, *args):
    done = subprocess.run([tree / "bootstrap", *args], cwd="/", env={"PATH": f"{tree}/bin:{os.environ['PATH']}"},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    return done, (tree / "calls").read_text().splitlines()


def forget(tree, *names):
    (tree / "installed").write_text("".join(f"{p}\n" for p in (tree / "installed").read_text().split() if p not in names))


def test_nothing_is_left_that_others_can_write(tree):
    """An archive that root unpacks keeps the modes of its maker."""
    (tree / "etc").chmod(0o775)
    (tree / "etc/demo/run").chmod(0o777)
    (tree / "build/root/tmp").mkdir(parents=True)       # of a system that tests run in
    (tree / "build/root/tmp").chmod(0o1777)
    done, _ = bootstrap(tree, "build")
    assert done.returncode == 0 and (tree / "etc").stat().st_mode & 0o777 == 0o755 and (tree / "etc/demo/run").stat().st_mode & 0o777 == 0o755
    assert (tree / "build/root/tmp").stat().st_mode & 0o7777 == 0o1777


def test_nothing_is_installed_when_nothing_is_missing(tree):
    done, calls = bootstrap(tree, "check")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "3 passed, 0 failed"
    assert [c.split()[0] for c in calls] == ["make", "make"]


def test_downloads_run_beside_the_build(tree):
    """Each of the two waits until the other one has begun."""
    with open(tree / "bin/make", "a") as f:
        f.write('case $* in *servers*) own=downloads other=all ;; *) own=all other=downloads ;; esac\n'
                f'touch {tree}/$own; until [ -e {tree}/$other ]; do sleep 0.01; done\n')
    done, calls = bootstrap(tree, "check")
    assert done.returncode == 0 and len(calls) == 2
    goals = [goal for call in calls for goal in call.split()[1:] if not goal.startswith("-")]
    assert sorted(goals) == ["all", "axe", "crashpoint-programs", "deb", "inits", "kubernetes-models", "promtool", "servers",
                             "short-fuzz-programs", "unit-programs"]


def test_the_build_counts_and_the_downloads_do_not(tree):
    for goal, status in (("servers", 0), ("all", 1)):
        with open(tree / "bin/make", "a") as f:
            f.write(f"case \" $* \" in *\" {goal} \"*) exit 2 ;; esac\n")
        done, _ = bootstrap(tree, "check")
        assert done.returncode == status, goal


def test_only_what_is_missing_is_installed_and_named(tree):
    forget(tree, "gcc", "libcmocka-dev")
    done, calls = bootstrap(tree, "check")
    assert done.returncode == 0
    assert "bootstrap: installs: gcc libcmocka-dev\n" in done.stdout
    installs = [c for c in calls if c.startswith("apt-get")]
    assert installs == ["apt-get -q update", "apt-get -q -y --no-install-recommends install gcc libcmocka-dev"]
    if not pathlib.Path("/usr/sbin/policy-rc.d").exists():
        # services are kept from starting, and that is undone
        assert [("printf" in c, "rm -f" in c) for c in calls if "policy-rc.d" in c] == [(True, False), (False, True)]
    assert calls[-1].startswith("make -j")


def test_what_only_makes_the_tests_faster_may_be_missing(tree):
    """A mirror may lack it."""
    forget(tree, *packages()["faster"])
    with open(tree / "bin/apt-get", "a") as f:
        f.write("case $* in *chromium-headless-shell*) exit 100 ;; esac\n")
    done, calls = bootstrap(tree, "check")
    assert "apt-get -q -y --no-install-recommends install chromium-headless-shell" in calls
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "3 passed, 0 failed"
    assert "bootstrap: goes on without chromium-headless-shell\n" in done.stdout


# what is there, what replaces it, and from which on it has its fixes
OLD = {"libevent-dev": ("2.1.12-stable-8", "2.1.12-stable-10", "2.1.12-stable-8+deb12u1"), "libssl-dev": ("3.0.20-1~deb12u2", "3.5.1-1", "3.0.22-1~deb12u2"),
       "libhiredis-dev": ("0.14.1-1", "0.14.1-3", "0.14.1-2")}


@pytest.mark.parametrize("name", OLD)
@pytest.mark.parametrize("found", ["in apt's sources", "in the security archive", "nowhere"])
def test_a_library_without_its_security_fixes_is_replaced(tree, found, name):
    old, new, least = OLD[name]
    (tree / f"version.{name}").write_text(old)
    pattern = {"in apt's sources": f"*install*{name}*", "in the security archive": f"*SourceParts=*install*{name}*", "nowhere": "never"}
    with open(tree / "bin/apt-get", "a") as f:
        f.write("for p; do case $p in Dir::Etc::SourceParts=*) cat ${p#*=}/*.list >>%s/sources ;; esac; done\n" % tree)
        f.write(f"case $* in {pattern[found]}) echo {new} >{tree}/version.{name} ;; esac\n")
    done, calls = bootstrap(tree, "build")
    assert "apt-get -q -y --no-install-recommends install %s" % name in calls
    assert (done.returncode == 0) is (found != "nowhere")
    assert found != "nowhere" or f"{name} is older than {least}" in done.stderr
    if found == "in apt's sources":
        assert not (tree / "sources").exists()
    elif "\nID=debian\n" in pathlib.Path("/etc/os-release").read_text():
        assert "http://deb.debian.org/debian-security" in (tree / "sources").read_text()
        directory = re.search(r"SourceParts=(\S+)", " ".join(calls))[1]
        assert not pathlib.Path(directory).exists(), "apt's sources stay as they were"


def test_the_demo_needs_no_test_tools(tree):
    forget(tree, *packages()["check"])
    done, calls = bootstrap(tree, "demo", "--keep")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "demo --keep")
    assert not any("apt-get" in c for c in calls)


def test_packages_are_built_with_what_they_need_only(tree):
    forget(tree, "debhelper", *packages()["check"])
    done, calls = bootstrap(tree, "deb")
    assert (done.returncode, calls[-1]) == (0, "make deb")
    assert [c for c in calls if " install " in c and c.startswith("apt-get")] == ["apt-get -q -y --no-install-recommends install debhelper"]


@pytest.mark.parametrize("accident", ["broken", "no-network"])
def test_what_cannot_be_built_is_one_failure(tree, accident):
    forget(tree, "gcc")
    (tree / accident).touch()
    done, _ = bootstrap(tree, "check")
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "0 passed, 1 failed"


def test_usage(tree):
    for args in ((), ("chek",)):
        done, calls = bootstrap(tree, *args)
        assert done.returncode == 64 and "./bootstrap demo" in done.stderr and calls == []


def test_build_passes_variables_to_make(tree):
    done, calls = bootstrap(tree, "build", "prefix=/opt/a b", "CFLAGS=-O1 -DX=\"=\"")
    assert done.returncode == 0 and calls[0].endswith(' all prefix=/opt/a b CFLAGS=-O1 -DX="="')


@pytest.mark.parametrize("word", ["quredisd", "--jobs", "-j2", "=x", "a-b=c", "1=2", ""])
def test_build_refuses_other_words(tree, word):
    done, calls = bootstrap(tree, "build", word)
    assert done.returncode == 64 and f'expected VAR=VALUE, a variable of make, not "{word}"' in done.stderr and calls == []


def test_without_sudo_it_says_what_it_wanted(tree):
    (tree / "bin/sudo").unlink()
    if shutil.which("sudo"):
        pytest.skip("sudo is installed here")
    forget(tree, "gcc")
    done, _ = bootstrap(tree, "demo")
    assert done.returncode == 1 and "run this as root" in done.stderr and "apt-get" in done.stderr


def test_ci_runs_check():
    assert (ROOT / ".ci/run").read_text().endswith("exec ./bootstrap check\n")
