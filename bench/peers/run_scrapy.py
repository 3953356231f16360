"""Scrapy on one site: run_scrapy.py START_URL MAX_PAGES.

Tuned as its documentation advises for speed: no cookies, no console, no statistics in the log. Items go through a feed
of JSON lines.
"""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from meter import IN_FLIGHT, Meter
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor


def crawl(meter: Meter, start_urls: Sequence[str] = (), **more: Any) -> None:
    urls = tuple(start_urls) or (meter.start_url,)

    class Everything(Spider):
        name = "everything"
        start_urls = urls
        allowed_domains = tuple(urlsplit(url).hostname for url in urls)
        links = LinkExtractor()

        def parse(self, response: Response) -> Iterator[Any]:
            if isinstance(response, TextResponse):
                yield {"url": response.url, "title": response.css("title::text").get()}
                for link in self.links.extract_links(response):
                    yield Request(link.url)
            meter.page(response.url)

    settings = {
        "CONCURRENT_REQUESTS": IN_FLIGHT,
        "CONCURRENT_REQUESTS_PER_DOMAIN": IN_FLIGHT,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "COOKIES_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "MEMUSAGE_ENABLED": False,
        "LOG_ENABLED": False,
        "LOGSTATS_INTERVAL": 0,
        "CLOSESPIDER_PAGECOUNT": meter.max_pages,
        "FEEDS": {meter.folder / "items.jsonl": {"format": "jsonlines"}},
    }
    process = CrawlerProcess(settings | more)
    process.crawl(Everything)
    meter.begin()
    process.start()
    print(meter.report())


if __name__ == "__main__":
    crawl(Meter("scrapy"))
