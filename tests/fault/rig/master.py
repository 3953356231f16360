"""A master as a process of its own, which can be killed and started again at its address."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self


class Master:
    """``skitter serve`` on a store. A context manager."""

    def __init__(self, folder: Path, frontier: str, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._command = ["serve", "--frontier", frontier, "--bind", f"127.0.0.1:{self.port}", *options]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self._folder / "master.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "skitter", *self._command], cwd=self._folder, stderr=log, env=os.environ
            )
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.url}/healthz", timeout=2).close()
                return
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def log(self) -> str:
        return (self._folder / "master.log").read_text()
