"""feapder on one site: run_feapder.py START_URL MAX_PAGES.

Its spider in memory with 64 threads, one session for all of them so that connections are kept, and a set as the filter.
It cannot be told to stop at a number of pages, so the process ends there.
"""

import os
from collections.abc import Iterator
from typing import Any, ClassVar
from urllib.parse import urldefrag, urljoin, urlsplit

os.environ["LOG_LEVEL"] = "CRITICAL"

import feapder
from feapder.dedup import Dedup
from meter import IN_FLIGHT, Meter

meter = Meter("feapder")
host = urlsplit(meter.start_url).netloc


class Everything(feapder.AirSpider):
    __custom_setting__: ClassVar = {
        "SPIDER_THREAD_COUNT": IN_FLIGHT,
        "SPIDER_SLEEP_TIME": 0,
        "USE_SESSION": True,
        "RANDOM_HEADERS": False,
        "MAKE_ABSOLUTE_LINKS": False,
        "REQUEST_FILTER_ENABLE": True,
        "REQUEST_FILTER_SETTING": {"filter_type": Dedup.LiteFilter},
        "ITEM_PIPELINES": [],
    }

    def start_requests(self) -> Iterator[feapder.Request]:
        yield feapder.Request(meter.start_url)

    def parse(self, _request: feapder.Request, response: Any) -> Iterator[feapder.Request]:
        meter.write({"url": response.url, "title": response.css("title::text").extract_first()})
        for href in response.css("a::attr(href)").extract():
            url = urldefrag(urljoin(response.url, href)).url
            if urlsplit(url).netloc == host:
                yield feapder.Request(url)
        meter.page(response.url)
        if meter.full():
            meter.end_process()


spider = Everything()
meter.begin()
spider.start()
spider.join()
print(meter.report())
