"""Starts skitter's commands as forks of one process that has imported the package, without the time that imports take.

``python fork_server.py SOCKET`` imports the package and then forks a child for each request on the socket. The child
runs ``python -m skitter WORDS`` as Python itself would: in its own folder, with its own environment, descriptors,
process group, signals and exit code. ``rig.processes`` is the client. The server ends when its standard input ends.

A command that starts a worker process starts it in the same way. The worker must be a child of its command, and a
command that has opened a SQLite file must not be forked. So each crawl forks a few spare processes before it begins,
and starts its workers in these. Once they are used up, it starts workers as it does outside the tests.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import io
import marshal
import os
import resource
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

HEADER = struct.Struct("!I")
STATUS = struct.Struct("!i")
MOST_DESCRIPTORS = 64
SPARE_NAME = "skitter-spare"
"""The name that the kernel knows a spare process by, so that tests do not take it for a worker."""
_SET_NAME = 15
WORKER_COMMAND = [sys.executable, "-P", "-m", "skitter.app"]
MOST_SPARES = 4
NOT_IMPORTED = (
    # Programs, which run when they are imported.
    "skitter.__main__",
    "skitter.app.__main__",
    # Its presence tells a command that a display is on the screen.
    "skitter.cli.live_display",
    # Frameworks and suites, which are large and which few commands import.
    "skitter.bench",
    "skitter.contrib",
    "skitter.testing",
)
LIBRARIES = (
    "aiohttp.web",
    "http.client",
    "lxml.etree",
    "parsel",
    "pycurl",
    "redis.asyncio",
    "rich",
    "tomllib",
    "uvloop",
)
"""Those that commands import when they need them."""


def import_everything() -> None:
    import skitter

    source = Path(skitter.__file__).parent
    for file in sorted(source.rglob("*.py")):
        name = ".".join(file.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__")
        if not any(name == excluded or name.startswith(f"{excluded}.") for excluded in NOT_IMPORTED):
            import_if_there(name)
    for name in LIBRARIES:
        import_if_there(name)


def import_if_there(name: str) -> None:
    """Import a module. Where an optional package is missing, the command that needs it will say so."""
    with contextlib.suppress(ImportError):
        importlib.import_module(name)


# ---- messages with descriptors


def send(connection: socket.socket, message: dict[str, Any], descriptors: list[int]) -> None:
    data = marshal.dumps(message)
    socket.send_fds(connection, [HEADER.pack(len(data))], descriptors)
    connection.sendall(data)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message; None if the other side has closed the connection."""
    header, descriptors, _, _ = socket.recv_fds(connection, HEADER.size, MOST_DESCRIPTORS)
    if not header:
        return None
    data = b""
    (size,) = HEADER.unpack(header)
    while len(data) < size:
        data += connection.recv(size - len(data))
    return marshal.loads(data), descriptors


# ---- the server


class ForkServer:
    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(128)
        self._waiting: dict[int, socket.socket] = {}
        """The connection of each child, which is told the child's end."""
        self._tied: dict[socket.socket, int] = {}
        """The children that are killed if the other side of their connection goes away."""

    def serve(self) -> dict[str, Any] | None:
        """Serve until standard input ends. In a child, return its request."""
        wake, written = socket.socketpair()
        written.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
        os.write(1, b"ready\n")
        while True:
            ready, _, _ = select.select([self._listener, wake, 0, *self._tied], [], [])
            if wake in ready:
                wake.recv(65_536)
                self._tell_ends()
            for connection in self._tied.keys() & set(ready):
                self._kill(connection)
            if self._listener in ready:
                connection, _ = self._listener.accept()
                if (request := self._fork(connection)) is not None:
                    return request
            if 0 in ready:
                return None

    def _fork(self, connection: socket.socket) -> dict[str, Any] | None:
        received = receive(connection)
        if received is None:
            connection.close()
            return None
        request, descriptors = received
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            take_place(request, descriptors)
            return request
        for descriptor in descriptors:
            os.close(descriptor)
        self._waiting[pid] = connection
        if request["tied"]:
            self._tied[connection] = pid
        with contextlib.suppress(OSError):
            connection.sendall(STATUS.pack(pid))
        return None

    def _kill(self, connection: socket.socket) -> None:
        """Kill the child of a connection whose other side has gone away, with its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._tied.pop(connection), signal.SIGKILL)

    def _tell_ends(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if (connection := self._waiting.pop(pid, None)) is not None:
                self._tied.pop(connection, None)
                with connection, contextlib.suppress(OSError):
                    connection.sendall(STATUS.pack(os.waitstatus_to_exitcode(status)))


# ---- in a child


def take_place(request: dict[str, Any], descriptors: list[int]) -> None:
    """Become what ``python -m`` would find in a new process: descriptors, session, folder, environment, limits."""
    targets: list[int] = request["descriptors"]
    # Above every target, so that none is overwritten before it is copied.
    free = max([*targets, 2]) + 1
    copies = [_copy_above(descriptor, free) for descriptor in descriptors]
    for target, copy in zip(targets, copies, strict=True):
        os.dup2(copy, target, inheritable=target <= 2)
    kept = sorted({0, 1, 2, *targets})
    for before, after in zip(kept, [*kept[1:], None], strict=True):
        os.closerange(before + 1, after if after is not None else _most_files())
    if request["session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.umask(request["umask"])
    for limit, values in request["limits"].items():
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, values)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    # What the server had opened on these descriptors is not this process's.
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), "utf-8")  # noqa: SIM115
    sys.stdout = _text(1, "strict")
    sys.stderr = _text(2, "backslashreplace", line_buffering=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def _copy_above(descriptor: int, least: int) -> int:
    import fcntl

    copy = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    os.close(descriptor)
    return copy


def _most_files() -> int:
    # Descriptors are given from below: those of a server that has hundreds of children under way end far below this.
    return min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 4096)


def _text(descriptor: int, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    raw = open(descriptor, "wb", buffering=8192, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=line_buffering or os.isatty(descriptor))


def run_program(request: dict[str, Any]) -> NoReturn:
    """Run a module or a file as Python does, and end without taking the imported modules apart one by one.

    Modules of ``PYTHONPATH`` are found as well. The interpreter that this process is a fork of has not seen it.
    """
    sys.argv = [request["program"], *request["words"]]
    is_file = request["program"].endswith(".py")
    paths = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if not request["safe_path"]:
        paths.insert(0, str(Path(request["program"]).resolve().parent if is_file else Path.cwd()))
    sys.path[:0] = paths
    code = 0
    try:
        if is_file:
            runpy.run_path(request["program"], run_name="__main__")
        else:
            runpy.run_module(request["program"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = exit_code(end)
    except BaseException:  # noqa: BLE001  as the interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does at its end
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return int(end.code or 0)
    sys.stderr.write(f"{end.code}\n")
    return 1


def begin(request: dict[str, Any]) -> NoReturn:
    words: list[str] = request["words"]
    if request["program"] == "skitter" and words[:1] in (["crawl"], ["worker"]):
        # Ctrl-C reaches the whole group: a spare process ignores it, from its first moment on.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        for _ in range(_workers_of(words)):
            SPARES.append(Spare())  # noqa: PERF401  each child closes those before it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        subprocess.Popen = PopenOfSpares  # type: ignore[misc]
    run_program(request)


def _workers_of(words: list[str]) -> int:
    """The number of worker processes that a command asks for."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, _, value = word.partition("=")
        if name in ("--workers", "-w") and (value or following).isdigit():
            return min(MOST_SPARES, int(value or following))
    return 1


