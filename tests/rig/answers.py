"""Hostile answers without end: headers, robots.txt and sitemaps, mostly one thing many times over.

Answer ``number`` of a seed is always the same. Sizes go up to what a fetch lets through; small ones are more frequent.
"""

from __future__ import annotations

import gzip
import math
import random
import zlib
from typing import NamedTuple

KINDS = ("headers", "robots", "headers", "sitemap")
"""In turn; headers are read soonest."""
MAX_LINE_BYTES = 100_000
MAX_HEADER_BYTES = 290_000
MAX_ROBOTS_BYTES = 500 * 1024
"""Bytes of a robots.txt that are read (RFC 9309 2.5)."""
MAX_SITEMAP_BYTES = 4_000_000
MAX_BOMB_BYTES = 53_000_000
MAX_URL_CHARS = 4_000

_BLANKS = (b" ", b"\t", b"\x0b", b"\x0c", b"\x85", b"\xa0", b" \t ")
_SIGNS = tuple(bytes([code]) for code in b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\xff\xe4\0")
_WORDS = (
    b"a",
    b"0",
    b"1",
    b"99",
    b"year",
    b"=2020-01",
    b"xn--",
    b"%41",
    b"%E4%B8%80",
    b"%CC%81",
    b"\xc3\xbc",
    b"..",
    b"//",
)
_ANYWHERE = _BLANKS * 2 + _SIGNS + _WORDS
_IN_HEADER = {
    b"Content-Type": (
        b"text/html; charset=",
        b"text/html",
        b"; charset=",
        b"charset",
        b"charset =",
        b"charset='",
        b"utf-8",
        b"utf-16",
        b"+xml",
    ),
    b"Link": (
        b"<https://a.example/x>; rel=",
        b"<",
        b">",
        b'; rel="',
        b"; rel=canonical",
        b"canonical",
        b"rel=",
        b", <",
    ),
    b"X-Robots-Tag": (b"noindex", b"skitter: ", b"otherbot:", b"unavailable_after: ", b"max-snippet:", b"none", b","),
    b"Retry-After": (b"120", b"+", b"-", b"Fri, 31 Dec 1999 23:59:59 GMT", b"1 Jan ", b":00", b"GMT", b"0"),
    b"Date": (b"Fri, 31 Dec 1999 23:59:59 GMT", b"31-Dec-99", b"Mon,", b"10:00", b"+0000", b"Jan "),
    b"Set-Cookie": (b"a=b", b"; Path=/", b"; Expires=", b"; Domain=.example", b";", b"="),
    b"Location": (
        b"http://",
        b"//",
        b"https:",
        b"/a/../",
        b"?a=1&",
        b"http://user:pw@",
        b"a.example",
        b"\\",
        b"#",
        b"[::1]",
    ),
    b"Content-Disposition": (b"attachment; ", b"filename=", b"filename*=UTF-8''", b'"', b"\\"),
    b"Refresh": (b"0", b"; url=", b"http://a.example/"),
    b"TDM-Reservation": (b"1", b"0", b","),
    b"TDM-Policy": (b"https://a.example/policy", b"%"),
    b"Content-Encoding": (b"gzip", b", ", b"identity"),
    b"X-Other": (b"x",),
}
_IN_PAGE = (
    *(
        b"<meta ",
        b"<meta charset",
        b"charset=",
        b"charset =",
        b" content='text/html;",
        b"<!--",
        b"-->",
        b"<?xml ",
        b">",
    ),
    *(
        b"encoding=",
        b"encoding = '",
        b"<meta name=robots content='",
        b"<link rel=canonical href=",
        b"<base href=",
        b"<title>",
    ),
    *(b"<a href='http://", b"<a href=//", b"<a rel=nofollow href=?", b"'>x</a>", b"&#1234;", b"<script>", b"</script>"),
)
_IN_ROBOTS = (
    *(
        b"User-agent: *",
        b"User-agent: skitter",
        b"user agent",
        b"Disallow: /",
        b"Allow: /",
        b"Dissalow:",
        b"Crawl-delay: ",
    ),
    *(
        b"Sitemap: http://a.example/s.xml",
        b"*",
        b"$",
        b"*a",
        b"/*?",
        b"\n",
        b"\r",
        b"\r\n",
        b"#",
        b": ",
        b"%2F",
        b"%2f",
        b"?",
    ),
)
_IN_SITEMAP = (
    *(
        b"<urlset>",
        b"<sitemapindex>",
        b"<rss><channel>",
        b"<feed>",
        b"<url>",
        b"<loc>",
        b"</loc>",
        b"</url>",
        b"<a/>",
        b"<a>",
    ),
    *(
        b"<url><loc>http://a.example/1</loc></url>",
        b"<sitemap><loc>http://a.example/s</loc></sitemap>",
        b"<item><link>",
    ),
    *(
        b"<entry><link href='http://a.example/'/>",
        b"</entry>",
        b"<link/>",
        b"<!--",
        b"-->",
        b"<![CDATA[",
        b"]]>",
        b"<?x ",
        b"?>",
    ),
    *(
        b"&amp;",
        b"&#x41;",
        b"&lt",
        b"<!DOCTYPE x [",
        b"<!ENTITY a 'b'>",
        b" a='b'",
        b"http://a.example/1\n",
        b"\n",
        b"https://",
    ),
)
_FORMS_OF_LINES = (
    b"Disallow: /%d\n",
    b"Allow: /*%d\n",
    b"Disallow: /*a*%d$\n",
    b"allow:*%d*\n",
    b"User-agent: b%d\n",
    b"Disallow: /a%d/*/b?c=*&d\n",
    b"Sitemap: /s%d.xml\n",
)
_FORMS_OF_ENTRIES = (
    b"<url><loc>http://a.example/%d</loc></url>",
    b"<sitemap><loc>http://a.example/%d.xml</loc></sitemap>",
    b"<item><link>http://b.example/%d</link></item>",
    b"http://a.example/%d\n",
    b"<url><loc>//%d.example/</loc><image:image><image:loc>x</image:loc></image:image></url>",
    b"<e%d/>",
    b"<a b%d='c'/>",
)


class Answer(NamedTuple):
    """What a server sends. ``lines`` are its header lines, the empty one at the end included."""

    kind: str
    status: int
    lines: list[bytes]
    body: bytes
    urls: list[str]
    """To ask a robots.txt about."""


def answer(seed: int, number: int) -> Answer:
    chance = random.Random(f"{seed}/{number}")
    kind = KINDS[number % len(KINDS)]
    if kind == "headers":
        status = chance.choice((200, 200, 200, 301, 302, 307, 404, 429, 500, 503))
        return Answer(kind, status, _headers(chance, status), _page(chance), [])
    if kind == "robots":
        urls = [_url(chance) for _ in range(3)]
        return Answer(kind, 200, [b"HTTP/1.1 200 OK\r\n", b"\r\n"], _robots(chance), urls)
    return Answer(kind, 200, [b"HTTP/1.1 200 OK\r\n", b"\r\n"], _sitemap(chance), [])


def _size(chance: random.Random, most: int) -> int:
    """Of any order of magnitude, each as likely as the next."""
    return int(math.exp(chance.uniform(0, math.log(most))))


def _pumped(chance: random.Random, special: tuple[bytes, ...], most: int) -> bytes:
    """A few things one after another, one or two of them very often."""
    pieces: list[bytes] = []
    left = most
    for _ in range(chance.choice((1, 2, 3, 3, 4, 6))):
        chosen = chance.choices((special, _ANYWHERE), (3, 2), k=chance.choice((1, 1, 1, 2, 3)))
        piece = b"".join(map(chance.choice, chosen))
        wanted = chance.choice((1, 1, 1, _size(chance, most), _size(chance, most), most // 2))
        times = min(wanted, left) // len(piece) + 1
        pieces.append(piece * times)
        left -= len(pieces[-1])
        if left <= 0:
            break
    return b"".join(pieces)[:most]


def _headers(chance: random.Random, status: int) -> list[bytes]:
    lines = [b"HTTP/1.1 %d x\r\n" % status]
    if chance.random() < 0.1:
        lines = [b"HTTP/1.1 103 x\r\n", b"Link: </x>\r\n", b"\r\n", *lines]
    left = MAX_HEADER_BYTES
    names = list(_IN_HEADER)
    for name in chance.choices(names, k=chance.choice((1, 2, 4, 8))) + [b"Location"] * (300 <= status < 400):
        most = min(MAX_LINE_BYTES, left)
        # As a sound one begins, or not.
        begin = chance.choice(_IN_HEADER[name][:2]) if chance.random() < 0.7 else b""
        value = (begin + _pumped(chance, _IN_HEADER[name], most)).translate(None, b"\r\n")[:most]
        times = min(_size(chance, 4_000), max(left, 0) // (len(value) + 20)) if chance.random() < 0.1 else 1
        lines += [name + b": " + value + b"\r\n"] * times
        left -= (len(value) + 20) * times
        if left <= 0:
            break
    lines.append(b"\r\n")
    return [*lines, b"Trailer: x\r\n"] if chance.random() < 0.05 else lines


def _page(chance: random.Random) -> bytes:
    return _pumped(chance, _IN_PAGE, 60_000) if chance.random() < 0.7 else b"<title>x</title>"


def _url(chance: random.Random) -> str:
    path = _pumped(chance, (b"a", b"/", b"?", b"*", b"%2f", b"aaaa"), _size(chance, MAX_URL_CHARS))
    return "http://a.example/" + "".join(chr(code) for code in path if 0x20 < code < 0x7F and code != 0x23)


def _robots(chance: random.Random) -> bytes:
    most = min(_size(chance, 2 * MAX_ROBOTS_BYTES), MAX_ROBOTS_BYTES + 10)
    if chance.random() < 0.3:
        return _flipped(chance, _pumped(chance, _IN_ROBOTS, most))
    form = chance.choice(_FORMS_OF_LINES)
    if chance.random() < 0.5:
        inside = _pumped(chance, _IN_ROBOTS + _ANYWHERE, _size(chance, 3_000)).replace(b"%", b"%%")
        form = form.replace(b"%d", inside + b"%d")
    head = chance.choice((b"User-agent: *\n", b"User-agent: skitter\nUser-agent: *\n", b"user-agent:skitter\n\n"))
    body = head + b"".join(form % number for number in range(most // (len(form) + 3)))
    return body if chance.random() < 0.8 else _flipped(chance, body)


def _sitemap(chance: random.Random) -> bytes:
    most = _size(chance, MAX_SITEMAP_BYTES)
    head = chance.choice(
        (b"", b"<urlset>", b"<sitemapindex>", b"<?xml version='1.0' encoding='utf-16'?><feed>", b"<rss>")
    )
    if head and chance.random() < 0.7:
        # Where nothing is listed before the first mistake, nothing is followed.
        head += chance.choice(_FORMS_OF_ENTRIES[:3]) % 0
    if chance.random() < 0.02:
        piece = chance.choice((*_IN_SITEMAP, b" ", b"\n", b"a\n"))
        body = head + piece * (_size(chance, MAX_BOMB_BYTES) // len(piece))
    elif chance.random() < 0.4:
        form = chance.choice(_FORMS_OF_ENTRIES)
        body = head + b"".join(form % number for number in range(most // len(form)))
    else:
        body = head + _pumped(chance, _IN_SITEMAP, most)
    if chance.random() < 0.2:
        body = _flipped(chance, body)
    if chance.random() < 0.05:
        body = body.decode("latin-1").encode(chance.choice(("utf-16", "utf-16-be", "utf-8-sig")))
    if chance.random() < 0.5:
        body = gzip.compress(body, chance.choice((1, 6)), mtime=0)
        if chance.random() < 0.2:
            body = _flipped(chance, body)
        if chance.random() < 0.05:
            body = gzip.compress(body, 1, mtime=0)
    elif chance.random() < 0.02:
        body = zlib.compress(body)
    return body


def _flipped(chance: random.Random, body: bytes) -> bytes:
    changed = bytearray(body[: chance.randrange(len(body) + 1)] if chance.random() < 0.3 else body)
    for _ in range(chance.choice((1, 3, 10)) if changed else 0):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)
