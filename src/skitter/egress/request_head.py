"""Parsing of the heads of proxy requests and responses: target, body length, and headers to forward."""

from __future__ import annotations

import base64
import hmac
import re
from typing import NamedTuple

MAX_HEAD_BYTES = 65_536
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\S+) HTTP/1\.[01]")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*+([^\x00-\x08\x0a-\x1f\x7f]*+)")
_PATH_BEGIN = re.compile(r"[/?#]")
_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:@/?#\[\]\\]+)(?::([0-9]{1,5}))?")
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: .*)?")
_HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate"),
        *(b"te", b"trailer", b"upgrade"),
    )
)


class RefusedRequestError(Exception):
    """A request that the proxy refuses with a response of its own."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.reason = reason

    def answer(self) -> bytes:
        """Return the complete response."""
        lines = [f"HTTP/1.1 {self.status} {self.reason}", "Content-Length: 0", "Connection: close"]
        if self.status == 407:
            lines.append('Proxy-Authenticate: Basic realm="skitter"')
        return "\r\n".join([*lines, "", ""]).encode()


class ProxyRequest(NamedTuple):
    """Request of a client to the proxy."""

    host: str
    """Name or IP address, without brackets."""
    port: int
    is_tunnel: bool
    head: bytes
    """Head to send to the server; empty for a tunnel."""
    body_bytes: int


def read_request(head: bytes, authorization: bytes) -> ProxyRequest:
    """Parse a request head, including its empty line. Raises RefusedRequestError, first for a missing password."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    headers = _headers(lines)
    given = [value for name, value in headers if name.lower() == b"proxy-authorization"]
    # Checked before the request line: without the password, every target gets the same answer, 407.
    if len(given) != 1 or not hmac.compare_digest(given[0], authorization):
        raise RefusedRequestError(407, "Proxy Authentication Required")
    found = _LINE.fullmatch(first)
    if found is None:
        raise RefusedRequestError(400, "Bad Request")
    method, target = found[1], found[2].decode("latin-1")
    if method == b"CONNECT":
        host, port = _authority(target, None)
        return ProxyRequest(host, port, is_tunnel=True, head=b"", body_bytes=0)
    if target[:7].lower() != "http://":
        raise RefusedRequestError(400, "Bad Request")
    authority = _PATH_BEGIN.split(target[7:], maxsplit=1)[0]
    host, port = _authority(authority, 80)
    path = target[7 + len(authority) :].partition("#")[0]
    body_bytes = _body_bytes(headers)
    kept = [(name, value) for name, value in _end_to_end(headers) if name.lower() != b"host"]
    kept = [(b"Host", authority.encode("latin-1")), *kept, (b"Connection", b"close")]
    path = path if path.startswith("/") else f"/{path}"
    return ProxyRequest(
        host,
        port,
        is_tunnel=False,
        head=_joined(b"%b %b HTTP/1.1" % (method, path.encode("latin-1")), kept),
        body_bytes=body_bytes,
    )


def read_answer(head: bytes) -> tuple[int, bytes]:
    """Return the status of a response and the head to forward. Raises ValueError if it is not HTTP."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    found = _STATUS.fullmatch(first)
    if found is None:
        raise ValueError("not HTTP")
    status = int(found[1])
    if status < 200:
        return status, head
    # Only hop-by-hop headers are changed; malformed headers of the server are left to the client.
    named = _named_by_connection(lines)
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in named]
    return status, b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


def basic(user: str, password: str) -> bytes:
    """Return the value of the Proxy-Authorization header for a user and password."""
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


def _headers(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    found = [_HEADER.fullmatch(line) for line in lines]
    if any(one is None for one in found):
        raise RefusedRequestError(400, "Bad Request")
    return [(one[1], one[2].rstrip()) for one in found if one is not None]


def _authority(text: str, default: int | None) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    port = int(found[2]) if found is not None and found[2] else default
    if found is None or port is None or not 0 < port < 65_536:
        raise RefusedRequestError(400, "Bad Request")
    return found[1].strip("[]"), port


def _body_bytes(headers: list[tuple[bytes, bytes]]) -> int:
    if any(name.lower() == b"transfer-encoding" for name, _ in headers):
        raise RefusedRequestError(411, "Length Required")
    lengths = {value for name, value in headers if name.lower() == b"content-length"}
    if len(lengths) > 1 or not all(value.isdigit() and len(value) < 16 for value in lengths):
        raise RefusedRequestError(400, "Bad Request")
    return int(next(iter(lengths), b"0"))


def _end_to_end(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    named = _named_by_connection([b"%b: %b" % header for header in headers])
    return [header for header in headers if header[0].lower() not in named]


def _named_by_connection(lines: list[bytes]) -> frozenset[bytes]:
    """Return the names of hop-by-hop headers, including those listed in Connection."""
    named: set[bytes] = set()
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"connection":
            named.update(word.strip().lower() for word in value.split(b","))
    # Kept even if Connection lists them: without them a body would have no end, or a different one.
    return _HOP_BY_HOP | (named - {b"content-length", b"transfer-encoding", b"host"})


def _joined(first: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    return b"\r\n".join([first, *(b"%b: %b" % header for header in headers), b"", b""])
