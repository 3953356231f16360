"""Whole crawls of the synthetic web end with exactly what the web's own walk says."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import Any

import pytest

from skitter.model.job import State
from skitter.model.request import Request
from skitter.model.url import host_key
from skitter.spiders.base import Spider
from skitter.testing.web import SyntheticWeb, WebSpec

ON_MEMORY = pytest.mark.parametrize("site", ["memory"], indirect=True)
ON_SQLITE = pytest.mark.parametrize("site", ["sqlite"], indirect=True)
SPEC = WebSpec(hosts=3, pages_per_host=40, slow_seconds=(0.01, 0.05), retry_after_seconds=1, seed=7)


@pytest.mark.parametrize("workers", [("w1",), ("w1", "w2", "w3")], ids=["one worker", "three workers"])
async def test_a_crawl_ends_with_what_the_web_holds(site: Any, workers: tuple[str, ...]) -> None:
    async with SyntheticWeb(SPEC) as web:
        await site.begin(web.urls)
        assert await site.crawl(*workers) == {State.FINISHED}
        expected = web.expected()
        done = Counter(await site.done())
        assert set(done) == expected.done
        assert set(done.values()) == {1}
        assert {url: failed.error_class for url, failed in (await site.failures()).items()} == expected.failed
        counts = await site.frontier.counts()
        assert (counts.redirected, counts.excluded) == (expected.hops, len(expected.excluded))
        assert counts.unfinished == 0
        titles = {record["url"]: record["title"] for record in await site.records() if record["title"]}
        assert {title for title in titles.values() if title.startswith("Page")} >= set(expected.titles.values())
        # Nobody was asked twice for a page that answered the first time.
        answered = Counter((hit.host, hit.path) for hit in web.log() if hit.status == 200)
        assert set(answered.values()) == {1}


@ON_MEMORY
async def test_what_no_seed_permits_is_never_touched(site: Any) -> None:
    spec = SPEC.replace(canary=True, dead_host=True, blocks=0.0)
    async with SyntheticWeb(spec) as web:
        await site.begin(web.urls, Anywhere(), max_attempts=2)
        await site.crawl("w1", "w2")
        assert [hit for hit in web.log() if hit.host == -1] == []
        excluded = (await site.frontier.counts()).excluded
        assert excluded > 0


class Anywhere(Spider):
    """Follows every link, wherever it leads."""

    def parse(self, response: Any) -> Any:
        yield {"url": response.url, "title": response.title}
        yield from map(Request, response.links())


@ON_MEMORY
async def test_per_host_holds_for_all_workers_together(site: Any) -> None:
    spec = WebSpec.plain(hosts=2, pages_per_host=60, latency_seconds=0.01)
    async with SyntheticWeb(spec) as web:
        await site.begin(web.urls, per_host=3)
        await site.crawl("w1", "w2", "w3")
        assert max(hit.in_flight for hit in web.log()) == 3
        assert len(await site.done()) == 120


@ON_SQLITE
async def test_the_delay_holds_at_the_socket_for_all_workers_together(site: Any) -> None:
    spec = WebSpec.plain(hosts=2, pages_per_host=5)
    async with SyntheticWeb(spec) as web:
        await site.begin(web.urls, delay_seconds=0.25)
        await site.crawl("w1", "w2")
        for url in web.urls:
            # Where they arrive, a busy machine makes a gap look shorter than it was.
            times = sorted(at for host, at in site.sent if host == host_key(url))
            assert len(times) == sum(hit.host == web.urls.index(url) for hit in web.log())
            assert min(later - earlier for earlier, later in itertools.pairwise(times)) > 0.24
        assert len(await site.done()) == 10


@ON_SQLITE
async def test_a_limit_of_pages_is_exact_for_all_workers_together(site: Any) -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=2, pages_per_host=100)) as web:
        await site.begin(web.urls, max_pages=50)
        assert await site.crawl("w1", "w2") == {State.STOPPED}
        assert len(await site.done()) == 50
        await site.begin(web.urls, max_pages=1_000)
        assert await site.crawl("w1") == {State.FINISHED}
        assert len(set(await site.done())) == 200


@ON_MEMORY
async def test_depth_is_counted_from_the_seeds(site: Any) -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=100)) as web:
        await site.begin(web.urls, max_depth=1)
        await site.crawl()
        assert {record["depth"] for record in await site.records()} == {0, 1}
        assert (await site.frontier.report()).tally["outside:depth"] > 0


@ON_SQLITE
async def test_stopped_and_started_again_nothing_is_fetched_twice(site: Any) -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=2, pages_per_host=100, latency_seconds=0.005)) as web:
        await site.begin(web.urls)
        for _ in range(3):
            async with site.worker() as worker:
                running = asyncio.create_task(worker.run())
                hits = len(web.log())
                while len(web.log()) < hits + 30 and not running.done():  # noqa: ASYNC110  the web has no event
                    await asyncio.sleep(0.001)
                worker.stop()
                await running
        assert await site.crawl() == {State.FINISHED}
        assert Counter(Counter(await site.done()).values()) == {1: 200}
        assert set(Counter((hit.host, hit.path) for hit in web.log()).values()) == {1}
