"""A server of the tests on loopback: each connection in a thread, which does with it what the test says.

``rig/web.py`` has the web server that is built on it, and ``*_attacks.py`` what hostile servers do with a connection.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

CERTIFICATE = Path(__file__).parents[1] / "integration" / "fetch" / "localhost.pem"
"""Of localhost and 127.0.0.1, with its key; it is its own authority."""
SILENCE_SECONDS = 300.0
"""A thread that nobody talks to ends after this, should nobody stop its server."""
STOP_SECONDS = 30.0
"""Only for a hang: every wait of a connection ends with its server."""

FLOOD_BYTES = 262_144
"""At a time: the interpreter's lock is free while they are sent, so that other servers of the process go on."""


class Connection:
    """One accepted connection. Reading past its end raises ConnectionError, and so does waiting past the server's."""

    def __init__(self, raw: socket.socket, address: str, stopping: threading.Event) -> None:
        self.socket = raw
        self.address = address
        """Of the client."""
        self.stopping = stopping
        """Set when the server is to end: for an attack that does not notice the end of its socket."""
        self._handle = raw
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

    def sleep(self, seconds: float) -> None:
        """Take this long, unless the server ends."""
        if self.stopping.wait(seconds):
            raise ConnectionError("the server has ended")

    def end_sending(self) -> None:
        """Close one direction: the other side reads the end, and may still send."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """End with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self.socket.close()
        self._handle.close()

    @property
    def is_closed(self) -> bool:
        """By this side."""
        return self.socket.fileno() < 0

    @property
    def is_left(self) -> bool:
        """The other side has hung up."""
        try:
            asked = select.poll()
            asked.register(self.socket, select.POLLIN)
            # A socket with a time limit would wait for it, whatever the flags say.
            return bool(asked.poll(0)) and self.socket.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True

    def shut_down(self) -> None:
        """End it from another thread, whatever its own is at."""
        with contextlib.suppress(OSError):
            self._handle.shutdown(socket.SHUT_RDWR)

    def use_tls(self, context: ssl.SSLContext) -> None:
        # A second descriptor: wrapping a socket in TLS detaches the first, and ``shut_down`` needs one.
        self._handle = self.socket.dup()
        self.socket = context.wrap_socket(self.socket, server_side=True, suppress_ragged_eofs=False)

    def end_tls(self) -> None:
        """Say that nothing more comes, and do not wait for an answer: without it, a session is not resumed."""
        if isinstance(self.socket, ssl.SSLSocket):
            self.socket.settimeout(0)
            with contextlib.suppress(OSError, ValueError):
                self.socket.unwrap()

    def _more(self) -> None:
        piece = self.socket.recv(65_536)
        if not piece:
            raise ConnectionError("the other side has closed")
        self._buffer += piece


Attack = Callable[[Connection], None]
"""All that is done with a connection; it is closed afterwards."""


def says(answer: bytes) -> Attack:
    """Whatever is said first, the answer is this, and then the end."""

    def attack(connection: Connection) -> None:
        connection.read(1)
        connection.send(answer)
        # A socket that is closed while something comes resets the connection, and the answer is lost.
        connection.end_sending()
        connection.silence()

    return attack


def tls_context(alpn: tuple[str, ...] = (), certificate: Path = CERTIFICATE, key: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


class Server:
    """Does one thing with every connection. ``tls``: after a handshake with it. A context manager."""

    def __init__(
        self,
        attack: Attack,
        *,
        tls: ssl.SSLContext | None = None,
        scheme: str = "",
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._attack = attack
        self._tls = tls
        self._scheme = scheme or ("http" if tls is None else "https")
        self.connections = 0
        """Accepted so far."""
        self.changed = threading.Condition(threading.Lock())
        """Told of each connection that comes or ends, and by ``Site`` of each request."""
        self.stopping = threading.Event()
        self._live: dict[Connection, threading.Thread] = {}
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=512)
        # Accepted sockets inherit it: a small second write would wait for an acknowledgement.
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name=f"server {self.port}", daemon=True)

    @property
    def open(self) -> int:
        """Connections that are not over yet on this side."""
        return len(self._live)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{host}:{self.port}{path}"

    def start(self) -> Self:
        if self._acceptor.ident is None:
            self._acceptor.start()
        return self

    def stop(self) -> None:
        """End every connection, and wait for its thread."""
        self.stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        if self._acceptor.ident is not None:
            self._acceptor.join()
        with self.changed:
            self.changed.notify_all()
            live = dict(self._live)
        for connection in live:
            connection.shut_down()
        for thread in live.values():
            thread.join(STOP_SECONDS)
            assert not thread.is_alive(), f"a connection is held by the test beyond the end of its server: {self!r}"

    close = stop
    __enter__ = start

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, address = self._listener.accept()
                raw.settimeout(SILENCE_SECONDS)
                connection = Connection(raw, address[0], self.stopping)
                thread = threading.Thread(target=self._serve, args=(connection,), name="connection", daemon=True)
                with self.changed:
                    self.connections += 1
                    self._live[connection] = thread
                    self.changed.notify_all()
                thread.start()

    def _serve(self, connection: Connection) -> None:
        try:
            if self._tls is not None:
                connection.use_tls(self._tls)
            self._attack(connection)
        except OSError:
            pass  # whoever fetches has left, or the server ends; ssl.SSLError is one too
        except ValueError:
            # The ssl module says this of a socket that was reset.
            if not connection.is_closed:
                raise
        finally:
            connection.close()
            with self.changed:
                del self._live[connection]
                self.changed.notify_all()


def start_all(
    attacks: Mapping[str, Attack], stack: contextlib.ExitStack, *, tls: ssl.SSLContext | None = None
) -> dict[str, Server]:
    """A running server for each attack, until ``stack`` ends."""
    return {name: stack.enter_context(Server(attack, tls=tls)) for name, attack in attacks.items()}
