"""Web servers for tests of rendered pages, which note every request; and what browsers leave behind on a machine."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = tuple[int, dict[str, str], bytes]


def html(body: str, status: int = 200, **headers: str) -> Answer:
    return status, {"Content-Type": "text/html; charset=utf-8", **headers}, f"<!doctype html><body>{body}".encode()


class Site:
    """A server whose paths answer with what a test says; ``hits`` has every request line, ``seen`` its headers."""

    def __init__(self, answers: Mapping[str, Answer | Callable[[Any], Answer]], host: str = "127.0.0.1") -> None:
        site = self
        self.answers = dict(answers)
        self.hits: list[str] = []
        self.seen: list[dict[str, str]] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                site.hits.append(f"{self.command} {self.path}")
                site.seen.append({name.lower(): value for name, value in self.headers.items()})
                # Not while it is sent: a client that has it may ask again before this thread goes on.
                with site._lock:
                    site._at_once += 1
                    site.most_at_once = max(site.most_at_once, site._at_once)
                try:
                    status, headers, body = self._answer()
                finally:
                    with site._lock:
                        site._at_once -= 1
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    for name, value in headers.items():
                        for each in value.split("\n"):
                            self.send_header(name, each)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def _answer(self) -> Answer:
                path = self.path.partition("?")[0]
                answer = site.answers.get(path, site.answers.get("*", (404, {}, b"nothing")))
                return answer(self) if callable(answer) else answer

            do_GET = do_POST = do_HEAD = _serve  # noqa: N815  http.server's names

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                pass  # a browser that was killed

        self._server = Server((host, 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        """Of all requests but those for icons, which Chromium asks for by itself."""
        return [hit.split(" ")[1] for hit in self.hits if "favicon" not in hit]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Canary:
    """Counts TCP connections and UDP datagrams at one port; nothing may ever come."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._tcp = socket.create_server((host, 0))
        self.port: int = self._tcp.getsockname()[1]
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind((host, self.port))
        self.hits: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._receive, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._tcp.accept()
                with client:
                    client.settimeout(1)
                    with contextlib.suppress(OSError):
                        self.hits.append(f"tcp {client.recv(200)!r}")

    def _receive(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.hits.append(f"udp {self._udp.recvfrom(2000)[0]!r:.50}")

    def close(self) -> None:
        self._tcp.close()
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


@contextlib.contextmanager
def closing_all(*things: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for thing in things:
            thing.close()
