"""Cookies reach the requests that they are for, and what an answer sets is read back, one transfer at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from skitter.errors import FetchError
from skitter.model.cookie_lines import netscape_line, read_netscape_line
from skitter.model.page import Page
from skitter.model.session import DELETED, Cookie
from skitter.policy.cookies import merged, size_of
from skitter.settings import Fetch

EMPTY: tuple[Cookie, ...] = ()
HOST = "www.a.localhost"
"""Below a public suffix (localhost), as www.example.com is below com."""


def _cookies(site: Any) -> list[str | None]:
    return [seen.headers.get("cookie") for seen in site.seen]


def _after(jar: tuple[Cookie, ...], page: Page) -> tuple[Cookie, ...]:
    return tuple(merged(jar, page.cookies))


async def test_a_cookie_is_sent_back(serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"", "Set-Cookie: session=1; Path=/"))
    jar = _after(EMPTY, await client.get(site.url(), jar=EMPTY))
    pages = await asyncio.gather(*(client.get(site.url("/x"), jar=jar) for _ in range(5)))  # on other handles too
    assert _cookies(site) == [None] + ["session=1"] * 5
    assert [page.cookies for page in pages] == [()] * 5, "nothing has changed"


async def test_what_an_answer_sets_is_for_its_own_jar_alone(serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"", "Set-Cookie: session=1; Path=/"))
    jar = _after(EMPTY, await client.get(site.url(), jar=EMPTY))
    await client.get(site.url(), jar=EMPTY)
    await client.get(site.url())
    other = (Cookie("session", "2", "127.0.0.1"),)
    changed = await client.get(site.url(), jar=other)
    assert changed.cookies == (Cookie("session", "1", "127.0.0.1"),)
    await client.get(site.url())
    await client.get(site.url(), jar=jar)
    await client.get(site.url(), jar=EMPTY)
    assert _cookies(site) == [None, None, None, "session=2", None, "session=1", None]


async def test_an_answer_that_is_cut_off_leaves_no_cookie_behind(serve: Any, client: Any) -> None:
    cut = b"HTTP/1.1 200 OK\r\nSet-Cookie: session=1; Path=/\r\nContent-Length: 10\r\n\r\nabc"
    site = serve(cut, keep=False)
    for _ in range(2):
        with pytest.raises(FetchError):
            await client.get(site.url(), jar=EMPTY)
    site.on("*", b"HTTP/1.1 103 Early Hints\r\nSet-Cookie: early=1; Path=/\r\n\r\n" + serve.answer())
    for _ in range(2):
        page = await client.get(site.url(), jar=EMPTY)
        assert page.cookies == (), "what an informational answer sets does not count, as in browsers"
    assert _cookies(site) == [None] * 4


async def test_a_cookie_is_not_told_to_another_host(serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"", "Set-Cookie: session=1; Path=/"))
    other = serve(serve.answer())
    jar = _after(EMPTY, await client.get(site.url(host="a.localhost"), jar=EMPTY))
    for host in ("b.localhost", "localhost", "127.0.0.1", "x.a.localhost"):
        await client.get(other.url(host=host), jar=jar)
    assert _cookies(other) == [None] * 4


async def test_cookies_that_are_changed_and_taken_back_are_told(serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"", "Set-Cookie: a=1", "Set-Cookie: b=1; Path=/", "Set-Cookie: c=1; HttpOnly"))
    jar = _after(EMPTY, await client.get(site.url("/x/y"), jar=EMPTY))
    site.on("*", serve.answer(b"", "Set-Cookie: b=2; Path=/", "Set-Cookie: c=; Path=/x; Max-Age=0"))
    page = await client.get(site.url("/x/z"), jar=jar)
    told = {(cookie.name, cookie.value, cookie.expires) for cookie in page.cookies}
    assert told == {("b", "2", 0), ("c", "", DELETED)}
    assert {cookie.name: cookie.path for cookie in _after(jar, page)} == {"a": "/x", "b": "/"}


async def test_the_cookies_of_a_request_are_for_it_alone(serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"", "Set-Cookie: kept=1; Path=/"))
    jar = _after(EMPTY, await client.get(site.url(), jar=EMPTY))
    await client.get(site.url(), cookies={"own": "2"}, jar=jar)
    await client.get(site.url(), jar=jar)
    await client.get(site.url(), cookies={"own": "2"})
    assert _cookies(site) == [None, "kept=1; own=2", "kept=1", "own=2"]


async def test_one_header_has_all_cookies_of_a_request(serve: Any, client: Any) -> None:
    site = serve(serve.answer())
    jar = (Cookie("kept", "1", "127.0.0.1"),)
    await client.get(site.url(), headers={"cookie": "given=3; too=4"}, cookies={"own": "2"}, jar=jar)
    await client.get(site.url(), headers={"Cookie": "given=3"})
    await client.get(site.url(), headers={"Cookie": ""}, jar=EMPTY)
    assert _cookies(site) == ["kept=1; own=2; given=3; too=4", "given=3", None]
    assert [seen.head.lower().count(b"cookie:") for seen in site.seen] == [1, 1, 0]
    for fields in ({"cookies": {"a": "1\r\nX-Evil: 1"}}, {"cookies": {"a": "1; b=2"}}, {"headers": {"Cookie": "a\nb"}}):
        assert await client.kind(site.url(), **fields) == "protocol"
    await client.get(site.url())
    assert _cookies(site)[3:] == [None], "nothing of a request that was refused is sent with the next one"


async def test_cookies_are_sent_in_the_order_of_browsers(serve: Any, client: Any) -> None:
    first = ("Set-Cookie: b=1; Path=/", "Set-Cookie: a=1; Path=/", "Set-Cookie: deep=1; Path=/x/", "Set-Cookie: c=1")
    site = serve(serve.answer(b"", *first))
    jar = _after(EMPTY, await client.get(site.url("/x/"), jar=EMPTY))
    site.on("*", serve.answer(b"", "Set-Cookie: b=2; Path=/"))
    jar = _after(jar, await client.get(site.url("/x"), jar=jar))
    await client.get(site.url("/x/y"), jar=jar)
    assert _cookies(site) == [None, "c=1; b=1; a=1", "deep=1; c=1; b=2; a=1"]
    assert jar[2].path == "/x/", "the slash at the end of a path is kept"
    assert jar[3].path == "/x"


async def test_dates_that_libcurl_does_not_read_end_a_cookie(serve: Any, client: Any) -> None:
    dates = ("Wed, 01 January 2020 00:00:00.500 GMT", "2020 Jan 1 0:0:0 and more", "Wednesday, 01-Jan-20 00:00:00")
    known = tuple(Cookie(f"n{number}", "1", "127.0.0.1") for number in range(len(dates)))
    lines = [f"Set-Cookie: n{number}=; Path=/; Expires={date}" for number, date in enumerate(dates)]
    site = serve(serve.answer(b"", *lines, "Set-Cookie: s=1; Path=/; Expires=31 February 2020 25:00:00"))
    page = await client.get(site.url(), jar=known)
    assert [cookie.name for cookie in _after(known, page)] == ["s"]
    assert {cookie.name: cookie.expires for cookie in page.cookies} == {"s": 0, "n0": 1, "n1": 1, "n2": 1}


async def test_a_value_of_other_bytes_comes_back_as_it_was(serve: Any, client: Any) -> None:
    site = serve(b"HTTP/1.1 200 OK\r\nSet-Cookie: n=\xc3\xa9\xff; Path=/\r\nContent-Length: 0\r\n\r\n")
    jar = _after(EMPTY, await client.get(site.url(), jar=EMPTY))
    assert [read_netscape_line(netscape_line(cookie)) for cookie in jar] == list(jar)
    await client.get(site.url(), jar=jar)
    assert b"Cookie: n=\xc3\xa9\xff\r\n" in site.seen[-1].head


async def test_a_cookie_bomb_is_cut_to_what_is_sensible(serve: Any, client: Any) -> None:
    bombs = [f"Set-Cookie: n{number}={'z' * 4_000}; Path=/" for number in range(60)]
    many = [f"Set-Cookie: m{number}=1; Path=/" for number in range(3_000)]
    huge = f"Set-Cookie: huge={'z' * 90_000}; Path=/"
    site, jar = serve(serve.answer(b"", *bombs)), EMPTY
    for answer in (serve.answer(b"", *many), serve.answer(b"", huge), serve.answer(b"", "Set-Cookie: s=1; Path=/")):
        jar = _after(jar, await client.get(site.url(), jar=jar))
        site.on("*", answer)
    await client.get(site.url(), jar=jar)
    assert max(len(sent or "") for sent in _cookies(site)) < 10_000
    assert len(jar) <= 150
    assert sum(map(size_of, jar)) < 70_000


# As the web-platform tests have them: what is set over https and over http, and whether it is kept.
CASES = {
    "plain": ("a=1", True, True),
    "size at the limit": (f"n={'v' * 4095}", True, True),
    "size over the limit": (f"n={'v' * 4096}", False, False),
    "secure": ("a=1; Secure", True, False),
    "control character": ("a=1\x012", False, False),
    "__Secure-": ("__Secure-a=1; Secure; Path=/", True, False),
    "__Secure- without Secure": ("__Secure-a=1; Path=/", False, False),
    "__secure- in another case": ("__secure-a=1; Path=/", False, False),
    "__Host-": ("__Host-a=1; Secure; Path=/", True, False),
    "__Host- without Secure": ("__Host-a=1; Path=/", False, False),
    "__Host- with Domain": ("__Host-a=1; Secure; Path=/; Domain=a.localhost", False, False),
    "__Host- with another Path": ("__Host-a=1; Secure; Path=/x", False, False),
    "__HoSt- in another case": ("__HoSt-a=1; Path=/", False, False),
    "Domain above": ("a=1; Domain=a.localhost", True, True),
    "Domain with a dot": ("a=1; Domain=.a.localhost", True, True),
    "Domain itself": (f"a=1; Domain={HOST}", True, True),
    "Domain of a stranger": ("a=1; Domain=b.localhost", False, False),
    "Domain below": (f"a=1; Domain=x.{HOST}", False, False),
    "public suffix": ("a=1; Domain=localhost", False, False),
    "public suffix with a dot": ("a=1; Domain=.localhost", False, False),
    "expired": ("a=1; Expires=Thu, 01 Jan 1970 00:00:01 GMT", False, False),
    "Max-Age before Expires": ("a=1; Max-Age=100; Expires=Thu, 01 Jan 1970 00:00:01 GMT", True, True),
    "Max-Age of nothing": ("a=1; Max-Age=0", False, False),
    "Max-Age below nothing": ("a=1; Max-Age=-1", False, False),
    "another Path": ("a=1; Path=/x", True, True),
    "attributes that nobody knows": ("a=1; SameSite=Lax; Priority=High; Foo", True, True),
}


@pytest.mark.parametrize("tls", [True, False], ids=["https", "http"])
async def test_what_is_kept_is_what_browsers_keep(serve: Any, make_client: Any, tls: bool) -> None:
    site, client = serve(serve.answer(), tls=tls), make_client(Fetch(verify_tls=False))
    kept = {}
    for name, (header, *_) in CASES.items():
        site.on("*", serve.answer(b"", f"Set-Cookie: {header}"))
        kept[name] = bool((await client.get(site.url(host=HOST), jar=EMPTY)).cookies)
    assert kept == {name: over_tls if tls else plain for name, (_, over_tls, plain) in CASES.items()}


def test_a_line_of_a_cookie_file_is_read_or_left_out() -> None:
    cookie = Cookie("n", "v", "a.example", "/x", 2_000_000_000, secure=True, http_only=True, host_only=False)
    assert netscape_line(cookie) == "#HttpOnly_.a.example\tTRUE\t/x\tTRUE\t2000000000\tn\tv"
    assert read_netscape_line(netscape_line(cookie) + "\n") == cookie
    for line in ("", "# a comment", "a.example\tTRUE", "a.example\tFALSE\t/\tFALSE\tsoon\tn\tv"):
        assert read_netscape_line(line) is None
    assert repr(cookie) == "<Cookie n of a.example>"
