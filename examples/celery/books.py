"""Spider: yields URL and title of every page of a site."""

from skitter import Spider


class Books(Spider):
    name = "books"

    def __init__(self, url="https://books.example/"):
        self.start_urls = [url]

    def parse(self, response):
        yield {"url": response.url, "title": response.css("title::text").get()}
        yield from response.follow_all(response.css("a"))
