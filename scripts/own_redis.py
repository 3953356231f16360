"""One redis-server that a test or a bench may kill, stop, restart and misconfigure; scripts/services starts the others.

It keeps its port and its folder through all its lives. Needs nothing but Python and the program.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SERVER_VARIABLE = "TEST_REDIS_SERVER"
START_SECONDS = 20.0
IN_MEMORY = ("--save", "", "--appendonly", "no")
DURABLE = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


class OwnRedis:
    """A redis-server on a port of its own."""

    def __init__(self, folder: Path, *settings: str, config: str = "") -> None:
        """``config``: a file of its own, which a sentinel writes into."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.settings = list(settings)
        if config:
            (folder / "own.conf").write_text(config)
            self.settings.insert(0, str(folder / "own.conf"))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *more: str) -> None:
        """Another life; ``more`` are settings for this one only."""
        program = os.environ.get(SERVER_VARIABLE) or shutil.which("redis-server")
        assert program is not None, "redis-server is not on the PATH"
        own = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        words = [program, *self.settings, *own, *more]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()[-500:]
            assert time.monotonic() < deadline, "redis-server is not up"
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            return self.say("PING") is not None
        except OSError:
            return False

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def say(self, *words: object) -> Any:
        """One command and its answer: text, a number, a list or None. An error is text that begins with a dash."""
        with self.session() as say:
            return say(*words)

    @contextlib.contextmanager
    def session(self, seconds: float = 10.0) -> Iterator[Callable[..., Any]]:
        """Commands on one connection, which is there already when the server takes no more of them."""
        with (
            socket.create_connection(("127.0.0.1", self.port), seconds) as connection,
            connection.makefile("rb") as answers,
        ):

            def say(*words: object) -> Any:
                connection.sendall(_pack(words))
                return _read(answers)

            yield say


def _pack(words: Sequence[object]) -> bytes:
    packed = b"*%d\r\n" % len(words)
    for word in words:
        text = str(word).encode()
        packed += b"$%d\r\n%b\r\n" % (len(text), text)
    return packed


def _read(answers: Any) -> Any:
    line = answers.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionResetError("cut off")
    kind, text = line[:1], line[1:-2].decode()
    if kind == b":":
        return int(text)
    if kind == b"$":
        return answers.read(int(text) + 2)[:-2].decode(errors="replace") if int(text) >= 0 else None
    if kind == b"*":
        return [_read(answers) for _ in range(int(text))]
    return text if kind == b"+" else f"-{text}"


def free_port() -> int:
    """Below 55536 and so with room for the bus port of a cluster node, which is 10000 higher."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        with contextlib.suppress(OSError), socket.socket() as bus:
            if port <= 55535:
                bus.bind(("127.0.0.1", port + 10_000))
                return port
