from scrapy.spiders import CSVFeedSpider, SitemapSpider, XMLFeedSpider


class SitemapPages(SitemapSpider):
    """Pages of a sitemap index, by rules."""

    name = "sitemap"
    sitemap_rules = [("/books/book-", "parse_book"), ("/quotes", "parse_quotes")]
    sitemap_follow = ["/sitemap-"]

    def __init__(self, site="http://127.0.0.1:1", **kwargs):
        super().__init__(**kwargs)
        self.sitemap_urls = [f"{site}/robots.txt"]

    def parse_book(self, response):
        yield {"title": response.css("h1::text").get(), "depth": response.meta["depth"]}

    def parse_quotes(self, response):
        yield {"quotes": len(response.css("div.quote"))}


class XmlFeed(XMLFeedSpider):
    """An XML feed with a namespace-free iterator."""

    name = "xmlfeed"
    iterator = "iternodes"
    itertag = "item"

    def __init__(self, site="http://127.0.0.1:1", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/feed.xml"]

    def parse_node(self, response, node):
        return {
            "id": node.xpath("@id").get(),
            "title": node.xpath("title/text()").get(),
            "kind": type(response).__name__,
        }


class CsvFeed(CSVFeedSpider):
    """A CSV feed."""

    name = "csvfeed"
    delimiter = ";"
    quotechar = "'"
    headers = ["id", "name", "price"]

    def __init__(self, site="http://127.0.0.1:1", **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [f"{site}/feed.csv"]

    def parse_row(self, response, row):
        return dict(row)
