"""Watchdog thread that closes the connection of a server that keeps libcurl from returning.

OpenSSL reads on, within one call, as long as a server sends what is TLS's own: new keys, tickets, requests for another
handshake. A server that is quick enough holds the event loop for ever, and no timeout is looked at. The interpreter's
lock is free meanwhile, so another thread can shut the socket down, and the read ends.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterable

LOOK_SECONDS = 0.25
"""A call that is seen three times ends then. One that reads takes milliseconds."""
_BYTES_RECEIVED = 128
"""Of the struct tcp_info of Linux."""


class Call:
    """The current call of libcurl by the engine."""

    __slots__ = ("is_noted", "is_running", "number")

    def __init__(self) -> None:
        self.is_noted = False
        """Whether anybody asks for the others: from the first https page on."""
        self.number = 0
        self.is_running = False


class Watchdog:
    """Looks at ``call`` from time to time. ``sockets``: the descriptors that libcurl may be reading from."""

    def __init__(self, call: Call, sockets: Callable[[], Iterable[int]]) -> None:
        self._call = call
        self._sockets = sockets
        self._number = -1
        self._read: dict[tuple[int, int], int] | None = None
        """What the call had read when it was last looked at, by descriptor and socket."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skitter-fetch-watchdog", daemon=True)

    @property
    def is_started(self) -> bool:
        return self._thread.ident is not None

    def start(self) -> None:
        """Start it, where the system reports how much was read from a socket. It may be called again."""
        self._call.is_noted = True
        if sys.platform == "linux" and not self.is_started:
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread without waiting for it."""
        self._stopping.set()

    def look(self) -> None:
        """Shut down what the call reads from, if it is the call of the last two looks."""
        number = self._number
        if not self._is_in(number):
            self._number, self._read = self._call.number, None
            return
        # The same call as at the last look. The loop's thread is in libcurl, so nobody else reads from its sockets.
        # But libcurl may close one, and another thread get its number: hence the socket's own number, and a duplicate
        # of the descriptor, so that what is shut down is what was looked at.
        before, self._read = self._read, {}
        for fd in self._sockets():
            with contextlib.suppress(OSError, ValueError, struct.error), _duplicate(fd) as same:
                key = fd, os.fstat(same.fileno()).st_ino
                count = self._read[key] = _bytes_read(same)
                if before is not None and count > before.get(key, count) and self._is_in(number):
                    same.shutdown(socket.SHUT_RDWR)

    def _is_in(self, number: int) -> bool:
        return self._call.is_running and self._call.number == number

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            self.look()


def _bytes_read(tcp: socket.socket) -> int:
    """Return the number of bytes received on a socket so far."""
    info = tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    unread = array.array("i", [0])
    fcntl.ioctl(tcp, termios.FIONREAD, unread)
    received: int = struct.unpack_from("Q", info, _BYTES_RECEIVED)[0]
    return received - unread[0]


def _duplicate(fd: int) -> socket.socket:
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        return socket.socket(fileno=copy)
    except OSError:  # it is none
        os.close(copy)
        raise
