"""Attacks of a proxy on whoever uses it: HTTP proxies that are asked for a tunnel or a page, and SOCKS 5 proxies."""

from __future__ import annotations

from rig.web_connection import Attack, Connection, tls_context

GO_ON = b"HTTP/1.1 200 Go on\r\n\r\n"
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nnot mine"


def _answers(answer: bytes, *, closes: bool = True) -> Attack:
    def attack(connection: Connection) -> None:
        connection.read_head()
        connection.send(answer)
        if not closes:
            connection.silence()

    return attack


def _again_and_again(answer: bytes) -> Attack:
    """To every request on the connection."""

    def attack(connection: Connection) -> None:
        while True:
            connection.read_head()
            connection.send(answer)

    return attack


def _floods(first: bytes, again: bytes) -> Attack:
    def attack(connection: Connection) -> None:
        connection.read_head()
        connection.send(first)
        connection.flood(again)

    return attack


def _trickles(connection: Connection) -> None:
    connection.read_head()
    connection.send(b"HTTP/1.1 200 OK\r\n")
    while not connection.stopping.wait(0.05):
        connection.send(b"X: y\r\n")


def _own_certificate(connection: Connection) -> None:
    connection.read_head()
    connection.send(GO_ON)
    connection.use_tls(tls_context())
    connection.read_head()
    connection.send(PAGE)


def _closes(connection: Connection) -> None:
    connection.reset()


def _socks(*answers: bytes, then: bytes = b"") -> Attack:
    """The answers to the greeting and to the request, and what follows."""

    def attack(connection: Connection) -> None:
        connection.read(connection.read(2)[1])
        for number, answer in enumerate(answers):
            connection.send(answer)
            if number == 0 and len(answers) > 1:
                kind = connection.read(4)[3]
                connection.read({1: 6, 4: 18}.get(kind) or connection.read(1)[0] + 2)
        if then:
            connection.send(then)
        connection.silence()

    return attack


HTTP_PROXY_ATTACKS: dict[str, Attack] = {
    "closes at once": _closes,
    "says nothing": Connection.silence,
    "junk instead of a handshake": _answers(GO_ON + b"\xff" * 10_000, closes=False),
    "plain HTTP instead of a handshake": _answers(GO_ON + PAGE, closes=False),
    "a handshake with its own certificate": _own_certificate,
    "another password for ever": _again_and_again(
        b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n"
    ),
    "a redirect": _answers(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
    "a page instead of a tunnel": _answers(b"HTTP/1.1 403 No\r\nContent-Length: 8\r\n\r\nnot mine"),
    "an endless page instead of a tunnel": _floods(b"HTTP/1.1 403 No\r\n\r\n", b"x" * 65_536),
    "an endless announced page": _floods(b"HTTP/1.1 403 No\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 65_536),
    "an endless chunked page": _floods(b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 9_000),
    "a megabyte of headers": _answers(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 1_000_000 + b"\r\n\r\n"),
    "endless headers": _floods(b"HTTP/1.1 200 OK\r\n", b"X-Header: some value\r\n" * 1_000),
    "endless 1xx": _floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000),
    "headers that trickle": _trickles,
    "status 000": _answers(b"HTTP/1.1 000 What\r\n\r\n"),
    "101": _answers(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", closes=False),
    "204": _answers(b"HTTP/1.1 204 No Content\r\n\r\n", closes=False),
}
"""To a request for a tunnel (CONNECT). None of these may become a page."""

SOCKS_ATTACKS: dict[str, Attack] = {
    "closes at once": _closes,
    "says nothing": Connection.silence,
    "another version": _socks(b"\x04\x00"),
    "a method nobody offered": _socks(b"\x05\x80"),
    "half an answer": _socks(b"\x05\x00", b"\x05\x00\x00"),
    "an unknown kind of address": _socks(b"\x05\x00", b"\x05\x00\x00\x09" + bytes(300)),
    "a name longer than what follows": _socks(b"\x05\x00", b"\x05\x00\x00\x03\xff" + b"x" * 10),
    "an unknown error": _socks(b"\x05\x00", b"\x05\x77\x00\x01" + bytes(6)),
    "junk instead of a handshake": _socks(b"\x05\x00", b"\x05\x00\x00\x01\x7f\0\0\1\0\x16", then=b"\xff" * 10_000),
}
"""To a request for https; the address that the last one names is inside."""
