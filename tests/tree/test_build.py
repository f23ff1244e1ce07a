"""The Makefile: what it installs and leaves, what it makes again, what goes into a release."""
import os
import pathlib
import re
import subprocess

import pytest

from harness import BUILD, ROOT, SANITIZED

MAN_PAGES = sorted((ROOT / "man").glob("*.[1-9]"))
UNITS = sorted((ROOT / "etc/systemd").glob("*.service"))


def make(*args, check=True):
    """make for the binaries under test, which it takes as they are."""
    where = os.path.relpath(BUILD.parent, ROOT)
    mode = ["SAN=1"] if SANITIZED else []
    mode += ["CC=clang"] if BUILD.name.startswith("clang") else []
    asis = [f"--old-file={where}/{BUILD.name}/{p}" for p in ("quredisd", "quredis")]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", f"BUILD={where}", *mode, *asis, *args], cwd=ROOT, env=env, check=check, timeout=100,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def files(root):
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir())


def test_install_and_uninstall(tmp):
    root = tmp / "root"
    done = make("install", f"DESTDIR={root}", "prefix=/usr")
    assert max(map(len, done.stdout.splitlines())) < 1000      # it does not print its loops
    installed = files(root)
    assert {"usr/sbin/quredisd", "usr/bin/quredis", "etc/quredis/quredis.conf"} <= set(installed)
    for page in MAN_PAGES:
        assert f"usr/share/man/man{page.suffix[1:]}/{page.name}" in installed
    for script in ("bash-completion/completions/quredis", "fish/vendor_completions.d/quredis.fish", "zsh/site-functions/_quredis"):
        assert f"usr/share/{script}" in installed
    for unit in UNITS:
        assert f"usr/lib/systemd/system/{unit.name}" in installed
    assert (root / "etc/quredis/conf.d").is_dir()
    for program in ("usr/sbin/quredisd", "usr/bin/quredis"):
        done = subprocess.run([root / program, "--version"], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0 and re.search(r"\b\d+\.\d+\.\d+\b", done.stdout)
    make("uninstall", f"DESTDIR={root}", "prefix=/usr")
    assert files(root) == [] and not (root / "usr/share/doc/quredis").exists()


def test_links_of_installed_pages(tmp):
    make("install", f"DESTDIR={tmp}/root", "prefix=/usr")
    pages = sorted((tmp / "root/usr/share/doc/quredis").rglob("*.md"))
    links = [(page, target) for page in pages for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())]
    assert len(links) > 10 and [str(page) + ": " + target for page, target in links if not (page.parent / target).exists()] == []


def test_a_configuration_is_never_overwritten_or_removed(tmp):
    conf = tmp / "root/etc/quredis/quredis.conf"
    conf.parent.mkdir(parents=True)
    conf.write_text("# mine\n")
    make("install", f"DESTDIR={tmp}/root")
    assert conf.read_text() == "# mine\n"
    make("uninstall", f"DESTDIR={tmp}/root")
    assert files(tmp / "root") == ["etc/quredis/quredis.conf"]


@pytest.mark.skipif(not UNITS, reason="no units yet")
def test_units_start_what_was_installed(tmp):
    make("install", f"DESTDIR={tmp}/root", "prefix=/opt/q", "sysconfdir=/opt/q/etc", "unitdir=/u")
    for unit in UNITS:
        text = (tmp / "root/u" / unit.name).read_text()
        for path in re.findall(r"^Exec\w+=[-@:+!]*(/\S+)", text, re.M):
            assert path.startswith("/opt/q/") or path.startswith("/bin/"), path
        assert "/etc/quredis" not in text.replace("/opt/q/etc/quredis", "")


def test_manuals_name_what_was_installed(tmp):
    """Files that quredis has no other place for, such as /run/quredis, and examples of the user's own programs, stay."""
    make("install", f"DESTDIR={tmp}/root", "prefix=/opt/q", "sysconfdir=/opt/q/etc", "unitdir=/u")
    for page in MAN_PAGES:
        text = (tmp / "root/opt/q/share/man" / f"man{page.suffix[1:]}" / page.name).read_text()
        for path in re.findall(r"(?:/opt/q/\w+|/etc|/usr/local/share/doc)/quredis[\w./*-]*", text):
            assert path.startswith(("/opt/q/etc/quredis", "/opt/q/share/", "/opt/q/libexec/")), (page.name, path)
            found = tmp / f"root{path.rstrip(';.,')}".replace("*.conf", "")
            assert found.exists() or "redis.pass" in path or "/a.conf" in path, (page.name, path)
        assert len(text.splitlines()) == len(page.read_text().splitlines()) > 100


@pytest.mark.parametrize("server", ["redis-server.service", "valkey-server.service"])
@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.name)
def test_units_start_after_either_server_of_debian(unit, server):
    assert server in re.search(r"^After=(.*)$", unit.read_text(), re.M)[1].split()


@pytest.mark.skipif(SANITIZED, reason="sanitizers and the fortified functions of libc exclude each other")
def test_flags_of_a_debian_package_give_no_warning(tmp):
    """dpkg-buildflags sets _FORTIFY_SOURCE, too."""
    target = f"{tmp}/release/common/base/buffer.o"
    done = make("-s", f"BUILD={tmp}", "CC=cc", "CPPFLAGS=-Wdate-time -D_FORTIFY_SOURCE=2", "CFLAGS=-O2 -Werror=format-security -E -dD", target)
    levels = re.findall(r"^#(?:define|undef) _FORTIFY_SOURCE ?(\d?)$", pathlib.Path(target).read_text(), re.M)
    assert done.stderr == "" and levels[-1] == "3"


def test_a_changed_script_is_embedded_again():
    script = next((ROOT / "common/queue/scripts").glob("*.lua"))
    target = f"{os.path.relpath(BUILD, ROOT)}/common/queue/scripts.o"
    assert "common/queue/scripts.c" in make("-n", "-W", str(script.relative_to(ROOT)), target).stdout


def test_unit_tests_link_sources_of_tests_that_exist():
    """The libraries they get all; a source of the product named here would be left out without a word."""
    for path in sorted((ROOT / "tests/unit").rglob("test_*.c")):
        for source in re.findall(r"^/\* *links: *([^*]*?) *\*/$", path.read_text(), re.M):
            for name in source.split():
                assert name.startswith("tests/") and (ROOT / name).exists(), f"{path.name}: {name}"


def no_commits():
    """Why `git` cannot show what is committed here; None: it can."""
    try:
        done = subprocess.run(["git", "rev-parse", "--verify", "-q", "HEAD:Makefile"], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return "git is not installed"
    return f"git shows no commit of this tree: {done.stderr.strip() or 'not a checkout'}" if done.returncode else None


@pytest.mark.skipif(no_commits() is not None, reason=str(no_commits()))
def test_dist_is_what_is_committed(tmp):
    tarballs = []
    for n in "ab":
        done = subprocess.run(["make", "-s", f"BUILD={tmp}/{n}", "dist"], cwd=ROOT, check=True, timeout=100,
                              stdout=subprocess.PIPE, text=True)
        tarballs.append(done.stdout.strip())
    a, b = (open(t, "rb").read() for t in tarballs)
    assert a == b
    listed = subprocess.run(["tar", "-tzf", tarballs[0]], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    committed = subprocess.run(["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=ROOT, check=True,
                               stdout=subprocess.PIPE, text=True).stdout.split()
    assert sorted(name.split("/", 1)[1] for name in listed if not name.endswith("/")) == sorted(committed)
