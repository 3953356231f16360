"""Answers of a web server that are none: each ends, stalls or goes on for ever in its own way."""

from __future__ import annotations

from collections.abc import Iterable

from rig.web import Decided, Seen
from rig.web_connection import Connection


def response(body: str | bytes = b"ok", *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer of HTTP/1.1, with headers as lines."""
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def silent(_seen: Seen, connection: Connection) -> None:
    """Say nothing until the other side has had enough."""
    connection.silence()


def reset(_seen: Seen, connection: Connection) -> None:
    """End the connection with a TCP reset."""
    connection.reset()


def cut(said: bytes = b"") -> Decided:
    """Say this, and hang up."""
    return lambda _seen, connection: connection.send(said)


def stalled(said: bytes) -> Decided:
    """Say this, and then nothing more until the other side has had enough."""

    def answer(_seen: Seen, connection: Connection) -> None:
        connection.send(said)
        connection.silence()

    return answer


def half_closed(said: bytes) -> Decided:
    """Say this, close the direction it went, and listen on."""

    def answer(_seen: Seen, connection: Connection) -> None:
        connection.send(said)
        connection.end_sending()
        connection.silence()

    return answer


def endless(head: bytes, again: bytes) -> Decided:
    """Say ``head``, and then the same for ever, as fast as it is read."""

    def answer(_seen: Seen, connection: Connection) -> None:
        connection.send(head)
        connection.flood(again)

    return answer


def trickle(head: bytes, again: bytes, seconds: float = 0.05) -> Decided:
    """Say ``head``, and then a little, and a little, and a little."""

    def answer(_seen: Seen, connection: Connection) -> None:
        connection.send(head)
        while True:
            connection.send(again)
            connection.sleep(seconds)

    return answer


def in_pieces(head: bytes, pieces: Iterable[bytes], seconds: float) -> Decided:
    """Say ``head``, and then the pieces with pauses between them; the connection is kept."""

    def answer(_seen: Seen, connection: Connection) -> bool:
        connection.send(head)
        for piece in pieces:
            connection.send(piece)
            connection.sleep(seconds)
        return True

    return answer
