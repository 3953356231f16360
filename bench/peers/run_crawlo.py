"""Crawlo on one site: run_crawlo.py START_URL MAX_PAGES.

In memory, with its aiohttp downloader, no pause, no extensions, and a queue that does not fill up. It cannot be told to
stop at a number of pages, so the process ends there.
"""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

from crawlo import Request, Spider
from crawlo.crawler import CrawlerProcess
from meter import IN_FLIGHT, Meter

logging.disable(logging.CRITICAL)
meter = Meter("crawlo")
host = urlsplit(meter.start_url).netloc


class Everything(Spider):
    name = "everything"
    start_urls = (meter.start_url,)

    def parse(self, response: Any) -> Iterator[Any]:
        meter.write({"url": response.url, "title": response.css("title::text").get()})
        for href in response.css("a::attr(href)").getall():
            url = urldefrag(urljoin(response.url, href)).url
            if urlsplit(url).netloc == host:
                yield Request(url)
        meter.page(response.url)
        if meter.full():
            meter.end_process()


settings = {
    "RUN_MODE": "standalone",
    "QUEUE_TYPE": "memory",
    "CONCURRENCY": IN_FLIGHT,
    "DOWNLOAD_DELAY": 0,
    "RANDOMNESS": False,
    "LOG_LEVEL": "CRITICAL",
    "DOWNLOADER": "crawlo.downloader.AioHttpDownloader",
    "CONNECTION_POOL_LIMIT_PER_HOST": IN_FLIGHT,
    "PIPELINES": {},
    "EXTENSIONS": [],
    "MEMORY_SCHEDULER_MAX_QUEUE_SIZE": 1_000_000,
    "SCHEDULER_MAX_QUEUE_SIZE": 1_000_000,
    "BACKPRESSURE_ENABLED": False,
}


async def main() -> None:
    process = CrawlerProcess(settings=settings)
    meter.begin()
    await process.crawl(Everything)
    print(meter.report())


asyncio.run(main())
