"""A supervisor whose configuration is reached through a link: each change is a deploy that moves the link and deletes the release before."""
import os
import shutil

from harness import Quredisd, reach, render


class Host(Quredisd):
    started = False         # it is started again when it has ended

    def start(self, wait=True):
        self.started = True
        return super().start(wait)

    def ended_itself(self):
        """Whether it has ended, and nobody has waited for that yet."""
        return self._process is not None and not self.running()

    def write_conf(self, **changes):
        self.sections.update(changes)
        before = self.dir / "current"
        number = int(os.readlink(before).removeprefix("release")) + 1 if before.is_symlink() else 1
        release = self.dir / f"release{number}"
        release.mkdir()
        self.conf = before / "quredis.conf"
        (release / "quredis.conf").write_text(render(reach.configured(self.sections)) + self.extra)
        (release / "quredis.conf").chmod(0o644)
        link = self.dir / "next"
        link.symlink_to(release.name)
        os.rename(link, before)
        shutil.rmtree(self.dir / f"release{number - 1}", ignore_errors=True)
