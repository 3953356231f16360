"""Who a worker is: a name that tells, on its own machine, whether the process still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def worker_id(pid: int | None = None) -> str:
    """``NODE:PID:STARTED`` of a process, by default this one. STARTED tells a reused process number apart."""
    pid = os.getpid() if pid is None else pid
    return f"{_node()}:{pid}:{_started(pid)}"


def is_dead(worker: str) -> bool:
    """True only if the worker ran on this machine and is certainly gone."""
    node, _, rest = worker.rpartition(":")[0].rpartition(":")[0], None, worker.split(":")
    if node != _node() or len(rest) < 3:
        return False
    return _started(int(rest[-2])) != rest[-1]


def _node() -> str:
    return socket.gethostname()


def _started(pid: int) -> str:
    """When the process started, in ticks of the kernel; empty when there is none (a zombie is none)."""
    try:
        # The name, in parentheses, may itself hold spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except OSError:
        if Path("/proc/self/stat").exists():
            return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "0"
