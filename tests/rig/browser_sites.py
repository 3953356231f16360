"""Pages and canaries for tests of rendered pages, and what browsers leave behind on a machine."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rig.web import Whole
from rig.web_connection import Server


def html(body: str, status: int = 200, **headers: str) -> Whole:
    return status, {"Content-Type": "text/html; charset=utf-8", **headers}, f"<!doctype html><body>{body}".encode()


class Canary:
    """Counts TCP connections and UDP datagrams at one port; nothing may ever come."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        self._tcp = Server(lambda connection: self.hits.append(f"tcp from {connection.address}")).start()
        self.port = self._tcp.port
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", self.port))
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.hits.append(f"udp {self._udp.recvfrom(2000)[0]!r:.50}")

    def close(self) -> None:
        self._tcp.stop()
        self._udp.close()


def browser_processes(root: int) -> dict[int, str]:
    """Processes of browsers that a process has started, by their command lines; ended ones do not count."""
    return {pid: line for pid, line in descendants(root).items() if "chrom" in line and "services" not in line}


def descendants(root: int) -> dict[int, str]:
    """Command lines of the processes below a process that have not ended, by their ids."""
    parents: dict[int, int] = {}
    found: dict[int, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = stat.read_bytes().rpartition(b")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            if fields[0] not in (b"Z", b"X"):
                found[pid] = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")

    def is_below(pid: int) -> bool:
        while pid > 1:
            pid = parents.get(pid, 0)
            if pid == root:
                return True
        return False

    return {pid: line for pid, line in found.items() if is_below(pid)}


def processes_with(text: str) -> list[int]:
    """Processes with this in their command lines: browsers have the name of their folder in it, also as orphans."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in line.read_bytes():
                found.append(int(line.parent.name))
    return found


def browser_folders(pid: int) -> list[Path]:
    """Folders of the browsers of a worker."""
    return list(Path(tempfile.gettempdir()).glob(f"skitter-browser-*-{pid}-*"))


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait for a condition; what it gave last."""
    deadline = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return result
