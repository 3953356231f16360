"""WARC 1.1 records (ISO 28500) as bytes: request, response and revisit records of a page.

A record is a head, a block and two empty lines. Digests are SHA-1 in base 32, as everybody writes them. The HTTP head
must not claim what is not so: bodies are decoded, so the codings and the length of the wire have other names.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from skitter._version import __version__
from skitter.model.page import Page
from skitter.model.request import Request

VERSION = b"WARC/1.1\r\n"
REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
_CONFORMS_TO = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
_OF_THE_WIRE = ("content-encoding", "transfer-encoding", "content-length")
_PRIVATE = ("authorization", "cookie", "proxy-authorization")
_BREAKS = re.compile(r"[\r\n\0]+")
Head = list[tuple[str, str]]


def record(kind: str, head: Head, block: bytes) -> bytes:
    """Return one record; its type, length and block digest are added."""
    lines = [("WARC-Type", kind), *head, ("WARC-Block-Digest", digest(block)), ("Content-Length", str(len(block)))]
    return VERSION + _head(lines) + b"\r\n" + block + b"\r\n\r\n"


def warcinfo() -> bytes:
    """Return the record that begins a file."""
    fields = [("software", f"skitter/{__version__}"), ("format", "WARC File Format 1.1"), ("conformsTo", _CONFORMS_TO)]
    head = [
        ("WARC-Record-ID", new_id()),
        ("WARC-Date", date_of(time.time())),
        ("Content-Type", "application/warc-fields"),
    ]
    return record("warcinfo", head, _head(fields))


def request_record(request: Request, page: Page, sent: Mapping[str, str], *, date: str, response_id: str) -> bytes:
    """Return the record of the request as libcurl sent it; ``sent`` are headers that every request has."""
    parts = urlsplit(target_uri(page))
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    given = {name.lower() for name in request.headers}
    headers = [("Host", parts.netloc)]
    headers += [(name, value) for name, value in sent.items() if name.lower() not in given]
    headers += [(name, value) for name, value in request.headers.items() if name.lower() not in _PRIVATE]
    if request.body:
        headers.append(("Content-Length", str(len(request.body))))
    block = f"{request.method} {path} HTTP/1.1\r\n".encode("latin-1") + _head(headers) + b"\r\n" + request.body
    head = [
        ("WARC-Record-ID", new_id()),
        ("WARC-Date", date),
        ("WARC-Target-URI", target_uri(page)),
        ("WARC-Concurrent-To", response_id),
        *_address(page),
        ("Content-Type", "application/http; msgtype=request"),
    ]
    return record("request", head, block)


def response_record(page: Page, *, date: str, response_id: str) -> bytes:
    """Return the record of the server's response."""
    block = _status_line(page) + _head(_truthful(page)) + b"\r\n" + page.body
    head = [
        ("WARC-Record-ID", response_id),
        ("WARC-Date", date),
        ("WARC-Target-URI", target_uri(page)),
        *_address(page),
        ("WARC-Payload-Digest", digest(page.body)),
        ("Content-Type", "application/http; msgtype=response"),
    ]
    return record("response", head, block)


def revisit_record(response: bytes, original_url: str, original_date: str, original_id: str) -> bytes:
    """Return the record of a response whose payload is in another record: its heads without the payload.

    ``response`` is its record, or the beginning of it with both heads.
    """
    warc_head, _, rest = response.partition(b"\r\n\r\n")
    http_head = rest.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    head: Head = []
    for line in warc_head.decode("utf-8").split("\r\n")[1:]:
        name, _, value = line.partition(": ")
        if name not in ("WARC-Type", "WARC-Block-Digest", "Content-Length"):
            head.append((name, value))
    head += [
        ("WARC-Profile", REVISIT_PROFILE),
        ("WARC-Refers-To", original_id),
        ("WARC-Refers-To-Target-URI", original_url),
        ("WARC-Refers-To-Date", original_date),
    ]
    return record("revisit", head, http_head)


def target_uri(page: Page) -> str:
    """Return the page's URL without user and password."""
    scheme, slashes, rest = page.url.partition("://")
    authority, slash, path = rest.partition("/")
    return scheme + slashes + authority.rpartition("@")[2] + slash + path


def new_id() -> str:
    return f"<urn:uuid:{uuid.uuid4()}>"


def date_of(seconds: float) -> str:
    """Format wall time for records."""
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1e6):06}Z"


def digest(data: bytes) -> str:
    return "sha1:" + base64.b32encode(sha1(data)).decode()


def sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def _head(lines: Head) -> bytes:
    # UTF-8 in the heads of records; in those of HTTP, whose bytes were read as Latin-1, the bytes that came.
    return b"".join(f"{name}: ".encode() + _value(value) + b"\r\n" for name, value in lines)


def _value(value: str) -> bytes:
    value = _BREAKS.sub(" ", value)
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()


def _status_line(page: Page) -> bytes:
    try:
        reason = HTTPStatus(page.status).phrase
    except ValueError:
        reason = ""
    # HTTP/2 has no form of its own in archives, and readers expect this one.
    version = page.http_version if page.http_version in ("1.0", "1.1") else "1.1"
    return f"HTTP/{version} {page.status} {reason}\r\n".encode()


def _truthful(page: Page) -> Head:
    length = str(len(page.body))
    head: Head = []
    for name, value in page.headers:
        if name in _OF_THE_WIRE and (name, value) != ("content-length", length):
            head.append((f"X-Crawler-{name.title()}", value))
        else:
            head.append((name, value))
    if ("content-length", length) not in head:
        head.append(("Content-Length", length))
    return head


def _address(page: Page) -> Head:
    return [("WARC-IP-Address", page.address)] if page.address else []
