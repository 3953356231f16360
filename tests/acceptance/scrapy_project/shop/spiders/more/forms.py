"""In a package inside of the package: logins, JSON, errbacks, statuses, retries, redirects, signals."""

from pathlib import Path

import scrapy
from scrapy import signals
from scrapy.exceptions import (
    CannotResolveHostError,
    CloseSpider,
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
)
from scrapy.http import FormRequest, JsonRequest
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.internet.error import ConnectionRefusedError, DNSLookupError, TimeoutError


class LoginSpider(scrapy.Spider):
    """A login by a form, JSON, and what is kept in cookies."""

    name = "login"

    async def start(self):
        yield scrapy.Request(f"{self.site}/login", cookies={"currency": "USD"})

    def parse(self, response):
        return FormRequest.from_response(
            response, formdata={"user": "u", "password": "secret"}, callback=self.after_login
        )

    async def after_login(self, response):
        yield {"kind": "login", "text": response.css("h1::text").get()}
        yield JsonRequest(f"{self.site}/api", data={"page": 2}, callback=self.parse_api)
        yield scrapy.Request(f"{self.site}/account", callback=self.parse_account)

    def parse_api(self, response):
        yield {"kind": "api", **response.json()}

    def parse_account(self, response):
        yield {"kind": "account", "text": response.css("h1::text").get()}


class OddSpider(scrapy.Spider):
    """Statuses, failures, redirects and middlewares of every kind."""

    name = "odd"
    handle_httpstatus_list = [404]
    custom_settings = {
        "RETRY_TIMES": 1,
        "HTTPERROR_ALLOWED_CODES": [410],
        "DOWNLOAD_TIMEOUT": 5,
        "ROBOTSTXT_OBEY": False,
    }

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.scraped, signal=signals.item_scraped)
        crawler.signals.connect(spider.dropped, signal=signals.item_dropped)
        crawler.signals.connect(spider.was_closed, signal=signals.spider_closed)
        crawler.signals.connect(spider.erred, signal=signals.spider_error)
        spider.told = []
        return spider

    def scraped(self, item, response, spider):
        self.crawler.stats.inc_value("odd/scraped")

    def dropped(self, item, exception, spider):
        self.crawler.stats.inc_value("odd/dropped")

    def erred(self, failure, response, spider):
        self.crawler.stats.inc_value("odd/erred")

    def was_closed(self, spider, reason):
        counts = {name: value for name, value in self.crawler.stats.get_stats().items() if name.startswith("odd/")}
        with Path("closed.txt").open("a") as file:
            file.write(f"{reason} {sorted(counts.items())}\n")

    def closed(self, reason):
        with Path("closed.txt").open("a") as file:
            file.write(f"closed {reason}\n")

    async def start(self):
        site = self.site
        for path in (
            "/missing",
            "/gone",
            "/teapot",
            "/broken",
            "/redirect",
            "/canned",
            "/ignored",
            "/banned",
            "/moved-by-middleware",
            "/echo",
            "/refresh",
            "/once-502",
            "/raises",
            "/recovers",
            "/empty",
            "/latin",
            "/text",
            "/json",
            "/xml",
            "/dropped",
        ):
            yield scrapy.Request(site + path, errback=self.failed, cb_kwargs={"path": path})
        yield scrapy.Request(
            site + "/redirect",
            self.parse_stop,
            errback=self.failed,
            dont_filter=True,
            meta={"dont_redirect": True, "handle_httpstatus_list": [302]},
        )
        yield scrapy.Request(site + "/teapot", self.parse_stop, dont_filter=True, meta={"handle_httpstatus_all": True})
        yield scrapy.Request("http://127.0.0.1:9/refused", errback=self.failed)
        yield scrapy.Request("http://127.0.0.1:9/unreachable-but-mended", errback=self.failed)
        yield scrapy.Request(site + "/slow", errback=self.failed, meta={"download_timeout": 0.5, "dont_retry": True})

    def parse(self, response, path=""):
        if path == "/raises":
            yield {"kind": "before"}
            raise ValueError("raises")
        if path == "/recovers":
            raise ValueError("recovers")
        if path == "/dropped":
            yield {"kind": "dropped", "title": "Drop Me"}
            yield {"kind": "failed", "title": "Fail In Pipeline"}
        yield {
            "kind": "page",
            "path": path,
            "status": response.status,
            "url": response.url.partition("//")[2].partition("/")[2],
            "class": type(response).__name__,
            "text": response.css("h1::text").get()
            if hasattr(response, "css") and path not in ("/json", "/text")
            else response.text,
            "redirects": len(response.meta.get("redirect_urls", [])),
            "language": response.request.headers.get("Accept-Language", b"").decode(),
        }

    def parse_stop(self, response):
        yield {"kind": "stop", "status": response.status, "location": response.headers.get("Location", b"").decode()}

    def failed(self, failure):
        known = {
            "dns": (CannotResolveHostError, DNSLookupError),
            "refused": (DownloadConnectionRefusedError, ConnectionRefusedError),
            "timeout": (DownloadTimeoutError, TimeoutError),
            "status": (HttpError,),
        }
        names = [name for name, kinds in known.items() if failure.check(*kinds)]
        status = failure.value.response.status if failure.check(HttpError) else 0
        yield {"kind": "failed", "path": failure.request.url.rpartition("/")[2], "error": names, "status": status}


class ClosingSpider(scrapy.Spider):
    """Stops itself."""

    name = "closing"

    def start_requests(self):
        for number in range(200):
            yield scrapy.Request(f"{self.site}/books/book-{number}")

    def parse(self, response):
        self.count = getattr(self, "count", 0) + 1
        if self.count >= 10:
            raise CloseSpider("enough")
        yield {"url": response.url}


class BadSpider(scrapy.Spider):
    """Yields what cannot be stored."""

    name = "bad"

    async def start(self):
        yield scrapy.Request(f"{self.site}/quotes")

    def parse(self, response):
        yield {"kind": "first"}
        yield response.follow("/echo", callback=lambda response: None)
