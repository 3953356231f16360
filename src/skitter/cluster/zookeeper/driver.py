"""kazoo's client with connections, threads and a wake-up of our own, where kazoo's block, leak or trust too much."""

from __future__ import annotations

import logging
import socket
import ssl
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from skitter.cluster.zookeeper.address import Ensemble

_ACLS = {
    "creator": CREATOR_ALL_ACL,
    "readable": [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE],
    "open": OPEN_ACL_UNSAFE,
}


def kazoo_client(ensemble: Ensemble, handler: Handler) -> KazooClient:
    """Return a client that is not started yet."""
    # A private one: the states of a session are told by the facade.
    quiet = logging.Logger("kazoo", logging.CRITICAL)  # noqa: LOG001
    client = KazooClient(
        hosts=",".join(ensemble.hosts),
        timeout=ensemble.session_seconds,
        handler=handler,
        default_acl=_ACLS[ensemble.acl],
        auth_data=[("digest", f"{ensemble.user}:{ensemble.password}")] if ensemble.user else None,
        # Its own default waits up to an hour between two attempts.
        connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 1.5, "max_delay": 0.5},
        logger=quiet,
    )
    client._connection = _BoundedConnection(client, client._conn_retry.copy(), logger=quiet)  # noqa: SLF001  it cannot be handed over
    return client


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads, with connections of our own: their time is bounded, TLS checks host names, errors are kept.

    kazoo's TLS does not check host names by default, leaves sockets open, and takes a refused certificate for a server
    that is unavailable.
    """

    def __init__(self, connect_seconds: float, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self.connect_seconds = max(0.5, connect_seconds)
        self.last_error: OSError | None = None
        self.untrusted: dict[str, ssl.SSLCertVerificationError] = {}
        """Refused certificates by host, of those that have not been connected to since."""
        self.granted_seconds = 0.0
        self._tls = tls

    def create_connection(self, *, address: tuple[str, int], hostname: str, **_: object) -> socket.socket:
        try:
            made = self._connected(address, hostname)
        except OSError as error:
            self.last_error = error
            if isinstance(error, ssl.SSLCertVerificationError):
                self.untrusted[hostname] = error
            raise
        self.untrusted.pop(hostname, None)
        return made

    def create_socket_pair(self) -> tuple[socket.socket, Any]:
        read, write = super().create_socket_pair()
        return read, _WakeUpSocket(write)

    def _connected(self, address: tuple[str, int], hostname: str) -> socket.socket:
        made = socket.create_connection(address, self.connect_seconds)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._tls.wrap_socket(made, server_hostname=hostname) if self._tls is not None else made
        except BaseException:
            made.close()
            raise


class _BoundedConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, with a bounded handshake and the time of the session that the server has granted."""

    def _connect(self, host: str, address: str, port: int) -> tuple[float, float]:
        read_timeout, connect_timeout = super()._connect(host, address, port)
        # kazoo keeps two thirds of it only, in ms.
        self.handler.granted_seconds = read_timeout * 3 / 2 / 1_000
        return read_timeout, connect_timeout

    def _invoke(self, timeout: float, request: object, xid: int | None = None) -> Any:
        # A server that is just starting may take a connection and never answer: kazoo waits for a whole session.
        return super()._invoke(min(timeout, self.handler.connect_seconds), request, xid)


class _WakeUpSocket:
    """The end of a socket pair at which kazoo's connection thread is woken, with a byte for each request.

    kazoo's own blocks whoever calls when some 280 bytes are unread, as while the server is unavailable. A full one has
    more
    bytes than there are requests (see ``connection``), so the byte that does not fit is not missed.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end

    def send(self, data: bytes) -> int:
        try:
            return self._end.send(data)
        except BlockingIOError:
            return len(data)

    def close(self) -> None:
        self._end.close()
