"""The packages of Debian: what they contain, what Debian's programs say to them, and their life in a booted Debian.

`make deb` builds them once for all tests. They are installed into an overlay over the root of this machine, so nothing of it changes.
"""
import fcntl
import os
import re
import shutil
import subprocess

import pytest

from harness import BUILD, ROOT, VERSION, unshared
from harness.booted import NSPAWN, Booted
from harness.terminal import OnTerminal

DEB = BUILD.parent / "deb"
CHANGELOG = (ROOT / "debian/changelog").read_text()
PACKAGES = ("quredis", "quredis-web", "quredis-doc")
# The second one only says that this lintian is newer than the Standards-Version, which is the newest that Debian 12 knows.
EXPECTED_TAGS = ("package-supports-alternative-init-but-no-init.d-script", "out-of-date-standards-version")

pytestmark = pytest.mark.limit(600)         # the first one builds the packages, if nothing has


def said(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, timeout=300, **options).stdout


def deb_of(name):
    (found,) = DEB.glob(f"{name}_*.deb")
    return found


@pytest.fixture(scope="module")
def debs():
    """name -> file. Processes of pytest build in turn; all but the first find everything built."""
    if shutil.which("dh") is None:
        pytest.skip("debhelper is not installed")
    ccache = "/usr/lib/ccache:" if os.path.isdir("/usr/lib/ccache") else ""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    with open(BUILD.parent / "deb.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["make", "deb", f"BUILD={os.path.relpath(BUILD.parent, ROOT)}"], cwd=ROOT, env={**env, "PATH": ccache + os.environ["PATH"]},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return {name: deb_of(name) for name in PACKAGES}


@pytest.fixture(scope="module")
def unpacked(debs, tmp_path_factory):
    """All packages in one root."""
    root = tmp_path_factory.mktemp("unpacked")
    for deb in debs.values():
        said("dpkg-deb", "-x", deb, root)
    return root


def least_of():
    """Library -> its least version, as bootstrap asks for it."""
    body = re.search(r"^least_of\(\) \{(.*?)^\}", (ROOT / "bootstrap").read_text(), re.M | re.S)[1]
    return dict(re.findall(r"^\t(\S+)-dev\) echo (\S+) ;;$", body, re.M))


def unavailable(why):
    """make check-systemd accepts no skip."""
    if os.environ.get("QUREDIS_SYSTEMD") == "required":
        pytest.fail(why)
    pytest.skip(why)


# ---- the sources ----

def test_build_needs_the_libraries_that_bootstrap_asks_for():
    control = (ROOT / "debian/control").read_text()
    assert len(least_of()) == 3 and dict(re.findall(r"^ +(\S+)-dev \(>= (\S+)\),$", control, re.M)) == least_of()


def test_bootstrap_installs_what_dpkg_asks_for():
    """build-essential stands in no control file: dpkg asks for it by itself."""
    control, bootstrap = (ROOT / "debian/control").read_text(), (ROOT / "bootstrap").read_text()
    wanted = re.search(r"^Build-Depends: ((?:.*\n )*.*)\n\n", control, re.M)[1]
    needed = {"build-essential"} | {line.split()[0].rstrip(",") for line in wanted.splitlines() if "<!nocheck>" not in line}
    installed = {p for name in ("build", "deb") for p in re.search(rf'^{name}_packages="(.*?)"$', bootstrap, re.M | re.S)[1].split()}
    of_debhelper = {"debhelper-compat", "dh-sequence-installsysusers"}
    assert of_debhelper < needed and needed - of_debhelper <= installed and "debhelper" in installed


# ---- the packages ----


def test_lintian_has_nothing_to_say(debs):
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed")
    done = subprocess.run(["lintian", "-EvI", "--allow-root", "--fail-on", "warning", *DEB.glob("*.changes")], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    tags = [line for line in done.stdout.splitlines() if re.match(r"[EWIXP]: ", line) and not any(f" {tag} " in f"{line} " for tag in EXPECTED_TAGS)]
    assert (done.returncode, tags) == (0, []), done.stdout


def test_libraries_have_their_security_fixes(debs):
    """dpkg-shlibdeps takes the versions of debian/control for libraries whose symbols name their -dev package; else it finds older ones."""
    depends = said("dpkg-deb", "-f", debs["quredis"], "Depends").strip().split(", ")
    for library, least in least_of().items():
        found = [d for d in depends if d.startswith(library)]
        assert found and all(d.endswith(f" (>= {least})") for d in found), (library, depends)


def texts(root):
    """Path -> text, of files that are not programs or pictures; manuals as they are read."""
    found = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink()):
        data = subprocess.check_output(["gzip", "-dc", path]) if path.suffix == ".gz" else path.read_bytes()
        found[f"/{path.relative_to(root)}"] = data.decode(errors="replace")
    return found


def test_no_path_of_an_installation_from_source(unpacked):
    """/usr/local has only the handlers of the user. The README says how to install from source."""
    ours = re.compile(r"/usr/local/(?:sbin|share|libexec|lib|etc)\b[\w./-]*|/usr/local/bin/quredisd?\b")
    assert not (unpacked / "usr/local").exists()
    assert [(path, m) for path, text in texts(unpacked).items() for m in ours.findall(text)] == []


def test_links_of_documents_lead_to_files(unpacked):
    docs = unpacked / "usr/share/doc/quredis"
    pages = sorted(docs.rglob("*.md"))
    links = [(page, target) for page in pages for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())]
    assert len(pages) > 10 and len(links) > 50
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []
    assert (docs / "examples/handlers/collect.py").exists() and not list((docs / "examples").rglob("*.gz"))
    assert (docs / "LICENSE").resolve() == (unpacked / "usr/share/doc/quredis-doc/copyright").resolve()


