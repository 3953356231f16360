"""A master as a process of its own, which can be killed and started again at its address."""

from __future__ import annotations

import contextlib
import socket
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from rig.processes import HANG_SECONDS, CommandLine, wait_until
from rig.restarted_command import RestartedCommand


class Master(RestartedCommand):
    """``skitter serve`` on a store. A context manager."""

    def __init__(self, folder: Path, frontier: str, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        place = ("--frontier", frontier, "--bind", f"127.0.0.1:{self.port}")
        super().__init__(CommandLine(folder), "serve", *place, *options, name="master")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and wait until it listens."""
        super().start()
        wait_until(self._answers, self.process, "the master listens")

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{self.url}/healthz", timeout=HANG_SECONDS).close()
            return True
        return False
