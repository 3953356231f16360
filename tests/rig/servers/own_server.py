"""What servers that a test starts, kills, pauses and starts again have in common: a process, a port, a folder.

A server keeps its port and its folder through all its lives. Needs nothing but Python and the programs, which
``scripts/services`` installs.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

START_SECONDS = 60.0


class OwnServer:
    """One server in a folder of its own, on a free port."""

    service: ClassVar[str] = ""
    """What ``scripts/services`` calls it."""
    accounts: ClassVar[tuple[str, ...]] = ("nobody",)
    """Whom it runs as when root starts it: the servers of databases refuse root."""
    starts_again: ClassVar[bool] = True
    """Whether one that ends while it starts is started again: what it was before may still hold its port or memory."""

    def __init__(self, certificate: tuple[Path, Path] | None = None, folder: Path | None = None) -> None:
        """``certificate``: it speaks TLS, with the files of a certificate and its key."""
        # Not in a folder of pytest: that is closed to every other account.
        self.folder = (folder or Path(tempfile.mkdtemp(prefix="skitter-server-"))).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._account = self._other_account()
        if self._account:
            shutil.chown(self.folder, self._account)
        self._certificate = [self._own_copy(file) for file in certificate or ()]
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.remove()
            raise

    def prepare(self) -> None:
        """Make its files."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it takes connections; may raise OSError."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """Of a database that is there; a target has ``#table`` behind it."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *more: str) -> None:
        """Start it, for the first time or again; ``more`` are words of the command in this life only."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self._process = self._spawn([*self.command(), *more])
            while self._process.poll() is None and time.monotonic() < deadline:
                with contextlib.suppress(OSError):
                    if self.answers():
                        return
                time.sleep(0.01)
            if not self.starts_again:
                break
            time.sleep(0.1)
        self.kill()
        raise OSError(f"{type(self).__name__} is not up: {self._log_end()}")

    def kill(self) -> None:
        """kill -9 of all its processes."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def freeze(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words: str) -> None:
        """A program that makes its files."""
        done = self._spawn(list(words))
        if done.wait(START_SECONDS * 4) != 0:
            raise OSError(f"{words[0]}: {self._log_end()}")

    def _log_end(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-500:]

    def _spawn(self, words: list[str]) -> subprocess.Popen[bytes]:
        options: dict[str, Any] = {}
        if self._account:
            account = pwd.getpwnam(self._account)
            options = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                words,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "HOME": str(self.folder), "LC_ALL": "C"},
                **options,
            )

    def _other_account(self) -> str:
        if os.geteuid() != 0:
            return ""
        for account in self.accounts:
            with contextlib.suppress(KeyError):
                return pwd.getpwnam(account).pw_name
        return ""

    def _own_copy(self, file: Path) -> Path:
        """A file that only its account may read."""
        copy = Path(shutil.copy(file, self.folder))
        copy.chmod(0o600)
        if self._account:
            shutil.chown(copy, self._account)
        return copy

    def _connection(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=2)


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


def built_program(name: str, version: str) -> Path:
    """Where ``scripts/services`` keeps what it has built."""
    return Path(tempfile.gettempdir()) / f"skitter-{name}-{version}-{os.getuid()}" / name
