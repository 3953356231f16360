"""Servers from ``scripts/services`` for tests that do not kill them: each is started when it is first asked for.

Slow ones are started once for a run, however many processes of pytest it has: tests use names of their own there.
Redis, which tests empty, is started by each process.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "services"


class Services:
    """Servers of this process, and those of the whole run."""

    def __init__(self, shared: Path | None = None) -> None:
        """``shared``: a folder of the run in which its processes tell each other what is up; None shares nothing."""
        self._shared = shared
        self._told: dict[str, dict[str, Any]] = {}
        self._installed: dict[str, dict[str, Any]] = {}
        self._started: list[subprocess.Popen[str]] = []

    def need(self, name: str) -> dict[str, Any]:
        """What a server is called, once it is up. One that cannot be had skips the test; with CI=true it fails."""
        if name not in self._told:
            if self._shared is None or name.startswith("redis"):
                self._told[name] = self._own(name)
            else:
                self._told[name] = self._of_the_run(name, self._shared)
        return _available(name, self._told[name])

    def install(self, name: str) -> None:
        """Install the programs of a server, for a test that starts one of its own. As ``need`` otherwise."""
        if name not in self._installed:
            command = [sys.executable, str(SCRIPT), "--install", name]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            self._installed[name] = _told(done.stdout, name)
        _available(name, self._installed[name])

    def stop(self) -> None:
        for process in self._started:
            process.communicate()

    def _own(self, name: str) -> dict[str, Any]:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._started.append(process)
        return _first_line(process, name)

    @staticmethod
    def _of_the_run(name: str, folder: Path) -> dict[str, Any]:
        """One that the first user starts, while the others wait. It ends with the process that leads the run."""
        known = folder / f"{name}.json"
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if known.exists():
                return json.loads(known.read_text())  # type: ignore[no-any-return]
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), "--until-end-of", str(os.getppid()), name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            told = _first_line(process, name)
            assert process.stdout is not None
            process.stdout.close()
            known.write_text(json.dumps(told))
            # It outlives this process, which does not wait for it: without this a warning would say that it still runs.
            process.returncode = 0
            return told


class Removable(Protocol):
    service: ClassVar[str]

    def remove(self) -> None: ...


Kind = TypeVar("Kind", bound=Removable)


class OwnServers:
    """Servers that a test may kill, pause and start again. All of them end with the block."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._made: list[Removable] = []

    def __call__(self, kind: type[Kind], *arguments: Any, **options: Any) -> Kind:
        """Start one; the arguments are those of its class."""
        self._services.install(kind.service)
        server = kind(*arguments, **options)
        self._made.append(server)
        return server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._made:
            server.remove()


def _available(name: str, told: dict[str, Any]) -> dict[str, Any]:
    if "error" in told:
        reason = f"{name}: {told['error']}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return told


def _first_line(process: subprocess.Popen[str], name: str) -> dict[str, Any]:
    assert process.stdout is not None
    return _told(process.stdout.readline(), name)


def _told(line: str, name: str) -> dict[str, Any]:
    return json.loads(line)[name] if line else {"error": "it ended at once"}
