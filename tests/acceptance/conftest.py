"""A small web server whose every answer the test decides, for what the synthetic web has no page for."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

CERTIFICATE = Path(__file__).parents[1] / "integration" / "fetch" / "localhost.pem"
NO = b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"


@dataclass
class Seen:
    """A request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    at: float
    """By the monotonic clock."""


class Handler(BaseHTTPRequestHandler):
    """One connection. A raw answer is handed this object, to write as it likes."""

    protocol_version = "HTTP/1.1"
    server: Server

    def answer(self) -> None:
        at = time.monotonic()
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(self.command, self.path, headers, body, at)
        self.server.site.seen.append(seen)
        answer = self.server.site.answers.get(self.path.partition("?")[0])
        if callable(answer):
            answer = answer(seen, self)
            if answer is None:
                self.close_connection = True
                return
        self.send(*(answer or (404, {}, b"")))

    do_GET = do_POST = do_PUT = do_HEAD = answer  # noqa: N815  the names http.server looks for

    def send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    site: Site

    def handle_error(self, *_: object) -> None:
        """A crawler that hangs up is nothing to print."""


class Site:
    """A host on loopback. Pages that nobody has given it are 404, robots.txt among them."""

    def __init__(self, *, tls: bool = False) -> None:
        self.answers: dict[str, Any] = {}
        self.seen: list[Seen] = []
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.site = self
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.base = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def url(self, path: str = "/") -> str:
        return self.base + path

    def page(self, path: str, body: str | bytes = "", *, status: int = 200, **headers: str) -> None:
        """HTML, unless a header (``content_type``) says otherwise."""
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        named.setdefault("Content-Type", "text/html; charset=utf-8")
        self.answers[path] = (status, named, body.encode() if isinstance(body, str) else body)

    def on(self, path: str, answer: Callable[[Seen, Handler], tuple[int, dict[str, str], bytes] | None]) -> None:
        """Decide at each request; None: the answer was written to the handler."""
        self.answers[path] = answer

    def paths(self) -> list[str]:
        """What was asked for, in order, robots.txt aside."""
        return [seen.path for seen in self.seen if seen.path != "/robots.txt"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def make_site() -> Iterator[Callable[..., Site]]:
    with contextlib.ExitStack() as stack:

        def make(**options: Any) -> Site:
            site = Site(**options)
            stack.callback(site.close)
            return site

        yield make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


@pytest.fixture
def start(skitter: Any) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a node; what a test has left running ends with it."""
    started: list[subprocess.Popen[str]] = []

    def node(*arguments: object) -> subprocess.Popen[str]:
        started.append(skitter.start(*arguments))
        return started[-1]

    yield node
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        # Open pipes would be a failure of the next test.
        process.communicate()


def place_of(frontier: str, services: Any, name: str) -> tuple[str, ...]:
    """Options for a job of this name in a Redis, or else in a file of the test's folder."""
    url = services.need("redis")["url"] if frontier == "redis" else "sqlite:jobs.db"
    return ("--frontier", url, "--job", name)


@pytest.fixture
def until() -> Callable[..., Any]:
    """Ask again and again, until the answer is true."""

    def wait(question: Callable[[], Any], process: Any = None, seconds: float = 30.0) -> Any:
        deadline = time.monotonic() + seconds
        asked = time.monotonic()
        while not (answer := question()):
            assert process is None or process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "it did not come to it"
            # A question that is a command takes a third of a second of a processor: what it waits for needs some too.
            time.sleep(max(0.02, time.monotonic() - asked))
            asked = time.monotonic()
        return answer

    return wait


class RawServer:
    """A server that says the bytes of a path, and then closes or holds on."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._socket.getsockname()[1]
        self.says: dict[str, bytes] = {"/robots.txt": NO}
        self.holds: set[str] = set()
        self.seen: Counter[str] = Counter()
        self._over = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def page(self, path: str, body: bytes, *headers: bytes) -> None:
        lines = [OK, *(header + b"\r\n" for header in headers), b"Content-Length: %d\r\n\r\n" % len(body)]
        self.says[path] = b"".join(lines) + body

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            path = client.recv(65_536).split(b" ")[1].decode()
            self.seen[path] += 1
            client.sendall(self.says.get(path, b""))
            if path in self.holds:
                self._over.wait(100)

    def close(self) -> None:
        self._over.set()
        self._socket.close()


@pytest.fixture
def raw() -> Iterator[Callable[[], RawServer]]:
    made: list[RawServer] = []

    def make() -> RawServer:
        made.append(RawServer())
        return made[-1]

    yield make
    for server in made:
        server.close()
