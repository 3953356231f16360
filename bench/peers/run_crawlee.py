"""Crawlee on one site: run_crawlee.py START_URL MAX_PAGES.

Its HTTP crawler with parsel, everything in memory, 64 in flight from the first moment instead of as many as it dares.
The lines are written by hand, which is cheaper than its dataset.
"""

import asyncio
import logging

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient
from meter import IN_FLIGHT, Meter

logging.disable(logging.CRITICAL)


async def main() -> None:
    meter = Meter("crawlee")
    crawler = ParselCrawler(
        max_requests_per_crawl=meter.max_pages,
        concurrency_settings=ConcurrencySettings(
            min_concurrency=IN_FLIGHT, desired_concurrency=IN_FLIGHT, max_concurrency=IN_FLIGHT
        ),
        storage_client=MemoryStorageClient(),
        use_session_pool=False,
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def every_page(context: ParselCrawlingContext) -> None:
        meter.write({"url": context.request.url, "title": context.selector.css("title::text").get()})
        await context.enqueue_links()
        meter.page(context.request.url)

    meter.begin()
    await crawler.run([meter.start_url])
    print(meter.report())


asyncio.run(main())
