"""Sitemaps in all their forms, and everything that calls itself one."""

from __future__ import annotations

import contextlib
import gzip
import random
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import SitemapError
from skitter.extract import sitemaps
from skitter.extract.sitemaps import MAX_SITEMAP_RATIO, MAX_SITEMAP_URLS, Listed, listed, listed_in_pieces

XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def urlset(urls: Iterable[str], head: str = '<?xml version="1.0" encoding="UTF-8"?>') -> bytes:
    entries = "".join(f"<url><loc>{url}</loc><lastmod>2026-01-01</lastmod></url>\n" for url in urls)
    return f"{head}\n<urlset {XMLNS}>\n{entries}</urlset>".encode()


def urls(body: bytes) -> list[str]:
    return [entry.url for entry in listed(body)]


def read(body: bytes) -> tuple[list[Listed], str]:
    """What was read, and why not more, if there is a reason."""
    found: list[Listed] = []
    try:
        found.extend(listed(body))
    except SitemapError as error:
        return found, error.rule
    return found, ""


def rule(body: bytes) -> tuple[list[str], str]:
    """What was read, and why not more."""
    found: list[str] = []
    with pytest.raises(SitemapError) as caught:
        found.extend(entry.url for entry in listed(body))
    return found, caught.value.rule


A, B = "https://a.example/1", "https://a.example/2?x=1&amp;y=2"


def test_an_urlset_lists_pages_and_an_index_lists_sitemaps() -> None:
    assert urls(urlset([A, B])) == [A, "https://a.example/2?x=1&y=2"]
    index = f"<sitemapindex {XMLNS}><sitemap><loc> {A}\n</loc></sitemap></sitemapindex>"
    assert list(listed(index.encode())) == [Listed(A, is_sitemap=True)]


def test_images_and_translations_are_no_pages() -> None:
    body = f"""<urlset {XMLNS} xmlns:image="i" xmlns:xhtml="h"><url><loc>{A}</loc>
      <image:image><image:loc>https://a.example/x.png</image:loc></image:image><image:loc>https://a.example/y</image:loc>
      <xhtml:link rel="alternate" hreflang="de" href="https://a.example/de"/></url></urlset>"""
    assert urls(body.encode()) == [A]


def test_a_prefix_that_nobody_declared_is_no_reason_to_stop() -> None:
    assert urls(f"<sm:urlset><sm:url><sm:loc><![CDATA[{A}]]></sm:loc></sm:url></sm:urlset>".encode()) == [A]


