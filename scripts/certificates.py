"""A certificate authority for tests, and certificates of it, made with the openssl command."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """Certificates that are good for two days, in one folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = name
        self._openssl("req", "-x509", *self._new(name), "-days", "2", "-subj", f"/CN={name}")

    @property
    def file(self) -> Path:
        return self._folder / f"{self._name}.pem"

    def issue(self, name: str, *, names: str = "IP:127.0.0.1,DNS:localhost", days: int = 2) -> tuple[Path, Path]:
        """The files of a certificate and its key; with ``days`` below zero it has expired."""
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        self._openssl("req", *self._new(name, request), "-subj", f"/CN={name}")
        certificate = self._folder / f"{name}.pem"
        signer = ("-CA", self.file, "-CAkey", self._folder / f"{self._name}.key", "-CAcreateserial")
        self._openssl(
            "x509", "-req", "-in", request, *signer, "-days", days, "-extfile", extensions, "-out", certificate
        )
        return certificate, self._folder / f"{name}.key"

    def _new(self, name: str, out: Path | None = None) -> tuple[object, ...]:
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*key, "-keyout", self._folder / f"{name}.key", "-out", out or self._folder / f"{name}.pem")

    @staticmethod
    def _openssl(*words: object) -> None:
        ended = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)  # noqa: S607
        assert ended.returncode == 0, ended.stderr
