"""A redis-server that writes everything to disk, and keeps its port through all its lives."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest


class Durable:
    """A redis-server with ``appendfsync always``."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._folder = folder
        folder.mkdir()
        self.start()

    def start(self) -> None:
        program = shutil.which("redis-server")
        assert program is not None
        settings = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
        command = [program, *settings, "--appendfsync", "always", "--dir", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.01)
            else:
                return
        pytest.fail("redis-server did not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
