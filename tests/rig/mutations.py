"""Broken pages without end: real-looking ones, mutated. Page ``number`` of a seed is always the same page."""

from __future__ import annotations

import functools
import random
from typing import NamedTuple

from skitter.testing.web import WebSpec
from skitter.testing.web_pages import page
from skitter.testing.web_render import render

MAX_BYTES = 1_500_000
_CHARSETS = (
    "utf-8 windows-1252 utf-16 utf-16le utf-16be utf-7 shift_jis gb18030 iso-2022-jp big5 x-user-defined no \0".split(
        " "
    )
)
_TYPES = ("text/html", "application/xhtml+xml", "text/xml", "image/svg+xml", "", "text/plain", "x", "TEXT/HTML ;;")
_NAMES = (
    b"div p span a b i font table tr td th tbody caption col colgroup select option optgroup svg math g mi mtext "
    b"foreignObject desc annotation-xml template noscript frameset frame form button object marquee applet ul ol li dl "
    b"dt dd h1 nobr ruby rt rp script style title textarea xmp iframe noembed noframes plaintext html head body base "
    b"image isindex br hr img input x custom-element details summary dialog area"
).split()
_NASTY = (
    *(
        b"<!--",
        b"-->",
        b"<!-->",
        b"<!--->",
        b"--!>",
        b"<![CDATA[",
        b"]]>",
        b"<?",
        b"<!DOCTYPE ",
        b"<!doctype html SYSTEM '",
    ),
    *(
        b"&",
        b"&#",
        b"&#x",
        b"&#0;",
        b"&#xD800;",
        b"&#x110000;",
        b"&#99999999999999999999;",
        b"&amp",
        b"&notin;",
        b"&lt",
    ),
    *(
        b"<",
        b">",
        b"</",
        b"/>",
        b'"',
        b"'",
        b"=",
        b"\0",
        b"\r",
        b"\x0c",
        b"\x1b]52;c;x\x07",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
    ),
    *(b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe2\x80\xae", b"\x80", b"\xf0\x9f"),
    *(
        b"<a href='http://[::1'>",
        b"<a href='http://a b/'>",
        b"<a href=\x00>",
        b"<a href='//'>",
        b"<a href='http://%00/'>",
    ),
    *(b"<a href='http://xn--\xff/'>", b"<a href='javascript:'>", b"<base href='http://['>", b"<base href='data:,'>"),
    *(b"<svg><a xlink:href=x>", b"<meta charset=utf-16>", b"<meta http-equiv=content-type content='x; charset='>"),
    *(b"<table><a href=1><tr><a href=2>", b"</p></br></body></html>", b"<script><!--<script>", b"<math><mi><table>"),
)


class Mutant(NamedTuple):
    content_type: str
    body: bytes


@functools.cache
def corpus() -> list[bytes]:
    """Pages of the synthetic web, in all its encodings, and a few that no generator thinks of."""
    spec = WebSpec(hosts=2, pages_per_host=60)
    bases = {host: f"http://h{host}.test" for host in range(-3, spec.hosts)}
    pages = []
    for host in range(spec.hosts):
        for index in range(spec.pages_per_host):
            one = page(spec, host, index)
            if one.location is None:
                pages.append(render(spec, one, bases, compressed=False).bytes)
    pages.append(
        b"<!doctype html><html><head><title>x</title><body>" + b"".join(b"<%s>x</%s>" % (n, n) for n in _NAMES)
    )
    pages.append(b"<table>" + b"<tr><td><a href=/%d>x</a>" * 50)
    pages.append(b"<svg viewBox='0 0 1 1'><g><path d='M0 0'/><a href=/x><title>t</title></a></g></svg>" * 20)
    pages.append(b"<?xml version='1.0' encoding='utf-8'?><rss><item><link>http://x.test/</link></item></rss>")
    pages.append(b"<urlset>" + b"<url><loc>http://x.test/</loc></url>" * 50 + b"</urlset>")
    return [one for one in pages if one]


def mutant(seed: int, number: int) -> Mutant:
    chance = random.Random(f"{seed}/{number}")
    pages = corpus()
    body = chance.choice(pages)
    for _ in range(chance.choice((1, 1, 2, 3, 5, 8))):
        body = chance.choice(_MUTATIONS)(chance, body)
    if chance.random() < 0.03:
        body = chance.choice(_BOMBS)(chance, body)
    charset = f"; charset={chance.choice(_CHARSETS)}" if chance.random() < 0.5 else ""
    return Mutant(chance.choice(_TYPES if chance.random() < 0.3 else _TYPES[:1]) + charset, body[:MAX_BYTES])


def _cut(chance: random.Random, body: bytes) -> tuple[bytes, bytes, bytes]:
    """Before, a slice, after."""
    start = chance.randrange(len(body) + 1)
    end = min(len(body), start + int(chance.paretovariate(0.7)))
    return body[:start], body[start:end], body[end:]


def _flip(chance: random.Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(chance.choice((1, 3, 10, 100)) if changed else 0):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _truncate(chance: random.Random, body: bytes) -> bytes:
    return body[: chance.randrange(len(body) + 1)]


def _drop(chance: random.Random, body: bytes) -> bytes:
    before, _, after = _cut(chance, body)
    return before + after


def _repeat(chance: random.Random, body: bytes) -> bytes:
    before, piece, after = _cut(chance, body)
    times = int(chance.paretovariate(0.5))
    return before + piece * min(times, 20_000, MAX_BYTES // (len(piece) + 1)) + after


def _splice(chance: random.Random, body: bytes) -> bytes:
    before, _, after = _cut(chance, body)
    return before + _cut(chance, chance.choice(corpus()))[1] + after


def _insert(chance: random.Random, body: bytes) -> bytes:
    before, piece, after = _cut(chance, body)
    return before + chance.choice(_NASTY) + piece + chance.choice(_NASTY) * chance.choice((1, 1, 50)) + after


def _tags(chance: random.Random, body: bytes) -> bytes:
    before, piece, after = _cut(chance, body)
    written = b"".join(
        b"<%s%s%s>"
        % (chance.choice((b"", b"", b"/")), chance.choice(_NAMES), chance.choice((b"", b" x=%d" % place, b" /")))
        for place in range(chance.choice((1, 5, 40)))
    )
    return before + written + piece + after


def _recode(chance: random.Random, body: bytes) -> bytes:
    codec = chance.choice(("utf-16-le", "utf-16-be", "utf-16", "utf-32", "shift_jis", "gb18030", "utf-7"))
    return body.decode("utf-8", "replace").encode(codec, "replace")


def _swap(chance: random.Random, body: bytes) -> bytes:
    return body.replace(
        *chance.choice(((b">", b""), (b'"', b"'"), (b"</", b"<"), (b" ", b"\0"), (b"<", b"<<"), (b"/", b"")))
    )


def _bomb(chance: random.Random, body: bytes) -> bytes:
    """One piece of markup, very often; perhaps with what pretends to close it, perhaps each one different."""
    names = [chance.choice(_NAMES) for _ in range(chance.choice((1, 1, 2, 3)))]
    piece = b"".join(
        b"<" + name + chance.choice((b"", b" a=%d", b" a%d", b" a='>' b='<p></p>'")) + b">" for name in names
    )
    piece += chance.choice((b"", b"", b"x", b"</x>", b"<!--</%s>-->" % names[0], b"<object></%s></object>" % names[0]))
    piece += chance.choice((b"", b"", b"</%s>" % names[-1], chance.choice(_NASTY).replace(b"%", b"")))
    times = chance.choice((1_000, 5_000, 20_000, 100_000))
    numbered = piece.count(b"%d")
    written = b"".join(piece % ((place,) * numbered) for place in range(times)) if numbered else piece * times
    before, _, after = _cut(chance, body)
    return before + written[:MAX_BYTES] + after


def _attributes(chance: random.Random, body: bytes) -> bytes:
    form = chance.choice((b"a%d ", b"a%d=x ", b'a%d="<p></p>" ', b"a%d/", b"=%d ", b"a%d='x"))
    written = b"".join(form % place for place in range(chance.choice((1_000, 20_000, 100_000))))
    before, _, after = _cut(chance, body)
    return before + b"<" + chance.choice(_NAMES) + b" " + written + after


_MUTATIONS = (_flip, _truncate, _drop, _repeat, _splice, _splice, _insert, _insert, _tags, _tags, _recode, _swap)
_BOMBS = (_bomb, _bomb, _bomb, _attributes)
