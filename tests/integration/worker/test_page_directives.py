"""What pages ask for is recorded, and obeyed where the job says so."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.spiders.base import Spider

pytestmark = pytest.mark.parametrize("site", ["memory"], indirect=True)


def page(*links: str, head: str = "") -> str:
    return f"<head>{head}</head><body>{' '.join(links)}</body>"


def a(path: str, rel: str = "") -> str:
    return f'<a href="{path}" rel="{rel}">x</a>'


async def crawl(site: Any, host: Any, seed: str = "/", **settings: Any) -> tuple[dict[str, Any], dict[str, int]]:
    """Records by path, and the tally."""
    await site.begin([host.base + seed], **settings)
    await site.crawl("w1")
    records = {record["url"].removeprefix(host.base): record for record in await site.records()}
    return records, (await site.frontier.report()).tally


async def test_every_page_is_recorded_with_what_it_asks_for(site: Any, host: Any) -> None:
    host.page(
        "/",
        page(a("/1", "nofollow"), a("/2"), head="<meta name=robots content=noarchive><link rel=canonical href=/>"),
        "X-Robots-Tag: noindex",
        "tdm-reservation: 1",
        "tdm-policy: https://a.example/policy.json",
    )
    host.page("/1", page())
    host.page("/2", page(head="<meta name=robots content=none>"))
    records, tally = await crawl(site, host)
    assert set(records) == {"/", "/1", "/2"}, "recorded, and not obeyed unless asked"
    extra = {name: value for name, value in records["/"].items() if name not in records["/1"]}
    assert extra == {
        "robots": ["noarchive", "noindex"],
        "canonical": host.base + "/",
        "tdm_reservation": 1,
        "tdm_policy": "https://a.example/policy.json",
        "nofollow_links": 1,
    }
    assert records["/2"]["robots"] == ["none"]
    assert not [name for name in tally if name.startswith(("outside", "withheld"))]


async def test_links_with_nofollow_are_not_followed_but_from_another_page_they_are(site: Any, host: Any) -> None:
    host.page("/", page(a("/1", "nofollow"), a("/2", "ugc"), a("/3"), a("/4", "nofollow")))
    host.page("/3", page(a("/1")))
    for path in ("/1", "/2", "/4"):
        host.page(path, page())
    records, tally = await crawl(site, host, obey_nofollow=True)
    assert set(records) == {"/", "/1", "/3"}
    assert tally["outside:nofollow"] == 3


@pytest.mark.parametrize("where", ["meta", "header", "none"])
async def test_a_page_that_says_nofollow_leads_nowhere(site: Any, host: Any, where: str) -> None:
    word = "none" if where == "none" else "nofollow"
    head = f"<meta name=robots content={word}>" if where != "header" else ""
    headers = ["X-Robots-Tag: nofollow"] if where == "header" else []
    host.page("/", page(a("/1"), a("/2"), head=head), *headers)
    records, tally = await crawl(site, host, obey_nofollow=True)
    assert set(records) == {"/"}
    assert tally["outside:nofollow"] == 2


async def test_a_page_that_says_noindex_gives_links_and_no_items(site: Any, host: Any) -> None:
    host.page("/", page(a("/1")), "X-Robots-Tag: skitter: noindex")
    host.page("/1", page(), "X-Robots-Tag: otherbot: noindex")
    records, tally = await crawl(site, host, obey_noindex=True)
    assert set(records) == {"/1"}
    assert tally["withheld:noindex"] == 1
    assert (await site.frontier.counts()).done == 2


async def test_a_reserved_page_gives_no_items(site: Any, host: Any) -> None:
    host.page("/", page(a("/1")), "tdm-reservation: 1")
    host.page("/1", page(), "tdm-reservation: 0")
    records, tally = await crawl(site, host, obey_tdm=True)
    assert (set(records), tally["withheld:tdm"]) == ({"/1"}, 1)


async def test_of_duplicates_the_canonical_page_is_kept(site: Any, host: Any) -> None:
    canonical = f"<link rel=canonical href={host.base}/shirt>"
    host.page("/", page(a("/shirt?color=1"), a("/shirt?color=2"), a("/unavailable")))
    for query in ("?color=1", "?color=2", ""):
        host.page(f"/shirt{query}", page(a("/more"), head=canonical))
    host.page("/unavailable", page(head="<link rel=canonical href=http://elsewhere.example/>"))
    host.page("/more", page())
    records, tally = await crawl(site, host, obey_canonical=True)
    assert set(records) == {"/", "/shirt", "/unavailable", "/more"}, "one that is out of scope is not waited for"
    assert tally["withheld:canonical"] == 2


async def test_all_of_them_off_is_the_default_and_on_they_go_together(site: Any, host: Any) -> None:
    host.page("/", page(a("/1"), head="<meta name=robots content=noindex><link rel=canonical href=/c>"))
    host.page("/1", page(head="<meta name=robots content=nofollow>"))
    host.page("/c", page())
    every = {f"obey_{name}": True for name in ("nofollow", "noindex", "canonical", "tdm")}
    records, tally = await crawl(site, host, **every)
    assert set(records) == {"/1", "/c"}
    assert tally["withheld:noindex"] == 1


class Shop(Spider):
    """A spider of somebody's own, whose callbacks and arguments go on with the canonical page."""

    def parse(self, response: Any) -> Any:
        yield from response.follow_all(css="a", callback=self.product, cb_kwargs={"shelf": 7})

    def product(self, response: Any, shelf: int) -> Any:
        yield {"url": response.url, "shelf": shelf, "asked": response.directives.canonical is not None}


async def test_a_spiders_own_callback_gets_the_canonical_page(site: Any, host: Any) -> None:
    host.page("/", page(a("/p?1"), a("/q", "nofollow")))
    host.page("/p?1", page(head="<link rel=canonical href=/p>"))
    host.page("/p", page())
    await site.begin([host.base + "/"], Shop(), obey_canonical=True, obey_nofollow=True)
    await site.crawl("w1")
    assert await site.records() == [{"url": host.base + "/p", "shelf": 7, "asked": False}]
    assert "/q" not in host.asked()
