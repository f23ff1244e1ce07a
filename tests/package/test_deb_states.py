"""What an upgrade, a removal and a purge of Debian's packages do to a system that is not as the package left it."""
import pytest

from harness import wait_for
from package.test_deb import debian, debs

pytestmark = pytest.mark.limit(600)         # the first one builds the packages, if nothing has

__all__ = ["debian", "debs"]                # fixtures

INSTANCE = """redis = {{ prefix = "{0}:"; }};
supervisor = {{ user = "quredis"; lock_file = "/run/quredis-{0}/quredisd.lock"; control_socket = "/run/quredis-{0}/control.sock"; }};
defaults = {{ run_as = {{ user = "quredis-handler"; }}; }};
"""
CONF = "/etc/quredis/quredis.conf"


class Machine:
    def __init__(self, booted):
        self.booted = booted

    def sh(self, script, check=True):
        return self.booted.run("env", "DEBIAN_FRONTEND=noninteractive", "sh", "-euc", script, check=check)

    def pid(self, unit):
        """0 if it does not run."""
        return int(self.sh(f"systemctl show {unit} -p MainPID --value").stdout)

    def pids(self, *units):
        return {unit: self.pid(unit) for unit in units}

    def add(self, *names):
        for name in names:
            self.booted.write(f"/etc/quredis/{name}.conf", INSTANCE.format(name))
            self.sh(f"systemctl enable --quiet --now quredisd@{name}")

    def install(self, *packages):
        """dpkg installs the version that is there as it installs the next one."""
        return self.sh(" ".join(["dpkg -i", *[f"/test/{p}_*.deb" for p in packages]])).stderr


@pytest.fixture
def machine(debian):
    m = Machine(debian)
    m.install("quredis", "quredis-web")
    assert m.pid("quredisd") != 0
    return m


def test_an_upgrade_restarts_what_runs_and_ends_nothing_that_would_not_start_again(machine):
    m = machine
    m.add("sound", "edited")
    m.sh("systemctl start quredis-web; echo '# mine' >>/etc/quredis/quredis.conf; echo nonsense >>/etc/quredis/edited.conf")
    units = ("quredisd", "quredisd@sound", "quredisd@edited", "quredis-web")
    before = m.pids(*units)
    assert 0 not in before.values()
    said = m.install("quredis")
    after = m.pids(*units)
    assert {unit: after[unit] == before[unit] for unit in units} == {unit: unit == "quredisd@edited" for unit in units}, said
    assert 0 not in after.values()
    assert "quredisd@edited.service is not restarted, since the new version would not start:\n" in said and "/etc/quredis/edited.conf:" in said
    assert said.count("is not restarted") == 1 and "run: systemctl restart quredisd@edited.service" in said
    assert m.sh(f"tail -n 1 {CONF}").stdout == "# mine\n"

    m.sh(f"systemctl stop quredisd@sound; echo nonsense >>{CONF}")
    before = m.pids(*units)
    said = m.install("quredis")
    assert m.pids(*units) == before and before["quredisd@sound"] == 0 and before["quredisd"] != 0, said
    assert said.count("is not restarted") == 3


def test_an_upgrade_starts_nothing_that_an_administrator_has_stopped_or_masked(machine):
    m = machine
    m.add("sound", "masked")
    m.sh("systemctl stop quredisd; systemctl mask --quiet quredisd@masked")
    before = m.pids("quredisd@sound", "quredisd@masked")
    m.install("quredis", "quredis-web")
    after = m.pids("quredisd@sound", "quredisd@masked", "quredisd", "quredis-web")
    assert after["quredisd"] == 0 == after["quredis-web"]
    assert after["quredisd@sound"] not in (0, before["quredisd@sound"]) and after["quredisd@masked"] == before["quredisd@masked"] != 0
    assert m.sh("systemctl is-enabled quredisd").stdout == "enabled\n"

    m.sh("dpkg --remove quredis-web quredis")
    assert m.sh("pgrep -x quredisd", check=False).returncode == 1
    m.install("quredis")
    assert m.pid("quredisd") != 0 and m.sh("ls /run").stdout.count("quredis.install") == 0
    m.sh("systemctl disable --quiet --now quredisd")
    m.install("quredis")
    assert m.pid("quredisd") == 0


def test_a_purge_leaves_data_mounts_and_what_is_not_of_the_package(machine):
    m = machine
    m.add("mounted", "below")
    m.sh("""systemctl stop quredisd 'quredisd@*'
        runuser -u quredis -- ln -s /etc/quredis /var/lib/quredis/link
        systemctl start quredisd
        [ "$(stat -Lc %U /var/lib/quredis/link)" = root ]
        systemctl stop quredisd
        mv /var/lib/quredis /srv/data && ln -s /srv/data /var/lib/quredis && systemctl start quredisd
        mount -t tmpfs none /var/lib/quredis-mounted && touch /var/lib/quredis-mounted/data
        mount -t tmpfs none /run/quredis-mounted && touch /run/quredis-mounted/mine
        mkdir /srv/mine /run/quredis-below/bound && touch /srv/mine/mine && mount --bind /srv/mine /run/quredis-below/bound
        touch /etc/target && ln -s /etc/target /run/quredis-below/link
        mkdir /run/quredis-exporter /var/lib/quredis-exporter && touch /run/quredis-exporter/theirs""")
    m.sh("dpkg --purge quredis-web quredis")
    left = m.sh("ls -d /run/quredis* /var/lib/quredis* /srv/data/* /run/quredis-*/* /var/lib/quredis-*/* /run/quredis-below/bound/* /etc/target").stdout.split()
    assert sorted(left) == sorted(
        ["/run/quredis-below", "/run/quredis-below/bound", "/run/quredis-below/bound/mine", "/run/quredis-exporter", "/run/quredis-exporter/theirs",
         "/run/quredis-mounted", "/run/quredis-mounted/mine", "/var/lib/quredis", "/srv/data/link", "/var/lib/quredis-exporter",
         "/var/lib/quredis-mounted", "/var/lib/quredis-mounted/data", "/etc/target"])
    wait_for(lambda: m.sh("pgrep -x quredisd", check=False).returncode == 1)
    assert m.sh("find /etc/systemd -name '*quredis*'").stdout == ""
