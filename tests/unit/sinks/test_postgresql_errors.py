"""A PostgreSQL server that goes while its connection is idle: the sink says that it is unavailable, and connects
again."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from skitter.errors import SinkUnavailableError
from skitter.sinks.databases.postgresql import PostgresqlDatabase
from skitter.sinks.targets import parse_target


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


GREETING = (
    message(b"R", struct.pack("!I", 0))
    + message(b"S", b"server_version\x0015.0\x00")
    + message(b"S", b"client_encoding\x00UTF8\x00")
    + message(b"Z", b"I")
)
SHUTDOWN = message(b"E", b"SFATAL\x00VFATAL\x00C57P02\x00Mterminating connection\x00\x00")


class LeavingServer:
    """Greets each connection, and tells it at once that the server goes; the connection stays open."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            (length,) = struct.unpack("!I", connection.recv(4, socket.MSG_WAITALL))
            connection.recv(length - 4, socket.MSG_WAITALL)
            connection.sendall(GREETING + SHUTDOWN)

    def close(self) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.close()


@pytest.fixture
def server():
    server = LeavingServer()
    yield server
    server.close()


def test_a_farewell_on_an_idle_connection_is_a_server_that_is_away(server):
    target = parse_target(f"postgresql://user@127.0.0.1:{server.port}/items?sslmode=disable#parts")
    database = PostgresqlDatabase(target)
    try:
        with pytest.raises(SinkUnavailableError, match="cannot be reached"):  # noqa: PT012  whichever reads the farewell first
            database.connect()
            database.read_table()
    finally:
        database.close()
