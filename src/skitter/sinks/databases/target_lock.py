"""One process of this machine for a job and a target. The frontier keeps other machines away."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from skitter import private_files
from skitter.errors import SinkError
from skitter.sinks.durable_files import mapped


class MachineLock:
    """A lock that goes with its process, however that ends."""

    def __init__(self, job: str, target: str) -> None:
        self._job, self._target = job, target
        self._file: BinaryIO | None = None

    def take(self) -> None:
        """SinkError: another process has it."""
        if self._file is not None:
            return
        name = hashlib.blake2b(f"{self._job}\0{self._target}".encode(), digest_size=16).hexdigest()
        folder = Path(tempfile.gettempdir()) / f"skitter-locks-{os.getuid()}"
        with mapped(self._target):
            private_files.make_own_folder(folder)  # the folder around it is everybody's
            file = (folder / name).open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise SinkError(
                f"another process on this machine delivers to this target: {self._target}",
                hint="wait until it ends, or give another target with -o",
            ) from error
        self._file = file

    def let_go(self) -> None:
        # The file stays: one that is removed can be locked by two at once.
        if self._file is not None:
            self._file.close()
            self._file = None
