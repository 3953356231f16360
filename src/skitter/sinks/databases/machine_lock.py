"""A lock that lets one process of this machine write a job's target; the frontier excludes other machines."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from skitter import private_files
from skitter.errors import SinkError
from skitter.sinks.durable_files import sink_errors


class MachineLock:
    """A lock that ends with its process."""

    def __init__(self, job: str, target: str) -> None:
        self._job, self._target = job, target
        self._file: BinaryIO | None = None

    def take(self) -> None:
        """Take the lock; SinkError if another process has it."""
        if self._file is not None:
            return
        name = hashlib.blake2b(f"{self._job}\0{self._target}".encode(), digest_size=16).hexdigest()
        folder = Path(tempfile.gettempdir()) / f"skitter-locks-{os.getuid()}"
        with sink_errors(self._target):
            private_files.make_own_folder(folder)  # the folder around it is everybody's
            file = (folder / name).open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise SinkError(
                f"another process on this machine is writing to this output: {self._target}",
                hint="wait until it ends, or choose another output with -o",
            ) from error
        self._file = file

    def release(self) -> None:
        # The file stays: one that is removed can be locked by two at once.
        if self._file is not None:
            self._file.close()
            self._file = None
