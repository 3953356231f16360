"""Spider for a shop that answers too many requests with a captcha (status 200): waits, then fetches the page again."""

from skitter import Retry, Spider

PAUSE_SECONDS = 60


class SoftBan(Spider):
    name = "soft_ban"
    start_urls = ["http://127.0.0.1:8000/"]
    custom_settings = {"max_attempts": 5}

    def on_response(self, request, response):
        if not response.css("form#captcha"):
            return None
        self.stats.add("captchas")
        # The page is not parsed. After the last attempt `skitter failed` lists it.
        return Retry("captcha", delay=PAUSE_SECONDS)

    def parse(self, response):
        for product in response.css("li.product"):
            yield {"name": product.css("h2::text").get(), "price": product.css(".price::text").get()}
        yield from response.follow_all(css="a[rel=next]")