class Spare:
    """A process that waits to become a worker. It ends with its command."""

    def __init__(self) -> None:
        self.connection, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            for spare in SPARES:
                spare.connection.close()
            self.connection.close()
            wait_for_work(theirs)
        theirs.close()


SPARES: list[Spare] = []


def wait_for_work(connection: socket.socket) -> NoReturn:
    set_name(SPARE_NAME)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as ``skitter.app.__main__`` does first of all
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    received = receive(connection)
    if received is None:
        os._exit(0)
    connection.close()
    request, descriptors = received
    take_place(request, descriptors)
    set_name("python3")
    run_program(request)


def set_name(name: str) -> None:
    ctypes.CDLL(None).prctl(_SET_NAME, name.encode(), 0, 0, 0)


EXECUTE_CHILD = tuple(inspect.signature(getattr(subprocess.Popen, "_execute_child", os.fork)).parameters)
"""The names of the parameters of ``subprocess.Popen._execute_child``, which no documentation promises."""
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
POPEN_IS_KNOWN = {"pass_fds", "cwd", "env", "umask", "start_new_session", *PIPES} <= set(EXECUTE_CHILD)
"""Whether this Python starts processes as 3.11 to 3.14 do. If it does not, commands are interpreters and no forks."""


class PopenOfSpares(subprocess.Popen):  # type: ignore[type-arg]
    """A worker process takes a spare process, where there is one; everything else starts as always."""

    def _execute_child(self, args: Any, *parameters: Any) -> None:
        words = list(args) if isinstance(args, (list, tuple)) else []
        if words[:4] == WORKER_COMMAND and SPARES:
            child = dict(zip(EXECUTE_CHILD, (self, args, *parameters), strict=True))
            if self._take_spare(SPARES.pop(), words[4:], child):
                return
        super()._execute_child(args, *parameters)  # type: ignore[misc]

    def _take_spare(self, spare: Spare, words: list[str], child: Mapping[str, Any]) -> bool:
        try:
            with spare.connection:
                send(spare.connection, *request_for("skitter.app", words, child, safe_path=True))
        except OSError:
            return False  # a signal to the whole group has ended it
        self.pid = spare.pid
        self._child_created = True
        self._close_pipe_fds(*(child[name] for name in PIPES))  # type: ignore[attr-defined]
        return True


def request_for(
    program: str, words: list[str], child: Mapping[str, Any], *, safe_path: bool
) -> tuple[dict[str, Any], list[int]]:
    """Describe a process that inherits from this one what a child inherits, and list the descriptors that it gets.

    ``program``: a module, or a file. ``child``: the parameters of ``subprocess.Popen._execute_child``.
    """
    mask = os.umask(0)
    os.umask(mask)
    limits = (resource.RLIMIT_NOFILE, resource.RLIMIT_DATA, resource.RLIMIT_AS, resource.RLIMIT_FSIZE)
    request = {
        "program": program,
        "words": words,
        "descriptors": [0, 1, 2, *child["pass_fds"]],
        "session": child["start_new_session"],
        "safe_path": safe_path,
        "tied": False,
        "folder": os.fspath(child["cwd"] or Path.cwd()),
        "umask": mask if child["umask"] == -1 else child["umask"],
        "limits": {limit: resource.getrlimit(limit) for limit in limits},
        "environment": dict(os.environ if child["env"] is None else child["env"]),
    }
    ends = (child["p2cread"], child["c2pwrite"], child["errwrite"])
    return request, [*(end if end != -1 else own for own, end in enumerate(ends)), *child["pass_fds"]]


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and their end ends the server
    # Its own folder is not one that a command imports from.
    sys.path = [entry for entry in sys.path if entry and Path(entry) != Path(__file__).parent]
    import_everything()
    gc.collect()
    gc.freeze()
    request = ForkServer(sys.argv[1]).serve()
    if request is not None:
        begin(request)
    return 0


if __name__ == "__main__":
    sys.exit(main())
