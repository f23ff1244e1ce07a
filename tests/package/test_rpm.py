"""The RPM spec, built and read by Debian's rpm. What Debian's rpm makes of it is no package, and `make rpm-check` says so and removes it."""
import fcntl
import os
import re
import shutil
import subprocess

import pytest

from harness import BUILD, ROOT, VERSION, wait_for
from package.test_deb import debian, debs, said
from package.test_deb_states import Machine
from tree.test_build import files, make

RPM = BUILD.parent / "rpm"
SPEC = (ROOT / "etc/rpm/quredis.spec").read_text()
PACKAGES = ("quredis", "quredis-web", "quredis-doc")

pytestmark = pytest.mark.limit(900)         # it compiles everything, if nothing has

__all__ = ["debian", "debs"]                # fixtures


@pytest.fixture(scope="module")
def verdict():
    """What make rpm-check says. Processes of pytest run it in turn; all but the first find everything read."""
    if shutil.which("rpmbuild") is None:
        pytest.skip("rpm is not installed")
    ccache = "/usr/lib/ccache:" if os.path.isdir("/usr/lib/ccache") else ""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    with open(BUILD.parent / "rpm.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["make", "-s", "rpm-check", f"BUILD={os.path.relpath(BUILD.parent, ROOT)}"], cwd=ROOT,
                              env={**env, "PATH": ccache + os.environ["PATH"]},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def read(name):
    return (RPM / name).read_text().splitlines()


def listed(package):
    """path -> its flags, of all but directories, what rpm adds for debuggers, and the licence, which has another place on each system."""
    rows = [line.split(" ") for line in read(f"{package}.files")]
    assert {user for _, user, _, _ in rows} == {"root"}
    return {path: flags for mode, _, flags, path in rows if mode[0] != "d" and not path.startswith(("/usr/lib/.build-id/", "/usr/share/licenses/"))}


def least_names(names):
    """Without what Debian and Fedora put around the name of a library."""
    return {re.sub(r"^lib|-dev(el)?$", "", name).replace("ssl", "openssl").replace("openopen", "open") for name in names}


# ---- the spec ----

def test_versions_agree():
    assert re.search(r"^Version: +(\S+)$", SPEC, re.M)[1] == VERSION


def test_build_needs_the_libraries_that_bootstrap_installs():
    debian = re.search(r'^build_packages="(.*)"$', (ROOT / "bootstrap").read_text(), re.M)[1].split()
    ours = re.findall(r"^BuildRequires: +(\S+-devel)\b", SPEC.split("%if ")[0], re.M)
    assert least_names(ours) == least_names(p for p in debian if p.endswith("-dev") and p != "libc6-dev")


# ---- what rpm makes of it ----

def test_on_debian_the_result_is_no_package_and_is_removed(verdict):
    macros = set(re.findall(r"^(%(?:systemd|sysusers)_\w+)", SPEC, re.M))
    assert len(macros) == 4
    assert {m for m in macros if f"rpm-check: the scriptlet {m} is not expanded" in verdict} == macros
    assert re.search(r"it requires the libraries of Debian: .*\blibconfig\.so\.9\b", verdict) or "libconfig.so.11" in verdict
    assert verdict.endswith("The result is no package, and was removed.\n") and not list(RPM.rglob("*.rpm"))
    for package, unit in (("quredis", "quredisd"), ("quredis-web", "quredis-web")):
        lines = [re.sub(r" quredisd@.*", "", line) for line in read(f"{package}.scripts")]
        assert {f"%systemd_{s} {unit}.service" for s in ("post", "preun", "postun_with_restart")} <= set(lines)


def test_files_are_what_make_install_installs(verdict, tmp):
    make("install", f"DESTDIR={tmp}/root", "prefix=/usr")
    more = {"/usr/lib/systemd/system/quredisd.service.d/own-user.conf", "/usr/lib/sysusers.d/quredis.conf"}
    installed = {f"/{path}" for path in files(tmp / "root")} - {"/usr/share/doc/quredis/LICENSE"}
    found = [path.removesuffix(".gz") for package in PACKAGES for path in listed(package)]
    assert len(found) == len(set(found)) and set(found) == installed | more, verdict


def of_debian(deb):
    """The same files as in an RPM, from where Debian puts them."""
    paths = [line.split()[5][1:] for line in said("dpkg-deb", "-c", deb).splitlines() if line[0] == "-"]
    own = re.compile(r"/usr/share/(?:lintian/|doc/[\w-]+/(?:changelog|copyright))")
    moved = ((r"^/lib/", "/usr/lib/"), (r"/zsh/vendor-completions/", "/zsh/site-functions/"), (r"^(/usr/share/doc/quredis)/examples/", r"\1/etc/"),
             (r"\.gz$", ""))
    for old, new in moved:
        paths = [re.sub(old, new, path) for path in paths if not own.match(path)]
    return set(paths)


def test_each_package_has_the_files_of_debians_package(verdict, debs):
    for package in PACKAGES:
        assert {p.removesuffix(".gz") for p in listed(package)} == of_debian(debs[package]), verdict


def test_configuration_of_an_administrator_stays(verdict):
    assert {path: flags for path, flags in listed("quredis").items() if "c" in flags} == {"/etc/quredis/quredis.conf": "cn"}, verdict


def test_no_interpreter_is_required(verdict):
    """A queue with a function needs the one of its language."""
    needed = {line.split(" ")[0] for package in PACKAGES for line in read(f"{package}.requires")}
    others = {n for n in needed if not re.match(r"lib.*\.so\.|rpmlib\(|rtld\(|config\(", n)}
    assert others == {"/bin/sh", "quredis"}, verdict


# Debian's rpm does not expand the macros of systemd. These are their commands on the systems of the spec, as far as the systemd of Debian has them.
RESTART = "for unit in {}; do systemctl set-property \"$unit\" Markers=+needs-restart; done; systemctl reload-or-restart --marked"
MACROS = {"systemd_preun": (0, "systemctl --no-reload disable --now {}"), "systemd_postun_with_restart": (1, RESTART)}


def scriptlet(package, name, packages_left):
    """Its text as a script of the shell: $1 is how many packages of that name are left."""
    text = "\n".join(read(f"{package}.scripts"))
    body = re.search(rf"^{name} scriptlet \(using /bin/sh\):\n(.*?)(?=^\w+ scriptlet |\Z)", text, re.M | re.S)[1]
    for macro, (left, command) in MACROS.items():
        body = re.sub(rf"^%{macro} (.*)$", lambda m, on=left, run=command: f"[ {int(packages_left > 0)} -ne {on} ] || {{ {run.format(m[1])}; }} || :", body,
                      flags=re.M)
    assert "%" not in body, body
    return f"set -- {packages_left}\n{body}"


def test_scriptlets_restart_and_stop_each_instance_that_runs(verdict, debian):
    """In a booted Debian with the packages of Debian, whose units are the same."""
    m = Machine(debian)
    m.install("quredis")
    m.add("second", "stopped")
    m.sh("systemctl stop quredisd@stopped")
    units = ("quredisd", "quredisd@second", "quredisd@stopped")
    before = m.pids(*units)
    m.sh(scriptlet("quredis", "postuninstall", 1))
    wait_for(lambda: m.pid("quredisd") not in (0, before["quredisd"]) and m.pid("quredisd@second") not in (0, before["quredisd@second"]), 60, "the restarts")
    assert m.pid("quredisd@stopped") == 0
    after = m.pids(*units)
    m.sh(scriptlet("quredis", "preuninstall", 1))
    assert m.pids(*units) == after, "an upgrade is no removal"
    m.sh(scriptlet("quredis", "preuninstall", 0))
    assert m.pids(*units) == dict.fromkeys(units, 0)
    assert m.sh("find /etc/systemd/system -name 'quredisd*'").stdout == ""
