"""The image of Containerfile without a container program: the root of its last stage, and containers that run it.

    image = Image(directory)                        # the root; says by NotHere why it cannot be made on this machine
    c = Started(image, log, inside=net.enter, mounts=[...], env={...}, command=None)
    c.pid, c.root / "run/quredis", c.run("quredis", "status"), c.stop()

The base image is what every Debian has: the essential packages. These and the packages that the last stage installs, with all that they depend on, are copied
from this machine. The other commands of the stage run in the root. An instruction that is not known here is an error, so the file says all there is.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess

from . import processes
from .containers import unshared
from .paths import BUILD, ROOT
from .waiting import wait_for

FILE = ROOT / "Containerfile"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# what a runtime gives each container
DEVICES = ("null", "zero", "full", "random", "urandom")
# of no use to a program, and most of the files
NOT_COPIED = re.compile(r"/usr/share/(?:doc|man|info|locale|lintian|bug|zoneinfo|i18n)/|/usr/lib/[^/]+/gconv/")


class NotHere(Exception):
    """Why the root cannot be made on this machine."""


# ---- the file ----

class Stage:
    """The instructions of one stage, in their order, each a word and the rest of its line."""

    def __init__(self, base, instructions):
        self.base, self.instructions = base, instructions

    def all(self, word):
        return [rest for w, rest in self.instructions if w == word]

    def one(self, word):
        (rest,) = self.all(word)
        return rest

    def commands(self):
        """Of all its RUN."""
        return [c.strip() for run in self.all("RUN") for c in run.split(" && ")]

    def packages(self):
        """Those that it installs."""
        (install,) = [c for c in self.commands() if c.startswith("apt-get install ")]
        return [w for w in install.split()[2:] if not w.startswith("-")]


def stages(text):
    """Of a Containerfile. ARG values stand for their names."""
    joined = re.sub(r"\s*\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.M))
    arguments, found = {}, []
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, rest = line.split(None, 1)
        rest = re.sub(r"\$\{(\w+)\}", lambda m: arguments[m[1]], rest)
        if word == "ARG":
            arguments.update([rest.split("=", 1)])
        elif word == "FROM":
            found.append(Stage(rest.split()[0], []))
        else:
            found[-1].instructions.append((word, rest))
    return found


# ---- packages of this machine ----

def _installed():
    """(Package -> names of all that it needs, essential packages, name -> package that is it or provides it)."""
    needs, essential, provider = {}, [], {}
    form = "${binary:Package}\t${Package}\t${Essential}\t${Provides}\t${Pre-Depends}, ${Depends}\t${db:Status-Status}\n"
    for line in subprocess.check_output(["dpkg-query", "-W", "-f", form], text=True).splitlines():
        package, name, is_essential, provides, depends, status = line.split("\t")
        if status != "installed":
            continue
        provider[name] = package
        for other in re.findall(r"[^\s,()=]+(?= ?\(|,|$)", provides):
            provider.setdefault(other, package)
        needs[package] = [[re.split(r"[ :(]", a.strip())[0] for a in group.split("|")] for group in depends.split(",") if group.strip()]
        essential += [package] if is_essential == "yes" else []
    return needs, essential, provider


def with_needs(packages):
    """These and the essential packages, with all that they need."""
    needs, essential, provider = _installed()
    missing = [p for p in packages if p not in provider]
    if missing:
        raise NotHere(f"not installed here: {' '.join(missing)}")
    found, waiting = set(), essential + [provider[p] for p in packages]
    while waiting:
        package = waiting.pop()
        if package not in found:
            found.add(package)
            waiting += [p for group in needs[package] for p in [next((provider[a] for a in group if a in provider), None)] if p]
    return sorted(found)


def owners(paths):
    """The packages that have these files, which are known by their names before or after the merge of /usr."""
    names = [name for path in map(os.path.realpath, paths) for name in (path, path.removeprefix("/usr"))]
    done = subprocess.run(["dpkg", "-S", *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=100)
    return {line.split(":")[0] for line in done.stdout.splitlines()}


def copy_packages(packages, root):
    """Their files, as they are here."""
    listed = subprocess.check_output(["dpkg", "-L", *packages], text=True).splitlines()
    named = {os.path.join(os.path.realpath(os.path.dirname(p)), os.path.basename(p)) for p in listed if p.startswith("/") and p != "/."}
    there = sorted(p[1:] for p in named if os.path.lexists(p) and not NOT_COPIED.match(p))
    subprocess.run(f"tar -C / -c --no-recursion --null -T - | tar -C {shlex.quote(str(root))} -x", shell=True, check=True,
                   input="\0".join(there).encode(), timeout=300)


# ---- the root ----

class Image:
    """directory/root is the root of the last stage."""

    def __init__(self, directory, text=None):
        self.build, self.last = stages(FILE.read_text() if text is None else text)
        release = re.search(r"^VERSION_CODENAME=(\S+)", pathlib.Path("/etc/os-release").read_text(), re.M)
        if not release or release[1] not in self.last.base:
            raise NotHere(f"{self.last.base} is another release than this machine's")
        self.root, self.installed = directory / "root", directory / "image"
        self.root.mkdir()
        self._copy_base()
        self._install()
        self.user = self.last.one("USER").split(":")
        self.entrypoint = json.loads(self.last.one("ENTRYPOINT"))

    def _copy_base(self):
        for name in ("proc", "dev", "sys", "run", "tmp", "etc"):
            (self.root / name).mkdir()
        copy_packages(with_needs(self.last.packages()), self.root)
        for name in ("passwd", "group"):            # base-passwd makes them of its own at its installation
            (self.root / "etc" / name).write_bytes((self.root / f"usr/share/base-passwd/{name}.master").read_bytes())
        (self.root / "etc/nsswitch.conf").write_bytes((self.root / "usr/share/libc-bin/nsswitch.conf").read_bytes())
        (self.root / "etc/hosts").touch()           # a runtime mounts its own there
        (self.root / "tmp").chmod(0o1777)
        subprocess.run(["chroot", self.root, "/sbin/ldconfig"], check=True, timeout=60)

    def _install(self):
        """What the first stage makes is the build under test."""
        (install,) = [c for c in self.build.commands() if c.startswith("make install ")]
        asis = [f"--old-file={BUILD}/{p}" for p in ("quredisd", "quredis")]
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        done = subprocess.run([*install.replace("DESTDIR=/image", f"DESTDIR={self.installed}").split(), f"BUILD={BUILD.parent}",
                               *asis], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        assert done.returncode == 0, done.stdout
        for word, rest in self.last.instructions:
            {"COPY": self._copy, "RUN": self._run}.get(word, lambda rest: None)(rest)
        assert {w for w, _ in self.last.instructions} <= {"COPY", "RUN", "VOLUME", "USER", "STOPSIGNAL", "ENTRYPOINT"}, self.last.instructions

    def _copy(self, rest):
        """COPY --from=build /image/DIRECTORY/ /DIRECTORY/"""
        source, target = re.fullmatch(r"--from=build /image(/\S+/) (/\S+/)", rest).groups()
        (self.root / target.strip("/")).mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", f"{self.installed}{source}.", f"{self.root}{target}"], check=True, timeout=60)

    def _run(self, rest):
        for command in rest.split(" && "):
            if not command.strip().startswith("apt-get "):
                subprocess.run(["chroot", self.root, "sh", "-c", command], check=True, timeout=60)


# ---- a container ----

class Started:
    """A process on the image's root, which is read-only, in namespaces of its own.

    inside: what its command begins with. mounts: pairs of a directory of the root and what makes it, a shell command in which $at is the directory.
    hosts: text of /etc/hosts. command: in place of the entrypoint.
    """

    def __init__(self, image, log, *, inside=(), mounts=(), hosts="127.0.0.1 localhost\n", env=None, hostname="quredis", command=None, tag=""):
        self.image, self.log, self._env = image, log, env or {}
        log.with_suffix(".hosts").write_text(hosts)
        for at, _ in mounts:                        # a runtime makes what it mounts on
            (image.root / at.strip("/")).mkdir(parents=True, exist_ok=True)
        uid, gid = image.user
        with open(log, "ab") as out:
            self._process = subprocess.Popen(
                [*processes.WITH_US, *inside, *unshared(self._script(mounts, hostname), "--mount", "--pid", "--ipc", "--uts", "--fork"),
                 "chroot", image.root, "setpriv", "--pdeathsig=KILL", f"--reuid={uid}", f"--regid={gid}", f"--groups={gid}", "--no-new-privs",
                 "--bounding-set=-all", *self._clean(QUREDIS_TEST_TAG=tag), *(command or image.entrypoint)], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self._pid = None

    def _script(self, mounts, hostname):
        root = shlex.quote(str(self.image.root))
        devices = "".join(f": >dev/{d} && mount --bind /dev/{d} dev/{d} && " for d in DEVICES)
        volumes = "".join(f"at={root}{shlex.quote(at)} && {how} && " for at, how in mounts)
        return (f"mount --bind {root} {root} && mount -o remount,bind,ro {root} && cd {root} && mount -t proc none proc && "
                f"mount -t tmpfs -o mode=755 none dev && {devices}{volumes}"
                f"mount --bind {shlex.quote(str(self.log.with_suffix('.hosts')))} etc/hosts && hostname {hostname}")

    def _clean(self, **more):
        return ["/usr/bin/env", "-i", f"PATH={PATH}", *(f"{k}={v}" for k, v in {**self._env, **more}.items())]

    @property
    def pid(self):
        """Of its first process."""
        self._pid = self._pid or wait_for(self._first, 20, self.text)
        return self._pid

    @property
    def root(self):
        """Its files, as it sees them, while it runs."""
        return pathlib.Path(f"/proc/{self.pid}/root")

    def _first(self):
        """The first process of its namespace, once it is the program."""
        assert self._process.poll() is None, self.text()
        pid = next(iter(processes.children_of(self._process.pid)), None)
        return pid if pid and processes.name_of(pid) in ("quredisd", "quredis") else None

    def text(self):
        return self.log.read_text(errors="replace")

    def run(self, *command):
        """As the runtime executes a probe: a user, an environment and a root as the first process has."""
        uid, gid = self.image.user
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--ipc", "--uts", "--net", "--root", "--wd", f"--setuid={uid}", f"--setgid={gid}"]
        return subprocess.run([*enter, "--", *self._clean(), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=60)

    def signal(self, sig):
        os.kill(self.pid, sig)

    def ended(self):
        return self._process.poll() is not None

    def wait_exit(self, timeout=60):
        """The exit status: unshare ends as its child did."""
        return self._process.wait(timeout)

    def close(self):
        if self._process.poll() is None:
            self._process.kill()                    # and, by --pdeathsig, the first process of its namespace with all in it
            self._process.wait(20)
