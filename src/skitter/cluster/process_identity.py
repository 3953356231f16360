"""The id of a worker process, and whether the worker is alive: the one rule for commands and nodes."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

from skitter._version import __version__
from skitter.model.job import Job, Report
from skitter.model.worker import Doing, WorkerHeartbeat, WorkerSeen
from skitter.settings import Limits


def worker_id(pid: int | None = None) -> str:
    """``NODE:PID:STARTED`` of a process, by default this one. STARTED tells a reused process number apart."""
    pid = os.getpid() if pid is None else pid
    return f"{_node()}:{pid}:{_started(pid)}"


def heartbeat_of(spider: str) -> WorkerHeartbeat:
    """Who this process is, for people."""
    return WorkerHeartbeat(
        host_name=_node(), pid=os.getpid(), version=__version__, spider=spider, started_at=round(time.time(), 3)
    )


def resident_bytes(pid: int | None = None) -> int:
    """Return what a process takes of the machine's memory, by default this one; 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def is_dead(worker: str) -> bool:
    """True only if the worker ran on this machine and is certainly gone.

    Not for one of another credential of a master (``NODE:PID:STARTED@NAME``): what it held is not ours to give back.
    """
    if "@" in worker:
        return False
    # From the right: whatever a node is called, its process number and start are the last two.
    match worker.rsplit(":", 2):
        case [node, pid, started] if node == _node() and pid.isdecimal():
            return _started(int(pid)) != started
    return False


def is_here(worker: str) -> bool:
    """Whether the worker runs or ran on this machine."""
    return worker.rsplit(":", 2)[0] == _node()


def is_child(worker: str) -> bool:
    """Whether this process has started the worker; False where there is no /proc."""
    match worker.rsplit(":", 2):
        case [node, pid, _] if node == _node() and pid.isdecimal():
            return process_stat(int(pid))[1:2] == [str(os.getpid())]
    return False


def is_alive(worker: WorkerSeen, job: Job) -> bool:
    """It was heard from within the length of a lease (workers renew at a third of it) and is not known to be dead."""
    if worker.heartbeat is not None and worker.heartbeat.doing == Doing.SKIPPED:
        return False
    lease_seconds: float = job.spec.settings.get("lease_seconds", Limits().lease_seconds)
    return worker.silent_seconds <= lease_seconds and not is_dead(worker.id)


def live_workers(report: Report) -> list[WorkerSeen]:
    """The workers of a report that are alive."""
    return [worker for worker in report.workers if is_alive(worker, report.job)]


def _node() -> str:
    return socket.gethostname()


def _started(pid: int) -> str:
    """When the process started, in ticks of the kernel; empty when there is none (a zombie is none)."""
    stat = process_stat(pid)
    if stat:
        return "" if stat[0] in "ZX" else stat[19]
    if process_stat(os.getpid()):
        return ""
    # No /proc here: whether it lives is all that can be said.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "0"


def cpu_ticks(pid: int) -> tuple[int, int] | None:
    """CPU time of a process's main thread, and of all its threads; None: there is no such process, or no /proc."""
    main, whole = process_stat(pid, f"task/{pid}/stat"), process_stat(pid)
    return (int(main[11]) + int(main[12]), int(whole[11]) + int(whole[12])) if main and whole else None


def process_stat(pid: int, file: str = "stat") -> list[str]:
    """The fields of ``/proc/PID/stat`` from the state on; empty when there is no such process, or no /proc."""
    try:
        # The name, in parentheses, may itself hold spaces and parentheses.
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
