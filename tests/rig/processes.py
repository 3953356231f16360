"""The only way in which tests start, stop, kill and reap processes of skitter.

A command is a real process with a process group of its own. Where nothing about starting is tested, it is forked by
``fork_server`` and costs a few milliseconds instead of a third of a second of a processor.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from rig.fork_server import EXECUTE_CHILD, PIPES, POPEN_IS_KNOWN, SPARE_NAME, STATUS, request_for, send

HANG_SECONDS = 300.0
"""After this time a command counts as one that hangs. It is no limit that a busy machine could reach."""
SKITTER_COMMAND = Path(__file__).with_name("skitter_command.py")
"""What a shell starts in place of the installed command."""
OF_THE_INTERPRETER = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC", "COVERAGE")


def _of_the_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    names = [name for name in environment if name.startswith(OF_THE_INTERPRETER) and name != "PYTHONPATH"]
    return {name: environment[name] for name in names}


class _Server:
    """The fork server of this process, started when it is first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._path = ""
        """Of the socket. It is short: the system allows 108 bytes."""
        self._starting = threading.Lock()

    @cached_property
    def environment(self) -> dict[str, str]:
        """Its environment: that of this process when a session of tests begins."""
        return dict(os.environ)

    def path(self) -> str:
        """Start the server if it is not there yet, and return the path of its socket."""
        with self._starting:
            if self._process is None:
                self._start()
        return self._path

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.path())
        return connection

    def _start(self) -> None:
        folder = tempfile.mkdtemp(prefix="skitter-fork-")
        self._path = str(Path(folder, "socket"))
        program = Path(__file__).with_name("fork_server.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program), self._path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env=self.environment,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the fork server did not start"

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None
            with contextlib.suppress(OSError):
                Path(self._path).unlink()
                Path(self._path).parent.rmdir()


SERVER = _Server()


class ForkedProcess(subprocess.Popen):  # type: ignore[type-arg]
    """A Python program as a fork of the server, which is its parent and tells its end."""

    def __init__(self, program: str, words: list[str], *, safe_path: bool = False, **options: Any) -> None:
        """``program``: a module, or the path of a file. ``options``: those of ``subprocess.Popen``."""
        self._program = program
        self._safe_path = safe_path
        self._told: socket.socket | None = None
        super().__init__(words, **options)

    def _execute_child(self, args: Any, *parameters: Any) -> None:
        child = dict(zip(EXECUTE_CHILD, (self, args, *parameters), strict=True))
        try:
            self._told = SERVER.connect()
            send(self._told, *request_for(self._program, list(args), child, safe_path=self._safe_path))
            (self.pid,) = STATUS.unpack(self._told.recv(STATUS.size, socket.MSG_WAITALL))
            self._child_created = True
        finally:
            self._close_pipe_fds(*(child[name] for name in PIPES))  # type: ignore[attr-defined]
            self._closed_child_pipe_fds = True

    def _internal_poll(self, _deadstate: Any = None, **_: Any) -> int | None:
        return self._ended(0)

    def _wait(self, timeout: float | None) -> int:
        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def _ended(self, timeout: float | None) -> int | None:
        with self._waitpid_lock:
            if self.returncode is None and self._told is not None and select.select([self._told], [], [], timeout)[0]:
                told = self._told.recv(STATUS.size, socket.MSG_WAITALL)
                # A server that ended first tells nothing: its children are nobody's any more.
                self.returncode = STATUS.unpack(told)[0] if told else -signal.SIGKILL
                self._told.close()
        return self.returncode


def start_skitter(words: list[str], python: list[str], *, forked: bool = True, **options: Any) -> subprocess.Popen[str]:
    """Start ``python -m skitter WORDS``.

    ``python``: the interpreter with its options. ``forked=False``: a new interpreter that imports all it needs, for
    tests of starting. Options that a fork cannot have mean a new interpreter too.
    """
    plain = python in ([sys.executable], [sys.executable, "-P"])
    if forked and plain and can_fork(options.get("env")) and not options.keys() & {"preexec_fn", "executable"}:
        return ForkedProcess("skitter", words, safe_path="-P" in python, **options)
    return subprocess.Popen([*python, "-m", "skitter", *words], **options)


def can_fork(environment: Mapping[str, str] | None) -> bool:
    """Whether a fork of the server finds what an interpreter would find that starts with this environment.

    A fork takes the folders of ``PYTHONPATH``, but runs no ``sitecustomize.py`` in them, and keeps the package that the
    server has imported, where another copy of it is in one of them.
    """
    environment = os.environ if environment is None else environment
    paths = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    same = _of_the_interpreter(environment) == _of_the_interpreter(SERVER.environment)
    own = any(Path(path, name).exists() for path in paths for name in ("sitecustomize.py", "skitter"))
    return POPEN_IS_KNOWN and same and not own


class CommandLine:
    """The command line, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = [sys.executable]
        """The interpreter with its options."""

    def start(self, *arguments: object, forked: bool = True, **options: Any) -> subprocess.Popen[str]:
        """Start a command in a process group of its own, so that all of it can be killed.

        ``forked=False`` starts a new interpreter, for tests of starting.
        """
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": self.folder} | options
        return start_skitter([*map(str, arguments)], self.python, forked=forked, start_new_session=True, **options)

    def run(self, *arguments: object, code: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run to the end; ``code`` is the exit code it must have, None for any."""
        process = self.start(*arguments, **options)
        try:
            out, error = process.communicate(timeout=HANG_SECONDS)
        except BaseException:
            kill_group(process)
            raise
        if code is not None:
            assert process.returncode == code, f"exit code {process.returncode}, not {code}\n{out}\n{error}"
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    def json(self, *arguments: object, code: int | None = 0) -> dict[str, Any]:
        """The one object that a command prints with --json."""
        return json.loads(self.run(*arguments, "--json", code=code).stdout)

    def records(self, *arguments: object) -> list[dict[str, Any]]:
        """The objects, one a line, that a command prints with --json."""
        return [json.loads(line) for line in self.run(*arguments, "--json").stdout.splitlines()]

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The records of a JSON lines file."""
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


def kill_group(process: subprocess.Popen[str]) -> None:
    """Kill a process with all of its group, and reap it. Its pipes are closed: open ones would fail the next test."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def children(pid: int) -> list[int]:
    """The child processes of a process that do some work: spare ones of the fork server are left out."""
    with contextlib.suppress(OSError):
        found = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return [child for child in found if _name(child) not in ("", SPARE_NAME)]
    return []


def _name(pid: int) -> str:
    """The name that the kernel knows a process by; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def wait_until(question: Callable[[], Any], process: subprocess.Popen[str] | None = None, what: str = "") -> Any:
    """Ask again and again until the answer is true, and return it. ``process``: a command that must not end before.

    On failure the message has what the process printed.
    """
    deadline = time.monotonic() + HANG_SECONDS
    asked = time.monotonic()
    while not (answer := question()):
        if process is not None and process.poll() is not None:
            raise AssertionError(
                f"exit code {process.returncode} before {what or 'it came to it'}: {process.communicate()}"
            )
        assert time.monotonic() < deadline, f"it did not come to it: {what}"
        # A question that is a command takes some of a processor: what it waits for needs more.
        time.sleep(max(0.02, 3 * (time.monotonic() - asked)))
        asked = time.monotonic()
    return answer
