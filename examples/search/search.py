"""Spider: logs in to a shop, submits its search form, and yields the products of every page of results."""

from __future__ import annotations

from skitter import Request, Spider


class Search(Spider):
    name = "search"
    shop = "http://127.0.0.1:8000"
    query = "lamp"
    user, password = "me", ""

    def start(self):
        yield Request(f"{self.shop}/login", callback=self.parse_login)

    def parse_login(self, response):
        # The form includes its hidden fields, such as the CSRF token.
        values = {"user": self.user, "password": self.password}
        yield response.form(id="login").request(values, callback=self.parse_account)

    def parse_account(self, response):
        if response.css("form#login"):
            raise ValueError(f"the login was refused: {response.css('.error').text}")
        values = {"q": self.query, "in_stock": True}
        yield response.form("form[role=search]").request(values, click="go", callback=self.parse_results)

    def parse_results(self, response):
        for product in response.css("li.product"):
            yield {
                "name": product.css("h2::text").get(),
                "price": float(product.css(".price::text").re_first(r"[\d.]+", "nan")),
                "url": response.urljoin(product.css("a").attrib["href"]),
            }
        yield from response.follow_all(css="a[rel=next]", callback=self.parse_results)
