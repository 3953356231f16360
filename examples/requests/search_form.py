"""Spider: posts a search form, follows the pages of results, and yields a record for each broken page."""

from skitter import Request, Spider


class SearchForm(Spider):
    name = "search_form"
    base = "http://127.0.0.1:8000"

    def start(self):
        for words in ("lamp", "chair"):
            yield Request(f"{self.base}/search", form={"q": words, "sort": "price"}, meta={"words": words})

    def parse(self, response):
        for link in response.css("a.product"):
            # At most two attempts: some pages of the shop never work.
            yield response.follow(link, self.product, errback=self.missing, max_attempts=2, meta=response.meta)
        yield from response.follow_all(css="a.next", meta=response.meta)

    def product(self, response):
        price = response.css(".price::text").get()
        yield {"words": response.meta["words"], "name": response.css("h1::text").get(), "price": float(price)}

    def missing(self, failure):
        yield {"words": failure.request.meta["words"], "missing": failure.request.url, "why": failure.error_class}
