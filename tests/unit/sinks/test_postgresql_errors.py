"""A PostgreSQL server that goes while its connection is idle: the sink says that it is unavailable, and connects
again."""

from __future__ import annotations

import struct

import pytest

from rig.web_connection import Connection, Server
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


def leave(connection: Connection) -> None:
    """Greet a connection, and tell it at once that the server goes; the connection stays open."""
    (length,) = struct.unpack("!I", connection.read(4))
    connection.read(length - 4)
    connection.send(GREETING + SHUTDOWN)
    connection.silence()


@pytest.fixture
def server():
    with Server(leave) as server:
        yield server


def test_a_farewell_on_an_idle_connection_is_a_server_that_is_away(server):
    target = parse_target(f"postgresql://user@127.0.0.1:{server.port}/items?sslmode=disable#parts")
    database = PostgresqlDatabase(target)
    try:
        with pytest.raises(SinkUnavailableError, match="cannot be reached"):  # noqa: PT012  whichever reads the farewell first
            database.connect()
            database.read_table()
    finally:
        database.close()
