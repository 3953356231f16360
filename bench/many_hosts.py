"""Many small sites on one port, and the name server that knows them: many_hosts.py [--certificate FILE --key FILE].

Each site has ``PAGES`` pages; the first one links to the others. One process answers HTTP or HTTPS for all names and
counts what it is asked. It obeys lines on its standard input: ``counts`` prints them as a JSON object, ``new`` forgets
them, and ``mark N`` has a line printed when the Nth request comes.

The name server has port 53, which the system's resolver asks: it needs a network namespace (``enter_namespace``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import uvloop

PAGES = 7
PAGE_BYTES = 4000
DOMAIN = "co.zz"
"""One certificate is good for all names, and each of them is a zone: see ``zone_of`` in skitter."""
_TEXT = " ".join(f"word{number % 977}" for number in range(PAGE_BYTES // 8))
_A, _SECONDS_TO_LIVE = 1, 300


def name_of(host: int) -> str:
    return f"h{host:05}.{DOMAIN}"


def html_of(page: int) -> bytes:
    # None to the first page: Scrapy would fetch it twice, because what it begins with is not filtered.
    links = range(1, PAGES) if page == 0 else [page % (PAGES - 1) + 1]
    anchors = "".join(f'<p><a href="/{link}">Page {link}</a></p>' for link in links)
    text = _TEXT[: PAGE_BYTES - 120 - len(anchors)]
    head = f"<!doctype html><html><head><title>Page {page}</title></head>"
    return f"{head}<body>{anchors}<p>{text}</p></body></html>".encode()


class Counts:
    """What the server has seen since ``new``."""

    def __init__(self) -> None:
        self.requests = self.connections = self.full_handshakes = self.resumed = self.lookups = 0
        self.longest_gap_seconds = 0.0
        self.last: dict[bytes, float] = {}

    def request(self, host: bytes) -> None:
        self.requests += 1
        now = time.monotonic()
        before = self.last.get(host)
        if before is not None and now - before > self.longest_gap_seconds:
            self.longest_gap_seconds = now - before
        self.last[host] = now

    def told(self) -> str:
        return json.dumps({name: value for name, value in vars(self).items() if name != "last"})


class Web:
    """The answers, ready to be written, and the counts."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.marks: set[int] = set()
        self.answers = {b"/" + (str(page).encode() if page else b""): _answer(html_of(page)) for page in range(PAGES)}
        self.missing = _answer(b"", b"404 Not Found")

    def request(self, head: bytes) -> bytes:
        path = head.split(b" ", 2)[1]
        _, _, rest = head.partition(b"\r\nHost: ")
        self.counts.request(rest.partition(b"\r\n")[0])
        if self.counts.requests in self.marks:
            print(f"mark {self.counts.requests}", flush=True)
        return self.answers.get(path, self.missing)


def _answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %b\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
    return head + body


class Connection(asyncio.Protocol):
    def __init__(self, web: Web) -> None:
        self._web = web
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        counts = self._web.counts
        counts.connections += 1
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            counts.resumed += tls.session_reused
            counts.full_handshakes += not tls.session_reused

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for head in heads:
            self._transport.write(self._web.request(head + b"\r\n"))


class NameServer(asyncio.DatagramProtocol):
    """Every name has the address 127.0.0.1 and none of IPv6; ``silent`` ones get no answer."""

    def __init__(self, web: Web, seconds: float) -> None:
        self._web, self._seconds = web, seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)  # uvloop's are of a class of their own

    def datagram_received(self, data: bytes, address: object) -> None:
        self._web.counts.lookups += 1
        end = data.index(0, 12) + 5
        if b"silent" in data[12:end]:
            return
        has_answer = int.from_bytes(data[end - 4 : end - 2], "big") == _A
        answer = data[:2] + b"\x81\x80\0\1\0" + bytes([has_answer]) + b"\0\0\0\0" + data[12:end]
        if has_answer:
            answer += b"\xc0\x0c\0\1\0\1" + _SECONDS_TO_LIVE.to_bytes(4, "big") + b"\0\4\x7f\0\0\1"
        asyncio.get_running_loop().call_later(self._seconds, self._transport.sendto, answer, address)


async def serve(options: argparse.Namespace) -> None:
    loop, web, context = asyncio.get_running_loop(), Web(), None
    if options.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate, options.key)
        if options.tls == "1.2":
            context.maximum_version = ssl.TLSVersion.TLSv1_2
    port = 443 if context else 80
    await loop.create_server(lambda: Connection(web), "127.0.0.1", port, ssl=context, backlog=1024)
    await loop.create_datagram_endpoint(lambda: NameServer(web, options.name_seconds), ("127.0.0.1", 53))
    print("ready", flush=True)
    ended = loop.create_future()
    loop.add_reader(0, _obey, web, lambda: ended.set_result(None))
    await ended


def _obey(web: Web, end: Callable[[], None]) -> None:
    lines = os.read(0, 4096)
    if not lines:
        asyncio.get_running_loop().remove_reader(0)
        end()
    for line in lines.decode().splitlines():
        if line == "new":
            web.counts, web.marks = Counts(), set()
        elif line.startswith("mark "):
            web.marks.add(int(line[5:]))
        else:
            print(web.counts.told(), flush=True)


def enter_namespace(script: str, arguments: list[str]) -> None:
    """Run the script again where this machine's resolver asks port 53 of loopback; no rights are needed for it."""
    with tempfile.NamedTemporaryFile("w", prefix="resolv-", suffix=".conf") as resolver:
        resolver.write("nameserver 127.0.0.1\noptions timeout:2 attempts:2\n")
        resolver.flush()
        setup = 'ip link set lo up && mount --bind "$0" /etc/resolv.conf && exec "$@"'
        command = ["unshare", "--user", "--map-root-user", "--mount", "--net", "sh", "-c", setup, resolver.name]
        raise SystemExit(subprocess.run([*command, sys.executable, script, *arguments], check=False).returncode)


def many_sockets() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    parser = argparse.ArgumentParser(description="many small sites, and their name server")
    parser.add_argument("--certificate", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--tls", choices=("1.2", "1.3"), default="1.3")
    parser.add_argument("--name-seconds", type=float, default=0.03, help="how long a name lookup takes")
    options = parser.parse_args()
    many_sockets()
    uvloop.run(serve(options))


if __name__ == "__main__":
    main()
