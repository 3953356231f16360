from scrapy import signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse


class HeaderMiddleware:
    """Sets a header, answers some requests itself, ignores others, and sees answers and exceptions."""

    @classmethod
    def from_crawler(cls, crawler):
        made = cls()
        made.crawler = crawler
        crawler.signals.connect(made.spider_opened, signal=signals.spider_opened)
        return made

    def spider_opened(self, spider):
        self.header = f"from {spider.name}"

    def process_request(self, request, spider):
        request.headers["X-Shop"] = self.header
        if "/canned" in request.url:
            return HtmlResponse(request.url, body=b"<h1>canned</h1>", encoding="utf-8", request=request)
        if "/ignored" in request.url:
            raise IgnoreRequest("not this one")
        if "/moved-by-middleware" in request.url:
            return request.replace(url=request.url.replace("/moved-by-middleware", "/echo?moved=1"))
        return None

    def process_response(self, request, response, spider):
        if response.status == 200 and b"BANNED" in response.body and not request.meta.get("again"):
            again = request.replace(dont_filter=True)
            again.meta["again"] = True
            return again
        return response

    def process_exception(self, request, exception, spider):
        if "/unreachable-but-mended" in request.url:
            return HtmlResponse(request.url, body=b"<h1>mended</h1>", encoding="utf-8", request=request)
        return None


class StampMiddleware:
    """Marks items and passes start requests on."""

    async def process_spider_output(self, response, result):
        async for output in result:
            if isinstance(output, dict) and "stamp" in output:
                output["stamp"] = "stamped"
            yield output

    async def process_start(self, start):
        async for request in start:
            yield request

    def process_spider_exception(self, response, exception):
        if "recovers" in str(exception):
            return [{"kind": "recovered", "url": response.url.rpartition("/")[2]}]
        return None
