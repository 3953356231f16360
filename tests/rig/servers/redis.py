"""One redis-server that a test or a bench may kill, stop, restart and misconfigure; scripts/services starts the others.

Needs nothing but Python and the program.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rig.servers.own_server import OwnServer

SERVER_VARIABLE = "TEST_REDIS_SERVER"
IN_MEMORY = ("--save", "", "--appendonly", "no")
DURABLE = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


class OwnRedis(OwnServer):
    """A redis-server, valkey-server or sentinel."""

    service = "redis"
    accounts = ()
    starts_again = False
    """One that has wrong settings says so at once."""

    def __init__(self, folder: Path, *settings: str, config: str = "", program: str = "") -> None:
        """``config``: a file of its own, which a sentinel writes into. ``program``: another one than of the PATH."""
        self.settings = list(settings)
        self._config, self._program = config, program
        super().__init__(folder=folder)

    def prepare(self) -> None:
        if self._config:
            (self.folder / "own.conf").write_text(self._config)
            self.settings.insert(0, str(self.folder / "own.conf"))

    def command(self) -> list[str]:
        program = self._program or os.environ.get(SERVER_VARIABLE) or shutil.which("redis-server")
        assert program is not None, "redis-server is not on the PATH"
        own = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        return [program, *self.settings, *own]

    def answers(self) -> bool:
        return self.say("PING") is not None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

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