def test_manuals_name_files_of_the_packages(unpacked):
    named = {(path, m.rstrip(".")) for path, text in texts(unpacked / "usr/share/man").items()
             for m in re.findall(r"/usr/(?:local/)?(?:share/doc|libexec)/quredis[\w./-]*", text)}
    assert len(named) >= 3
    assert [(path, file) for path, file in named if not (unpacked / file.lstrip("/")).exists()] == []


def test_changelogs_are_in_their_places(unpacked):
    for name in PACKAGES:
        docs = unpacked / "usr/share/doc" / name
        assert said("gzip", "-dc", docs / "changelog.Debian.gz") == CHANGELOG
        if name != "quredis-doc":
            assert said("gzip", "-dc", docs / "changelog.gz").startswith("# Changes\n")


def test_configuration_gives_processes_users_of_their_own(unpacked):
    conf, source = ((p / "etc/quredis/quredis.conf" if p == unpacked else p / "etc/quredis.conf").read_text().splitlines() for p in (unpacked, ROOT))
    changed = [line.strip() for line, before in zip(conf, source, strict=True) if line != before]
    assert changed == ['user = "quredis";', 'run_as = { user = "quredis-handler"; };']
    users = (unpacked / "usr/lib/sysusers.d/quredis.conf").read_text()
    assert re.findall(r"^u (\S+)", users, re.M) == ["quredis", "quredis-handler"]


def test_drop_in_is_what_the_unit_advises(unpacked):
    advice = re.findall(r"^#\t(\w+=.*)$", (ROOT / "etc/systemd/quredisd.service").read_text(), re.M)
    (drop_in,) = unpacked.glob("**/quredisd.service.d/*.conf")
    assert [line for line in drop_in.read_text().splitlines() if "=" in line] == advice


# ---- installed, in a booted Debian ----

