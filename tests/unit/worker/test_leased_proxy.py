"""What a worker tells of the proxy of a lease: whose fault a failure was, and what the rules of bans say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from skitter.errors import FetchError
from skitter.model.lease import Lease, Work
from skitter.model.page import Page
from skitter.model.proxy import ProxyFault, ProxySeen
from skitter.settings import Proxies
from skitter.worker.leased_proxy import BAN_TEXT_BYTES, LeasedProxies

RULES = Proxies(
    proxy_ban_statuses="403,520-524",
    proxy_ban_texts=("Are you a robot?",),
    proxy_ban_headers=("X-Blocked", "server: captcha"),
    proxy_ban_errors="tls, truncated",
)
HTTP, SOCKS = "http://proxy.example", "socks5h://proxy.example"


class Source:
    """The pool, and how often it was read."""

    def __init__(self, *ids: str) -> None:
        self.ids = list(ids)
        self.reads = 0

    async def proxies(self) -> list[ProxySeen]:
        self.reads += 1
        await asyncio.sleep(0)
        return [ProxySeen(id=name, url=f"http://{name}.example", owner="") for name in self.ids]


def judge(rules: Proxies = RULES, source: Any = None) -> LeasedProxies:
    return LeasedProxies(source or Source(), rules)


def page(url: str = "http://a.example/", status: int = 200, body: bytes = b"", **headers: str) -> Page:
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Page(url=url, status=status, headers=named, body=body, seconds=0.5, wire_bytes=100)


def lease(proxy: str) -> Lease:
    return Lease(work=Work.PAGE, id=1, epoch=1, proxy=proxy)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (page(), ProxyFault.NONE),
        (page(status=404), ProxyFault.NONE),
        (page(status=500), ProxyFault.NONE),
        (page(status=403), ProxyFault.BANNED),
        (page(status=522), ProxyFault.BANNED),
        (page(body=b"<p>Are you a robot?"), ProxyFault.BANNED),
        (page(body=b" " * BAN_TEXT_BYTES + b"Are you a robot?"), ProxyFault.NONE),
        (page(x_blocked=""), ProxyFault.BANNED),
        (page(server="the captcha server"), ProxyFault.BANNED),
        (page(server="nginx"), ProxyFault.NONE),
        (page(status=502), ProxyFault.UNSURE),
        (page(status=503), ProxyFault.UNSURE),
        (page("https://a.example/", status=504), ProxyFault.NONE),
    ],
)
def test_answers(found: Page, fault: ProxyFault) -> None:
    news = judge().of_page(found, HTTP)
    assert news is not None
    assert (news.fault, news.latency_seconds, news.bytes) == (fault, 0.5, 100)


def test_a_socks_proxy_says_nothing_in_the_place_of_a_server() -> None:
    news = judge().of_page(page(status=503), SOCKS)
    assert news is not None
    assert news.fault is ProxyFault.NONE


def test_robots_txt_bans_nobody() -> None:
    news = judge().of_page(page(status=403), HTTP, is_page=False)
    assert news is not None
    assert news.fault is ProxyFault.NONE


@pytest.mark.parametrize(
    ("error_class", "fault"),
    [
        ("proxy", ProxyFault.PROXY),
        ("tls", ProxyFault.BANNED),
        ("timeout", ProxyFault.UNSURE),
        ("connect", ProxyFault.UNSURE),
        ("protocol", ProxyFault.UNSURE),
        ("too_large", ProxyFault.NONE),
    ],
)
def test_failures(error_class: str, fault: ProxyFault) -> None:
    news = judge().of_error(FetchError(error_class, "x"))
    assert news is not None
    assert news.fault is fault


def test_what_was_not_sent_says_nothing_of_a_proxy() -> None:
    assert judge().of_error(FetchError("guard", "x")) is None


async def test_the_pool_is_read_once_for_many_and_again_for_one_that_is_new() -> None:
    source = Source("a", "b")
    known = judge(source=source)
    urls = await asyncio.gather(*(known.url_of(lease(name)) for name in "abab"))
    assert (urls, source.reads) == ([f"http://{name}.example" for name in "abab"], 1)
    source.ids = ["b", "c"]
    assert (await known.url_of(lease("c")), source.reads) == ("http://c.example", 2)
    # One that nobody knows: its lease goes back, and nothing is sent.
    with pytest.raises(asyncio.CancelledError):
        await known.url_of(lease("gone"))
