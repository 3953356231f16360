"""One page with the politeness of a job: what is promised to a caller that may be killed, and to the host."""

from __future__ import annotations

import pytest

from skitter.app import open_frontier
from skitter.app.single_page import NotYet, PageWanted, fetch_page
from skitter.errors import FetchError
from skitter.model.page import Page
from skitter.testing.web import SyntheticWeb, WebSpec

PRIVATE = {"allow_private": True}


@pytest.fixture(params=["sqlite", "redis"])
def frontier(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/jobs.db"
    return request.getfixturevalue("own_redis")("--save", "", "--appendonly", "no").url


def wanted(url: str, key: str, **settings: object) -> PageWanted:
    return PageWanted(url=url, key=key, job="pages", settings=PRIVATE | settings)


async def test_a_page_comes_to_whoever_wants_it_and_nothing_of_it_is_kept(frontier):
    async with SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=3)) as web:
        page = await fetch_page(frontier, wanted(web.urls[0], "a"), wait_seconds=60)
        assert isinstance(page, Page)
        assert page.status == 200
        # As after a kill behind the fetch: the page is lost, and the message comes again.
        again = await fetch_page(frontier, wanted(web.urls[0], "a"), wait_seconds=60)
        assert isinstance(again, Page)
        assert again.body == page.body
    store = open_frontier(frontier, "pages", create=False)
    report = await store.report()
    await store.close()
    assert (report.counts.done, report.counts.unfinished, report.undelivered, report.needs) == (2, 0, 0, [])
    assert report.workers == []


async def test_a_host_that_may_not_be_asked_yet_keeps_nobody_waiting(frontier):
    async with SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=3)) as web:
        first = await fetch_page(
            frontier, wanted(web.urls[0], "a", delay_seconds=600, obey_robots=False), wait_seconds=60
        )
        assert isinstance(first, Page)
        later = await fetch_page(frontier, wanted(web.urls[0], "b"), wait_seconds=0.5)
        assert isinstance(later, NotYet)
        assert 500 < later.seconds <= 600
        assert len([hit for hit in web.log() if hit.path == "/"]) == 1


@pytest.mark.parametrize(("kind", "error_class"), [("not_found", "http_4xx"), ("private", "robots")])
async def test_a_page_that_cannot_be_had_says_why(frontier, kind, error_class):
    spec = WebSpec.plain(hosts=1, pages_per_host=40, errors=0.2, private=0.2, robots_hosts=(0,))
    async with SyntheticWeb(spec) as web:
        expected = web.expected()
        urls = {
            "http_4xx": [url for url, why in expected.failed.items() if why == error_class],
            "robots": expected.excluded,
        }
        with pytest.raises(FetchError) as raised:
            await fetch_page(frontier, wanted(min(urls[error_class]), "a"), wait_seconds=60)
    assert raised.value.error_class == error_class


async def test_redirects_are_followed(frontier):
    async with SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=40, redirects=0.2)) as web:
        chains = [url for url in web.expected().redirected if "/p/" in url]
        page = await fetch_page(frontier, wanted(min(chains), "a"), wait_seconds=60)
    assert isinstance(page, Page)
    assert page.url != min(chains)
