"""Certificates of a test: a CA of its own, and what it signs, made with the openssl command."""
import datetime
import pathlib
import subprocess


def _openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, timeout=60, stdin=subprocess.DEVNULL, capture_output=True)


class Certificate:
    """cert and key: files in PEM, mode 0600."""

    def __init__(self, stem):
        self.cert, self.key = stem.with_suffix(".pem"), stem.with_suffix(".key")


class Authority(Certificate):
    """A CA. `cert` is what others must trust; directory() is the same as a directory with hashed names."""

    def __init__(self, directory, name="test"):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        super().__init__(self.dir / f"{name}-ca")
        self.name, self._serial = name, 0
        _openssl("req", "-x509", *_NEW_KEY, "-keyout", self.key, "-out", self.cert, "-days", "90", "-subj", f"/CN={name} CA",
                 "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        self.key.chmod(0o600)

    def sign(self, name, *names, ago_days=0, days=60):
        """A certificate for these names: "DNS:localhost", "IP:127.0.0.1". ago_days: it began so long ago, and holds for `days`."""
        self._serial += 1
        made = Certificate(self.dir / name)
        request, extensions = made.cert.with_suffix(".csr"), made.cert.with_suffix(".ext")
        extensions.write_text("basicConstraints=CA:FALSE\n" + (f"subjectAltName={','.join(names)}\n" if names else ""))
        _openssl("req", *_NEW_KEY, "-keyout", made.key, "-out", request, "-subj", f"/CN={name}")
        begin = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=ago_days, hours=1)
        self._issue(request, made.cert, extensions, begin, begin + datetime.timedelta(days=days))
        made.key.chmod(0o600)
        return made

    def _issue(self, request, cert, extensions, begin, end):
        """`openssl ca`, since `openssl x509` of Debian 12 cannot set the dates."""
        database = self.dir / "index.txt"
        database.write_text("")
        (self.dir / "ca.conf").write_text(
            f"[ca]\ndefault_ca=x\n[x]\ndatabase={database}\nnew_certs_dir={self.dir}\ndefault_md=sha256\npolicy=any\nrand_serial=yes\n"
            f"unique_subject=no\n[any]\ncommonName=supplied\n")
        dates = [f"{t:%Y%m%d%H%M%SZ}" for t in (begin, end)]
        _openssl("ca", "-batch", "-notext", "-config", self.dir / "ca.conf", "-cert", self.cert, "-keyfile", self.key, "-in", request, "-out", cert,
                 "-extfile", extensions, "-startdate", dates[0], "-enddate", dates[1])

    def directory(self):
        path = self.dir / f"{self.name}-hashed"
        path.mkdir(exist_ok=True)
        (path / "ca.pem").write_bytes(self.cert.read_bytes())
        _openssl("rehash", path)
        return path


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
