"""A thread that ends the connection of a server that does not let libcurl return.

OpenSSL reads on, within one call, as long as a server sends what is TLS's own: new keys, tickets, requests for another
handshake. A server that is quick enough holds the event loop for ever, and no timeout is looked at. The interpreter's
lock is free meanwhile, so another thread can shut the socket down, and the read ends.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
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

    __slots__ = ("is_running", "number")

    def __init__(self) -> None:
        self.number = 0
        self.is_running = False


class Watchdog:
    """Looks at ``call`` from time to time. ``sockets``: the descriptors that libcurl may be reading from."""

    def __init__(self, call: Call, sockets: Callable[[], Iterable[int]]) -> None:
        self._call = call
        self._sockets = sockets
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skitter-fetch-watchdog", daemon=True)

    def start(self) -> None:
        """Only where the system tells how much was read from a socket."""
        if sys.platform == "linux":
            self._thread.start()

    def stop(self) -> None:
        """Returns at once."""
        self._stopping.set()

    def _run(self) -> None:
        number, before = -1, None
        while not self._stopping.wait(LOOK_SECONDS):
            if not self._call.is_running or self._call.number != number:
                number, before = self._call.number, None
                continue
            # The same call as at the last look: nobody else reads from these sockets meanwhile.
            read = {fd: _bytes_read(fd) for fd in self._sockets()}
            for fd, count in read.items():
                if before is not None and count > before.get(fd, count):
                    _shut_down(fd)
            before = read


def _bytes_read(fd: int) -> int:
    """How much was read from a TCP socket so far; 0 if it is none."""
    with contextlib.suppress(OSError, struct.error), socket.socket(fileno=_duplicate(fd)) as same:
        info = same.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        unread = array.array("i", [0])
        fcntl.ioctl(same, termios.FIONREAD, unread)
        received: int = struct.unpack_from("Q", info, _BYTES_RECEIVED)[0]
        return received - unread[0]
    return 0


def _shut_down(fd: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=_duplicate(fd)) as same:
        same.shutdown(socket.SHUT_RDWR)


def _duplicate(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
