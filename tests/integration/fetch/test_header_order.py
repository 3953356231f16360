"""Headers of the settings, and the order in which headers are sent."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.fetch.contract import FetchRequest
from skitter.model.session import Cookie
from skitter.settings import Fetch

ORDER = ("Accept-Language", "User-Agent", "X-Own", "Accept", "Accept-Encoding")


def names(seen: Any) -> list[str]:
    return [line.partition(":")[0] for line in seen.head.decode("latin-1").split("\r\n")[1:] if line]


async def test_headers_are_sent_in_the_order_of_the_settings(serve: Any, make_fetcher: Any) -> None:
    site = serve(serve.answer(b"ok"))
    fetcher = make_fetcher(Fetch(header_order=ORDER, headers=("X-Other: 1", "accept: text/plain")))
    requests = [
        FetchRequest(url=site.url(), trusted=True),
        FetchRequest(
            url=site.url(),
            trusted=True,
            headers={"X-Last": "1", "x-own": "1", "user-agent": "own/1"},
            jar=(Cookie("a", "1", "127.0.0.1"),),
        ),
        FetchRequest(url=site.url(), trusted=True, method="POST", body=b"b", headers={"Content-Type": "a/b"}),
    ]
    for request in requests:
        assert (await fetcher.fetch(request)).status == 200
    plain, own, post = site.seen
    assert names(plain) == ["Host", "Accept-Language", "User-Agent", "accept", "Accept-Encoding", "X-Other"]
    assert plain.headers["accept"] == "text/plain"
    assert plain.headers["user-agent"] == Fetch().agent
    assert "gzip" in plain.headers["accept-encoding"]
    expected = ["Accept-Language", "user-agent", "x-own", "accept", "Accept-Encoding", "X-Other", "X-Last"]
    assert names(own) == ["Host", "Cookie", *expected]
    assert own.headers["user-agent"] == "own/1"
    assert names(post)[-2:] == ["Content-Type", "Content-Length"]


async def test_headers_of_the_settings_are_sent_with_every_request(serve: Any, make_fetcher: Any) -> None:
    site = serve(serve.answer())
    fetcher = make_fetcher(Fetch(headers=("Accept-Language: de", "X-From: me")))
    for headers in ({}, {"X-FROM": "you"}, {}):
        await fetcher.fetch(FetchRequest(url=site.url(), trusted=True, headers=headers))
    assert [seen.headers["accept-language"] for seen in site.seen] == ["de"] * 3
    assert [seen.headers["x-from"] for seen in site.seen] == ["me", "you", "me"]
    assert names(site.seen[0]) == ["Host", "User-Agent", "Accept-Encoding", "Accept", "Accept-Language", "X-From"]


@pytest.mark.parametrize("settings", [Fetch(), Fetch(header_order=("User-Agent", "Accept"))])
async def test_a_body_in_gzip_is_unpacked_whatever_the_order(serve: Any, make_fetcher: Any, settings: Fetch) -> None:
    import gzip

    site = serve(serve.answer(gzip.compress(b"text" * 100), "Content-Encoding: gzip"))
    page = await make_fetcher(settings).fetch(FetchRequest(url=site.url(), trusted=True))
    assert page.body == b"text" * 100
