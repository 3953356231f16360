"""Servers on loopback that attack whoever fetches from them: one attack each, by name, each connection in a thread.

``http2_attacks.py``, ``tls_attacks.py`` and ``proxy_attacks.py`` have the attacks. A test starts one with
``HostileServer(attack)``; ``start_all`` starts a whole catalogue.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

CERTIFICATE = Path(__file__).parents[2] / "integration" / "fetch" / "localhost.pem"
"""Of localhost and 127.0.0.1, with its key; it is its own authority."""
SILENCE_SECONDS = 60.0
"""A thread that nobody talks to ends after this, should nobody stop its server."""

FLOOD_BYTES = 262_144
"""At a time: the interpreter's lock is free while they are sent, so that other servers of the process go on."""


class Connection:
    """One accepted connection. Reading past its end raises ConnectionError."""

    def __init__(self, raw: socket.socket, stopping: threading.Event) -> None:
        self.socket = raw
        self.stopping = stopping
        """Set when the server is to end: for an attack that does not notice the end of its socket."""
        self._buffer = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def flood(self, data: bytes, *, reads: bool = False) -> None:
        """The same again and again, as fast as it is taken; ``reads``: what comes back is read, and dropped."""
        if not reads:
            data *= max(1, FLOOD_BYTES // len(data))
        while True:
            self.socket.sendall(data)
            if reads:
                self.socket.settimeout(0)
                with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                    while self.socket.recv(65_536):
                        pass
                self.socket.settimeout(SILENCE_SECONDS)

    def read(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def read_head(self) -> bytes:
        """A request of HTTP/1 up to the end of its headers."""
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    def silence(self) -> None:
        """Read and say nothing until the other side has had enough."""
        while True:
            self._buffer = b""
            self._more()

    def reset(self) -> None:
        """End with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def use_tls(self, context: ssl.SSLContext) -> None:
        self.socket = context.wrap_socket(self.socket, server_side=True, suppress_ragged_eofs=False)

    def _more(self) -> None:
        piece = self.socket.recv(65_536)
        if not piece:
            raise ConnectionError("the other side has closed")
        self._buffer += piece


Attack = Callable[[Connection], None]


def tls_context(alpn: tuple[str, ...] = (), certificate: Path = CERTIFICATE, key: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


class HostileServer:
    """Carries out one attack on every connection. ``tls``: after a handshake with it. A context manager."""

    def __init__(self, attack: Attack, *, tls: ssl.SSLContext | None = None, scheme: str = "") -> None:
        self._attack = attack
        self._tls = tls
        self._scheme = scheme or ("http" if tls is None else "https")
        self.connections = 0
        """Accepted so far."""
        self.open = 0
        """Of those, not over yet on this side."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="hostile server", daemon=True)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{host}:{self.port}{path}"

    def start(self) -> Self:
        self._acceptor.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self._acceptor.join()
        with self._lock:
            for raw in self._sockets:
                with contextlib.suppress(OSError):
                    raw.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    __enter__ = start

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = self._listener.accept()
                raw.settimeout(SILENCE_SECONDS)
                thread = threading.Thread(target=self._serve, args=(raw,), name="hostile connection", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, raw: socket.socket) -> None:
        # A second descriptor: wrapping a socket in TLS detaches the first, and stop() needs one to shut down.
        handle = raw.dup()
        connection = Connection(raw, self._stopping)
        with self._lock:
            self.connections += 1
            self.open += 1
            self._sockets.add(handle)
        with contextlib.suppress(OSError, ValueError):  # ssl.SSLError is an OSError; ValueError: it was reset
            if self._tls is not None:
                connection.use_tls(self._tls)
            self._attack(connection)
        with self._lock:
            self.open -= 1
            self._sockets.discard(handle)
        handle.close()
        connection.socket.close()


def start_all(
    attacks: Mapping[str, Attack], stack: contextlib.ExitStack, *, tls: ssl.SSLContext | None = None
) -> dict[str, HostileServer]:
    """A running server for each attack, until ``stack`` ends."""
    return {name: stack.enter_context(HostileServer(attack, tls=tls)) for name, attack in attacks.items()}