def test_feeds_are_sitemaps_too() -> None:
    rss = f"""<rss version="2.0"><channel><link>https://a.example/</link>
      <item><title>x</title><link>{A}</link><guid>7</guid></item></channel></rss>"""
    assert urls(rss.encode()) == [A]
    atom = f"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://a.example/"/>
      <entry><link rel="self" href="https://a.example/self"/><link href="{A}"/></entry>
      <entry><link rel="alternate" href="{B}"/></entry></feed>"""
    assert urls(atom.encode()) == [A, "https://a.example/2?x=1&y=2"]
    rdf = f'<rdf:RDF xmlns:rdf="r"><channel/><item><link>{A}</link></item></rdf:RDF>'
    assert urls(rdf.encode()) == [A]


C = "https://a.example/3"


def of_urls(entries: str) -> str:
    return f"<urlset {XMLNS}>{entries}</urlset>"


def of_sitemaps(entries: str) -> str:
    return f"<sitemapindex {XMLNS}>{entries}</sitemapindex>"


def of_items(items: str) -> str:
    return f'<rss version="2.0"><channel><link>https://a.example/</link>{items}</channel></rss>'


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (of_urls(f"<url>{A}</url>"), [A]),
        (of_urls(f"<url>\n  {A}\n</url><url> {C} </url>"), [A, C]),
        (of_urls(f"<url>{A}<lastmod>2026-01-01</lastmod></url>"), [A]),
        (of_urls(f"<url><![CDATA[{A}]]></url>"), [A]),
        (of_urls(f"<url>{A}\n<lastmod/><priority>1</priority></url>"), [A]),
        (of_urls(f"<url>{A}<loc></loc></url>"), []),
        (of_urls(f"<url>{A}<loc>{C}</loc></url>"), [C]),
        (of_urls(f"<url><loc>{C}</loc>{A}</url>"), [C]),
        (of_urls(f"<url><loc>{C}</loc></url><url>{A}</url><url><loc>{C}</loc></url>"), [C, A, C]),
        (of_urls("<url>/1</url><url>nothing yet</url><url/><url>  </url>"), []),
        (of_urls("<url>mailto:a@a.example</url>"), []),
        (of_urls(f"<x:url>{A}</x:url>"), []),
        (of_urls(f"{A}<other>{A}</other>"), []),
        (f"<sm:urlset><sm:url>{A}</sm:url></sm:urlset>", [A]),
        (of_sitemaps(f"<sitemap>{A}</sitemap>"), [Listed(A, is_sitemap=True)]),
        (of_sitemaps(f"<sitemap>{A}<lastmod>2026</lastmod></sitemap>"), [Listed(A, is_sitemap=True)]),
        (of_sitemaps(f"<sitemap>{A}</sitemap><sitemap><loc>{C}</loc></sitemap>"), [(A, True), (C, True)]),
        (of_sitemaps("<sitemap>soon</sitemap>"), []),
        (of_items(f"<item><guid>{A}</guid></item>"), [A]),
        (of_items(f'<item><title>x</title><guid isPermaLink="true"> {A} </guid></item>'), [A]),
        (
            of_items(f"<item><guid>{A}</guid></item><item><link>{C}</link></item><item><guid>{A}</guid></item>"),
            [A, C, A],
        ),
        (of_items(f"<item><link/><guid>{A}</guid></item>"), [A]),
        (of_items(f"<item><guid>{A}</guid><link>{C}</link></item>"), [C]),
        (of_items(f"<item><link>{C}</link><guid>{A}</guid></item>"), [C]),
        (of_items(f'<item><guid isPermaLink="false">{A}</guid></item>'), []),
        (of_items(f'<item><guid isPermaLink=" False ">{A}</guid></item>'), []),
        (
            of_items("<item><guid>tag:a.example,2026:7</guid></item><item><guid>/7</guid></item><item><guid/></item>"),
            [],
        ),
        (of_items(f"<item>{A}</item>"), []),
        (of_items(f"<item><x:guid>{A}</x:guid></item>"), []),
        (of_items(f"<item><source><guid>{A}</guid></source></item>"), []),
        (of_items(f"<guid>{A}</guid><image><url>{A}</url><link>{C}</link></image>"), []),
        (of_items(f"<item><guid>{A}</guid><media><url>{C}</url></media></item>"), [A]),
        (of_urls(""), []),
        (f"<urlset {XMLNS}/>", []),
        (of_sitemaps("<!-- none -->"), []),
        (of_items("<title>News</title>"), []),
        ("<feed><title>News</title><link href='https://a.example/'/></feed>", []),
    ],
)
def test_entries_without_a_loc_or_a_link_have_their_url_elsewhere(body: str, found: list[str | Listed]) -> None:
    expected = [Listed(*entry) if isinstance(entry, tuple) else Listed(entry) for entry in found]
    before = sitemaps._PIECE_BYTES
    for size in (before, 7):
        sitemaps._PIECE_BYTES = size
        try:
            assert read(body.encode()) == (expected, "" if expected else "empty")
        finally:
            sitemaps._PIECE_BYTES = before


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_plain_text_has_a_url_a_line(end: str) -> None:
    text = f"\ufeff{A}{end}{end}# nothing{end}  https://a.example/\u00fc  {end}https://a.example/last"
    assert urls(text.encode()) == [A, "https://a.example/\u00fc", "https://a.example/last"]


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "iso-8859-1"])
def test_encodings_of_xml(codec: str) -> None:
    name = codec.removesuffix("-sig")
    text = f'<?xml version="1.0" encoding="{name}"?><urlset><url><loc>https://a.example/\u00fc</loc></url></urlset>'
    assert urls(text.encode(codec)) == ["https://a.example/\u00fc"]


@pytest.mark.parametrize(
    "name", ["utfT16", "rot13", "idna", "gb18030", "undefined", "unicode_escape", "utf-7", "x" * 500]
)
def test_an_encoding_that_nobody_knows_is_a_mistake(name: str) -> None:
    assert rule(f'<?xml version="1.0" encoding="{name}"?><urlset>&'.encode()) == ([], "broken")


def test_blank_lines_before_it_do_no_harm() -> None:
    for body in (b"\xef\xbb\xbf \r\n" + urlset([A]), b"\n" * 10_000_000 + urlset([A]), b"\n\t" + A.encode()):
        assert urls(body) == [A]


def test_what_gzip_makes_small_is_read_to_its_end() -> None:
    for blanks in range(65_400, 65_600, 7):
        assert urls(gzip.compress(urlset([A]).replace(b"<url>", b" " * blanks + b"<url>"))) == [A]
    assert urls(gzip.compress(urlset([A]).replace(b"<url>", b" " * 1_000_000 + b"<url>"))) == [A]


def test_gzip_is_undone_also_of_text() -> None:
    assert urls(gzip.compress(urlset([A]))) == [A]
    assert urls(gzip.compress(f"{A}\n".encode())) == [A]


BOMB = '<!DOCTYPE lolz [<!ENTITY a "lol">' + "".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
)


@pytest.mark.parametrize(
    "head",
    [
        BOMB + "]>",
        '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd">',
        '<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1:1/p"> %p;]>',
    ],
    ids=["billion laughs", "external entity", "external DTD", "parameter entity"],
)
def test_a_dtd_is_refused_before_anything_of_it_is_read(head: str) -> None:
    assert rule(urlset(["&e;", A], head)) == ([], "dtd")


def test_entities_that_were_never_declared_are_a_mistake() -> None:
    assert rule(urlset([A, "&nbsp;"])) == ([A], "broken")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n ",
        b"<!DOCTYPE html><html><body>Not found</body></html>",
        b"<html><body/></html>",
        b"<svg/>",
        b"just words\nand more\n",
        b"\x89PNG\r\n\x1a\n\0\0",
        b'{"urls": []}',
    ],
)
def test_what_is_no_sitemap_says_so(body: bytes) -> None:
    assert rule(body) == ([], "not_a_sitemap")


def test_what_stands_before_a_mistake_counts() -> None:
    assert rule(urlset([A, B])[:-80]) == ([A], "broken")
    assert rule(gzip.compress(urlset([A]))[:-20])[1] == "broken"
    assert rule(gzip.compress(urlset([A]))[:12] + b"\xff" * 40)[1] == "broken"


def test_the_limits_of_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"https://a.example/{number}" for number in range(MAX_SITEMAP_URLS + 10)]
    found, why = rule("\n".join(many).encode())
    assert (found, why) == (many[:MAX_SITEMAP_URLS], "too_many")
    assert rule(urlset(many)) == (many[:MAX_SITEMAP_URLS], "too_many")
    monkeypatch.setattr(sitemaps, "MAX_SITEMAP_BYTES", 200_000)
    large = urlset(many[:5_000])
    for body in (large, gzip.compress(large)):
        found, why = rule(body)
        assert why == "too_large"
        assert found == many[: len(found)]
        assert len(found) > 1_000


@pytest.mark.parametrize(
    "inside",
    [b"<a>" * 1_000_000, b"<!--" + b"x" * 20_000_000, b"<url><loc>" + b"x" * 20_000_000, b'<a b="' + b"x" * 20_000_000],
    ids=["deep", "a long comment", "a long text", "a long attribute"],
)
def test_hostile_xml_costs_neither_memory_nor_time(inside: bytes) -> None:
    body = b"<urlset><url><loc>https://a.example/1</loc></url>" + inside
    tracemalloc.start()
    try:
        assert rule(body) == ([A], "broken")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_gzip_bomb_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemaps, "MAX_SITEMAP_BYTES", 2_000_000)
    bomb = gzip.compress(urlset([A])[: -len("</urlset>")] + b" " * 100_000_000, 1)
    assert rule(bomb) == ([A], "too_large")


def test_a_gzip_file_swells_no_further_than_what_servers_pack() -> None:
    elements = gzip.compress(urlset([A])[: -len("</urlset>")] + b"<a/>" * 12_900_000)
    assert len(elements) < 60_000
    assert rule(elements) == ([A], "too_large")
    # Just below the ratio, and as large as a sitemap may be.
    noise = random.Random(1).randbytes(300_000).hex().encode()
    body = urlset([A])[: -len("</urlset>")] + b"<!--" + noise[:200_000] + b"-->" + b" " * 20_000_000 + b"</urlset>"
    packed = gzip.compress(body)
    assert 100 < len(body) / len(packed) < MAX_SITEMAP_RATIO
    assert urls(packed) == [A]


CROWDED = {
    "empty elements": b"<a/>" * 1_100_000,
    "attributes": (b"<a " + b" ".join(b"b%d=''" % number for number in range(10_000)) + b"/>") * 200,
    "URLs without a URL": b"<url><loc></loc></url>" * 600_000,
    "links": b"<entry><link/></entry>" * 600_000,
}


@pytest.mark.parametrize("name", CROWDED)
def test_elements_are_limited_and_what_stands_before_them_counts(name: str) -> None:
    body = b"<urlset><url><loc>https://a.example/1</loc></url>" + CROWDED[name]
    assert rule(body) == ([A], "too_many")


def test_lines_are_limited_and_what_stands_before_them_counts() -> None:
    assert rule(A.encode() + b"\n" * 2_000_000) == ([A], "too_many")


def test_a_full_sitemap_with_translations_and_images_is_read_whole() -> None:
    many = [f"https://a.example/{number}" for number in range(MAX_SITEMAP_URLS)]
    more = (
        '<xhtml:link rel="alternate" hreflang="de" href="https://a.example/de"/>' * 5
        + "<image:image><image:loc>https://a.example/i.png</image:loc></image:image>" * 3
        + "<changefreq>daily</changefreq><priority>0.5</priority>"
    ).encode()
    body = urlset(many).replace(b"<lastmod>", more + b"<lastmod>")
    assert urls(body) == many
    # Of one kind only, this packs better than any real one.
    packed = gzip.compress(body, 6)
    assert len(body) / len(packed) < MAX_SITEMAP_RATIO
    assert urls(packed) == many


def test_whoever_reads_a_sitemap_has_it_in_small_pieces() -> None:
    for body in (b"<urlset>" + b"<a/>" * 500_000, b"x\n" * 500_000, urlset([A] * 20_000)):
        for form in (body, gzip.compress(body, 0)):
            pieces = 0
            with contextlib.suppress(SitemapError):
                for _ in listed_in_pieces(form):
                    pieces += 1
            assert pieces >= len(body) // 65_536


@given(st.binary(max_size=300) | st.text(alphabet="<>/urlsetoc&;!? \n\"'=:", max_size=120).map(str.encode))
def test_garbage_never_raises_anything_else(body: bytes) -> None:
    for form in (body, b"<urlset>" + body, gzip.compress(body), b"\x1f\x8b" + body):
        with contextlib.suppress(SitemapError):
            assert all(isinstance(entry, Listed) for entry in listed(form))


@given(st.integers(1, 300), st.integers(1, 200))
def test_where_pieces_end_makes_no_difference(count: int, size: int) -> None:
    pages = [f"https://a.example/{number}/\u00fc" for number in range(count)]
    before = sitemaps._PIECE_BYTES
    sitemaps._PIECE_BYTES = size
    try:
        assert urls(urlset(pages)) == pages
        assert urls(gzip.compress("\r\n".join(pages).encode())) == pages
    finally:
        sitemaps._PIECE_BYTES = before
