"""The jar remembers for a host, tells nobody else, and does not grow without end."""

from __future__ import annotations

import asyncio
from typing import Any

import pycurl

from skitter.fetch.cookies import CookieJar
from skitter.settings import Fetch


def _cookies(site: Any) -> list[str | None]:
    return [seen.headers.get("cookie") for seen in site.seen]


async def test_a_cookie_is_sent_back(serve: Any, client: Any) -> None:
    site = await serve(serve.answer(b"", "Set-Cookie: session=1; Path=/"))
    await client.get(site.url())
    await asyncio.gather(*(client.get(site.url("/x")) for _ in range(5)))  # on other handles too
    assert _cookies(site) == [None] + ["session=1"] * 5


async def test_a_cookie_is_not_told_to_another_host(serve: Any, client: Any) -> None:
    site = await serve(serve.answer(b"", "Set-Cookie: session=1; Path=/"))
    other = await serve(serve.answer())
    await client.get(site.url(host="a.localhost"))
    for host in ("b.localhost", "localhost", "127.0.0.1", "x.a.localhost"):
        await client.get(other.url(host=host))
    assert _cookies(other) == [None] * 4


async def test_a_cookie_for_a_public_suffix_or_a_stranger_is_refused(serve: Any, client: Any) -> None:
    site = await serve(
        serve.answer(b"", "Set-Cookie: a=1; Domain=localhost", "Set-Cookie: b=2; Domain=b.localhost", "Set-Cookie: c=3")
    )
    other = await serve(serve.answer())
    await client.get(site.url(host="a.localhost"))
    await client.get(other.url(host="b.localhost"))
    assert _cookies(other) == [None]


async def test_secure_cookies_and_paths_are_kept_apart(serve: Any, client: Any) -> None:
    site = await serve(
        serve.answer(
            b"", "Set-Cookie: s=1; Secure; Path=/", "Set-Cookie: p=1; Path=/deep", "Set-Cookie: old=1; Max-Age=0"
        )
    )
    await client.get(site.url(host="a.localhost"))
    await client.get(site.url("/deep/x", host="a.localhost"))
    assert "p=1" in (_cookies(site)[1] or "")
    assert "old=1" not in (_cookies(site)[1] or "")


async def test_the_cookies_of_a_request_are_for_it_alone(serve: Any, client: Any) -> None:
    site = await serve(serve.answer(b"", "Set-Cookie: kept=1; Path=/"))
    await client.get(site.url())
    await client.get(site.url(), cookies={"own": "2"})
    await client.get(site.url())
    assert _cookies(site) == [None, "kept=1; own=2", "kept=1"]


async def test_without_a_jar_nothing_is_kept(serve: Any, make_client: Any) -> None:
    site = await serve(serve.answer(b"", "Set-Cookie: session=1; Path=/"))
    client = make_client(Fetch(cookies=False))
    await client.get(site.url())
    await client.get(site.url())
    await client.get(site.url(), cookies={"own": "2"})
    assert _cookies(site) == [None, None, "own=2"]


async def test_two_fetchers_share_nothing(serve: Any, make_client: Any) -> None:
    site = await serve(serve.answer(b"", "Set-Cookie: session=1; Path=/"))
    await make_client().get(site.url())
    await make_client().get(site.url())
    assert _cookies(site) == [None, None]


def _put(jar: CookieJar, host: str, names: range) -> None:
    for number in names:
        jar._keeper.setopt(pycurl.COOKIELIST, f".{host}\tTRUE\t/\tFALSE\t0\tn{number}\t1")


def _fill(jar: CookieJar, host: str, names: range) -> None:
    _put(jar, host, names)
    jar.received(host, len(names), 20 * len(names))


def test_a_full_jar_forgets_the_hosts_heard_of_longest_ago() -> None:
    jar = CookieJar(max_cookies=40)
    for number in range(60):
        _fill(jar, f"h{number}.example.com", range(1))
    hosts = {line.split("\t")[0] for line in jar.lines()}
    assert len(hosts) <= 50
    assert ".h59.example.com" in hosts
    assert ".h0.example.com" not in hosts


def test_one_host_cannot_fill_the_jar() -> None:
    jar = CookieJar(max_cookies=1_000)
    _fill(jar, "first.example.com", range(1))
    for start in range(0, 5_000, 500):
        _fill(jar, "flood.example.com", range(start, start + 500))
    lines = jar.lines()
    assert len(lines) <= 1_000
    assert any("first.example.com" in line for line in lines)


def test_http_only_cookies_survive_a_cut() -> None:
    jar = CookieJar(max_cookies=4)
    jar._keeper.setopt(pycurl.COOKIELIST, "#HttpOnly_a.example.com\tFALSE\t/\tTRUE\t0\tsession\t1")
    _put(jar, "b.example.com", range(10))
    jar.received("a.example.com", 2, 40)
    assert len(jar.lines()) == 2
    assert "#HttpOnly_a.example.com\tFALSE\t/\tTRUE\t0\tsession\t1" in jar.lines()


def test_large_cookies_are_bounded_by_their_bytes() -> None:
    jar = CookieJar(max_bytes=100_000)
    _fill(jar, "first.example.com", range(3))
    for host in range(100):
        for number in range(10):
            jar._keeper.setopt(pycurl.COOKIELIST, f"h{host}.example.com\tFALSE\t/\tFALSE\t0\tn{number}\t{'z' * 4_000}")
        jar.received(f"h{host}.example.com", 10, 40_000)
        assert sum(map(len, jar.lines())) <= 150_000
    assert jar.lines()


def test_hosts_whose_cookies_are_gone_at_once_are_forgotten() -> None:
    jar = CookieJar(max_cookies=40)
    for number in range(1_000):
        jar.received(f"h{number}.example.com", 1, 50)
    assert len(jar._recent) <= 60


async def test_a_cookie_bomb_is_cut_to_what_is_sensible(serve: Any, client: Any) -> None:
    bombs = [f"Set-Cookie: n{number}={'z' * 4_000}; Path=/" for number in range(60)]
    many = [f"Set-Cookie: m{number}=1; Path=/" for number in range(3_000)]
    huge = f"Set-Cookie: huge={'z' * 90_000}; Path=/"
    site = await serve(serve.answer(b"", *bombs))
    for answer in (serve.answer(b"", *many), serve.answer(b"", huge), serve.answer(b"", "Set-Cookie: s=1; Path=/")):
        await client.get(site.url())
        site.behaviour = serve.says(answer)
    await client.get(site.url())
    await client.get(site.url())
    assert max(len(sent or "") for sent in _cookies(site)) < 10_000
    assert len(client.fetcher._jar.lines()) <= 150
    assert sum(map(len, client.fetcher._jar.lines())) < 300_000


async def test_a_jar_does_not_grow_with_the_hosts_of_a_crawl(serve: Any, make_client: Any) -> None:
    site = await serve(serve.answer(b"", *[f"Set-Cookie: n{number}={'z' * 1_000}" for number in range(20)]))
    client = make_client()
    client.fetcher._jar._max_bytes = 200_000
    for number in range(60):
        await client.get(site.url(host=f"h{number}.localhost"))
    assert sum(map(len, client.fetcher._jar.lines())) <= 300_000