# An overlay over this machine's root: without what keeps services from starting, and without what is mounted at a boot.
OVERLAY = """set -e
mkdir -p /run/systemd/nspawn && mount -t tmpfs none /run/systemd/nspawn
mount -t tmpfs none {over} && mkdir {over}/upper {over}/work {over}/root
mount -t overlay none -o lowerdir=/,upperdir={over}/upper,workdir={over}/work {over}/root
# no index of all manuals of the machine at each dpkg
cd {over}/root && rm -f usr/sbin/policy-rc.d etc/machine-id var/lib/man-db/auto-update && : >etc/machine-id && : >etc/fstab"""


@pytest.fixture
def debian(debs, tmp):
    """Its /test has the packages of this version, and in next/ those of the next."""
    if os.geteuid() != 0:
        unavailable("needs root")
    if any(shutil.which(tool) is None for tool in ("systemd-nspawn", "nsenter")):
        unavailable("needs systemd-nspawn (systemd-container)")
    for place in ("over", "test", "test/next"):
        (tmp / place).mkdir()
    for deb in debs.values():
        shutil.copy(deb, tmp / "test")
    shutil.copy(ROOT / "debian/tests/service", tmp / "test")
    booted = Booted(tmp / "console", unshared(OVERLAY.format(over=tmp / "over"), "--mount") +
                    [*NSPAWN, "-D", str(tmp / "over/root"), f"--bind={tmp}/test:/test", "systemd.unit=basic.target"])
    try:
        booted.wait_booted(unavailable)
        booted.run("systemctl", "start", "redis-server")
        yield booted
    finally:
        booted.close()


def make_next(debs, where):
    """The same sources as another version: programs, and packages."""
    programs = where / "programs"
    said("make", "-s", "other-version", "BUILD=debian/build", "prefix=/usr", "sysconfdir=/etc", f"OTHER={programs}",
         f"OTHER_FLAGS=-DQUREDIS_VERSION='\"{VERSION}+next\"'", "CFLAGS=-O1 -g", cwd=DEB / f"quredis-{VERSION}")
    for name, deb in debs.items():
        tree = where / name
        said("dpkg-deb", "-R", deb, tree)
        control = tree / "DEBIAN/control"
        control.write_text(re.sub(r"^(Version: .*)$", r"\1+next", control.read_text(), flags=re.M))
        if name == "quredis":
            shutil.copy(programs / "quredisd", tree / "usr/sbin")
            shutil.copy(programs / "quredis", tree / "usr/bin")
        said("dpkg-deb", "-Znone", "--root-owner-group", "-b", tree, where)
        shutil.rmtree(tree)


def test_from_the_first_start_to_the_purge(debian, debs, tmp):
    make_next(debs, tmp / "test/next")
    debian.run("sh", "-c", "dpkg -i /test/*.deb")
    done = debian.run("/test/service", "sh", "-c", "dpkg -i /test/next/*.deb", check=False, timeout=500)
    assert done.returncode == 0 and done.stdout.endswith("---- good\n"), done.stdout + done.stderr


# Each shell starts without a user's files, as Debian's own files set it up.
SHELLS = {"bash": ["bash", "--rcfile", "/usr/share/bash-completion/bash_completion", "-i"],
          "zsh": ["env", "ZDOTDIR=/test/zsh", "zsh", "-i"], "fish": ["fish", "-i"]}


def test_tab_completes_in_each_shell(debian, tmp):
    """Only if "complet" becomes "completion", quredis prints a script."""
    debian.run("sh", "-c", "dpkg -i /test/quredis_*.deb")
    debian.write("/test/zsh/.zshrc", "autoload -Uz compinit && compinit -u\nPS1='ready> '\n")
    for shell, command in SHELLS.items():
        assert shutil.which(shell), f"{shell} is not installed"
        terminal = OnTerminal(debian.inside(*command), env={"PS1": "ready> ", "HOME": "/root"})
        terminal.expect(r"[>#$] ")
        terminal.type("quredis complet\t")
        terminal.expect(r"ion")
        terminal.type("bash\r")
        terminal.expect(r"complete -F _quredis quredis")
        terminal.type("exit\r")
        terminal.end()
