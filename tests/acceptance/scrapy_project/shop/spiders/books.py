from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from shop.items import BookItem, BookLoader


class BooksSpider(CrawlSpider):
    """A CrawlSpider with rules and a loader."""

    name = "books"
    allowed_domains = ["127.0.0.1"]
    rules = (
        Rule(LinkExtractor(allow=r"/books/page-\d+"), follow=True),
        Rule(LinkExtractor(restrict_css="article h3"), callback="parse_book", cb_kwargs={"kind": "book"}),
        Rule(LinkExtractor(allow="elsewhere"), callback="parse_book"),
    )

    def __init__(self, site="http://127.0.0.1:1", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/books/page-1"]

    def parse_start_url(self, response):
        yield {"kind": "start", "url": response.url.rpartition("/")[2], "stamp": ""}

    def parse_book(self, response, kind):
        loader = BookLoader(response=response)
        loader.add_css("title", "h1::text")
        loader.add_css("price", "p.price::text")
        loader.add_value("url", response.url.rpartition("/")[2])
        yield loader.load_item()
        yield BookItem(title=f"{kind} {response.css('h1::text').get()}", categories=response.css("li::text").getall())
