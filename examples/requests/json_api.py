"""Spider for a JSON API that takes POST requests and returns a cursor for the next page."""

from skitter import Request, Spider


class JsonApi(Spider):
    name = "json_api"
    base = "http://127.0.0.1:8000"

    def start(self):
        yield self.page(None)

    def page(self, cursor):
        query = {"query": "products", "limit": 10, "cursor": cursor}
        return Request(f"{self.base}/api", json=query, headers={"Accept": "application/json"}, timeout=20)

    def parse(self, response):
        answer = response.json()
        yield from answer["products"]
        if answer["next"]:
            # Another cursor is another body, so this is a new request and no duplicate.
            yield self.page(answer["next"])
