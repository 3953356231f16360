"""Attacks of an HTTP/2 server on its client, in frames written by hand (RFC 9113, RFC 7541)."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable, Iterator

from rig.web_connection import Attack, Connection, tls_context

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ALTSVC = 10
ACK = END_STREAM = 1
END_HEADERS, PADDED = 4, 8
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
OK = b"\x88"
"""``:status: 200`` of HPACK's static table."""
NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, HTTP_1_1_REQUIRED = 0, 2, 7, 8, 13
INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS = 4, 3


def http2_context() -> ssl.SSLContext:
    """TLS that speaks HTTP/2 only."""
    return tls_context(("h2",))


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def literal(name: bytes, value: bytes, *, indexed: bool = False) -> bytes:
    """A header field without Huffman code; ``indexed``: it also enters the table of the connection."""
    return (b"\x40" if indexed else b"\x00") + _string(name) + _string(value)


def _string(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes((len(text),)) + text
    rest, length = len(text) - 127, b"\x7f"
    while rest >= 128:
        length += bytes((rest % 128 | 128,))
        rest //= 128
    return length + bytes((rest,)) + text


def settings(**values: int) -> bytes:
    numbers = {"window": INITIAL_WINDOW_SIZE, "streams": MAX_CONCURRENT_STREAMS}
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", numbers[name], value) for name, value in values.items()))


def requests(connection: Connection, opening: bytes = frame(SETTINGS, 0, 0)) -> Iterator[int]:
    """The streams on which requests come; what else comes is answered as it must be."""
    connection.read(len(PREFACE))
    connection.send(opening)
    while True:
        head = connection.read(9)
        payload = connection.read(int.from_bytes(head[:3], "big"))
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
        if kind == SETTINGS and not flags & ACK:
            connection.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            connection.send(frame(PING, ACK, 0, payload))
        elif kind == HEADERS:
            yield stream


def _page(stream: int, body: bytes = b"fine", headers: bytes = b"") -> bytes:
    return frame(HEADERS, END_HEADERS, stream, OK + headers) + frame(DATA, END_STREAM, stream, body)


def good(connection: Connection) -> None:
    """No attack: 200 for every request."""
    for stream in requests(connection):
        connection.send(_page(stream))


def _each(answer: Callable[[int], bytes], opening: bytes = frame(SETTINGS, 0, 0)) -> Attack:
    """The same bytes for every request, but for the number of its stream."""

    def attack(connection: Connection) -> None:
        for stream in requests(connection, opening):
            connection.send(answer(stream))

    return attack


def _flooded(
    again: Callable[[int], bytes], first: Callable[[int], bytes] = lambda _stream: b"", *, reads: bool = False
) -> Attack:
    """``first`` once and ``again`` for ever, from the first request on."""

    def attack(connection: Connection) -> None:
        stream = next(requests(connection))
        connection.send(first(stream))
        connection.flood(again(stream), reads=reads)

    return attack


def _reset(code: int) -> Attack:
    return _each(lambda stream: frame(RST_STREAM, 0, stream, code.to_bytes(4, "big")))


def _headers_open(stream: int) -> bytes:
    return frame(HEADERS, 0, stream, OK)


def _hpack_bomb(kind: int = HEADERS) -> Callable[[int], bytes]:
    """One header of 4,000 bytes that is named 16,000 times, a byte each: 64 MB in 20 KB."""

    def payload(stream: int) -> bytes:
        first = OK if kind == HEADERS else b""
        opening = frame(HEADERS, 0, stream, first + literal(b"x", b"y" * 4_000, indexed=True))
        return opening + frame(CONTINUATION, END_HEADERS, stream, b"\xbe" * 16_000)

    return payload


def _resets_before_answers(connection: Connection) -> None:
    for stream in requests(connection):
        connection.send(frame(HEADERS, END_HEADERS, stream, OK) + frame(RST_STREAM, 0, stream, bytes(4)) * 1_000)


def _goaway(last: int, code: int = NO_ERROR) -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", last, code))


def _goaway_at_once(connection: Connection) -> None:
    connection.read(len(PREFACE))
    connection.send(frame(SETTINGS, 0, 0) + _goaway(0))
    connection.silence()


def _push(connection: Connection) -> None:
    for stream in requests(connection):
        promise = frame(PUSH_PROMISE, END_HEADERS, stream, (2).to_bytes(4, "big") + b"\x82\x84\x87\x41\x01a")
        connection.send(promise + _page(stream))


def _never_settings(connection: Connection) -> None:
    connection.read(len(PREFACE))
    connection.silence()


def _http1(connection: Connection) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    connection.silence()


def _split_headers(connection: Connection) -> None:
    for stream in requests(connection):
        connection.send(frame(HEADERS, 0, stream, OK))
        connection.send(frame(CONTINUATION, 0, stream, literal(b"x", b"y" * 60)) * 200)
        connection.send(frame(CONTINUATION, END_HEADERS, stream) + frame(DATA, END_STREAM, stream, b"fine"))


def _chunk(stream: int, size: int, count: int) -> bytes:
    return frame(DATA, 0, stream, b"x" * size) * count


_HEADERS_OPEN_FILL = literal(b"x-fill", b"y" * 100) * 140

HTTP2_ANSWERS: dict[str, Attack] = {
    "reset of each stream": _reset(INTERNAL_ERROR),
    "reset without an error": _reset(NO_ERROR),
    "refusal of each stream": _reset(REFUSED_STREAM),
    "cancel of each stream": _reset(CANCEL),
    "demand for HTTP/1.1": _reset(HTTP_1_1_REQUIRED),
    "reset flood after the headers": _resets_before_answers,
    "GOAWAY after the request": _each(lambda _stream: _goaway(0)),
    "GOAWAY at once": _goaway_at_once,
    "answer on another stream": _each(lambda stream: _page(stream + 2)),
    "answer on stream 0": _each(lambda _stream: _page(0)),
    "push": _push,
    "no streams allowed": _each(_page, settings(streams=0)),
    "no SETTINGS": _never_settings,
    "HTTP/1.1 where HTTP/2 was agreed": _http1,
    "HPACK bomb": _each(_hpack_bomb()),
    "HPACK bomb in trailers": _each(
        lambda stream: frame(HEADERS, END_HEADERS, stream, OK) + _hpack_bomb(CONTINUATION)(stream)
    ),
    "headers in 200 frames": _split_headers,
    "no status": _each(lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(b"x", b"y"))),
    "status 000": _each(lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(b":status", b"000"))),
    "status twice": _each(lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, OK + OK)),
    "NUL and line feeds in a header": _each(lambda stream: _page(stream, headers=literal(b"x", b"a\0b\r\nset: c"))),
    "broken HPACK": _each(lambda stream: frame(HEADERS, END_HEADERS, stream, b"\xff\xff\xff\xff\xff\xff")),
    "421": _each(lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, literal(b":status", b"421"))),
    "DATA before HEADERS": _each(lambda stream: frame(DATA, END_STREAM, stream, b"fine")),
    "more than Content-Length": _each(lambda stream: _page(stream, b"much more", literal(b"content-length", b"2"))),
    "less than Content-Length": _each(lambda stream: _page(stream, b"much", literal(b"content-length", b"2000"))),
    "body without an end": _each(
        lambda stream: frame(HEADERS, END_HEADERS, stream, OK) + frame(DATA, 0, stream, b"half")
    ),
    "frame above the agreed size": _each(lambda stream: frame(DATA, 0, stream, bytes(1_000_000))),
    "window overflow": _each(lambda stream: frame(WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff") * 2),
    "window of one byte": _each(_page, settings(window=1)),
    "window of nothing": _each(_page, settings(window=0)),
    "window of nothing, no answer": _each(lambda _stream: b"", settings(window=0)),
}
"""To each request something bad, once. By name; they need ``http2_context``."""

HTTP2_FLOODS: dict[str, Attack] = {
    "reset flood": _flooded(lambda stream: frame(RST_STREAM, 0, stream, bytes(4)) * 1_000),
    "reset of idle streams": _flooded(lambda stream: frame(RST_STREAM, 0, stream + 2, bytes(4)) * 1_000),
    "GOAWAY flood": _flooded(lambda _stream: _goaway(2**31 - 1) * 1_000),
    "endless CONTINUATION": _flooded(lambda stream: frame(CONTINUATION, 0, stream, _HEADERS_OPEN_FILL), _headers_open),
    "endless empty CONTINUATION": _flooded(lambda stream: frame(CONTINUATION, 0, stream) * 1_000, _headers_open),
    "1xx flood": _flooded(lambda stream: frame(HEADERS, END_HEADERS, stream, literal(b":status", b"103")) * 1_000),
    "endless trailers": _flooded(
        lambda stream: frame(CONTINUATION, 0, stream, _HEADERS_OPEN_FILL),
        lambda stream: frame(HEADERS, END_HEADERS, stream, OK) + frame(HEADERS, END_STREAM, stream, b""),
    ),
    "many trailer blocks": _flooded(
        lambda stream: frame(HEADERS, END_HEADERS, stream, literal(b"x", b"y")) * 1_000,
        lambda stream: frame(HEADERS, END_HEADERS, stream, OK),
    ),
    "empty DATA flood": _flooded(
        lambda stream: _chunk(stream, 0, 1_000), lambda stream: frame(HEADERS, END_HEADERS, stream, OK)
    ),
    "DATA of one byte": _flooded(
        lambda stream: _chunk(stream, 1, 1_000), lambda stream: frame(HEADERS, END_HEADERS, stream, OK)
    ),
    "DATA that is all padding": _flooded(
        lambda stream: frame(DATA, PADDED, stream, b"\xff" + bytes(255)) * 100,
        lambda stream: frame(HEADERS, END_HEADERS, stream, OK),
    ),
    "SETTINGS flood": _flooded(lambda _stream: frame(SETTINGS, 0, 0) * 1_000),
    "SETTINGS flood with values": _flooded(lambda _stream: settings(window=1, streams=1) * 1_000),
    "SETTINGS that change, acknowledgements read": _flooded(
        lambda _stream: (settings(streams=9) + settings(streams=7)) * 20, reads=True
    ),
    "PING flood, answers read": _flooded(lambda _stream: frame(PING, 0, 0, bytes(8)) * 50, reads=True),
    "one SETTINGS of 16 KB": _flooded(lambda _stream: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1) * 2_700)),
    "PING flood": _flooded(lambda _stream: frame(PING, 0, 0, bytes(8)) * 1_000),
    "PING answers nobody asked for": _flooded(lambda _stream: frame(PING, ACK, 0, bytes(8)) * 1_000),
    "PRIORITY flood": _flooded(lambda stream: frame(PRIORITY, 0, stream, bytes(4) + b"\x10") * 1_000),
    "WINDOW_UPDATE flood": _flooded(lambda stream: frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\1") * 1_000),
    "unknown frame flood": _flooded(lambda stream: frame(200, 0, stream, bytes(8)) * 1_000),
    "ALTSVC flood": _flooded(lambda _stream: frame(ALTSVC, 0, 0, b'\0\1ah2=":22"') * 1_000),
    "junk": _flooded(lambda _stream: b"\xff" * 9_000),
}
"""From the first request on the same for ever. By name; they need ``http2_context``."""
