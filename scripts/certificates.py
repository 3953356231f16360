"""A certificate authority for tests, and certificates of it, made with the openssl command."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

_DATE = "%Y%m%d%H%M%SZ"
_SETTINGS = """
[ca]
default_ca = own
[own]
database = {index}
new_certs_dir = {folder}
default_md = sha256
policy = any
unique_subject = no
rand_serial = yes
[any]
commonName = supplied
"""


class Authority:
    """Certificates that are good for two days, in one folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = name
        usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
        self._openssl("req", "-x509", *self._new(name), *usage, "-days", "2", "-subj", f"/CN={name}")
        self._settings = folder / f"{name}.cnf"
        index = folder / f"{name}.index"
        index.touch()
        self._settings.write_text(_SETTINGS.format(index=index, folder=folder))

    @property
    def file(self) -> Path:
        return self._folder / f"{self._name}.pem"

    def issue(self, name: str, *, names: str = "IP:127.0.0.1,DNS:localhost", days: int = 2) -> tuple[Path, Path]:
        """The files of a certificate and its key; with ``days`` below zero it has expired."""
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        # Python 3.13 and later refuse a certificate that does not say which key has signed it.
        extensions.write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n")
        self._openssl("req", *self._new(name, request), "-subj", f"/CN={name}")
        certificate = self._folder / f"{name}.pem"
        # ``openssl x509`` of 3.4 and later makes no certificate that ends before today; ``openssl ca`` takes any dates.
        end = datetime.now(UTC) + timedelta(days=days)
        period = ("-startdate", f"{end - timedelta(days=4):{_DATE}}", "-enddate", f"{end:{_DATE}}")
        signer = ("-cert", self.file, "-keyfile", self._folder / f"{self._name}.key", "-config", self._settings)
        files = ("-in", request, "-extfile", extensions, "-out", certificate)
        self._openssl("ca", "-batch", "-notext", *signer, *period, *files)
        return certificate, self._folder / f"{name}.key"

    def _new(self, name: str, out: Path | None = None) -> tuple[object, ...]:
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*key, "-keyout", self._folder / f"{name}.key", "-out", out or self._folder / f"{name}.pem")

    @staticmethod
    def _openssl(*words: object) -> None:
        ended = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)  # noqa: S607
        assert ended.returncode == 0, ended.stderr
