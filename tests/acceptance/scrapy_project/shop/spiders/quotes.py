import datetime
from decimal import Decimal

import scrapy

from ..items import QuoteItem


class QuotesSpider(scrapy.Spider):
    """Quotes with pages, and authors by meta and cb_kwargs."""

    name = "quotes"
    custom_settings = {"DOWNLOAD_DELAY": 0}

    def __init__(self, site="http://127.0.0.1:1", tag=None, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [f"{site}/quotes" + (f"/tag/{tag}" if tag else "")]

    def parse(self, response):
        for quote in response.css("div.quote"):
            item = QuoteItem(
                text=quote.css("span.text::text").get(),
                author=quote.xpath(".//small/text()").get(),
                tags=quote.css("a.tag::text").getall(),
            )
            yield response.follow(
                quote.css("a.author::attr(href)").get(),
                callback=self.parse_author,
                cb_kwargs={"item": item, "price": Decimal("1.50")},
                meta={"when": datetime.date(2020, 1, 2), "list": [item]},
                dont_filter=True,
            )
        yield from response.follow_all(css="li.next a", callback=self.parse)

    def parse_author(self, response, item, price):
        assert isinstance(item, QuoteItem)
        assert isinstance(response.meta["list"][0], QuoteItem)
        item["born"] = response.css("span.born::text").get() + f" {price} {response.meta['when']:%Y}"
        item["seen_by"] = response.request.headers.get("X-Shop", b"").decode()
        yield item
