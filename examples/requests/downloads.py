"""Spider: yields products and downloads their pictures and manuals to ``file_target``. Records go to the output."""

from skitter import Spider


class Downloads(Spider):
    name = "downloads"
    base = "http://127.0.0.1:8000"

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.start_urls = [f"{self.base}/products"]

    def parse(self, response):
        yield from response.follow_all(css="a.product", callback=self.product)

    def product(self, response):
        pictures = response.css("img::attr(src)").getall()
        yield {"product": response.css("h1::text").get(), "pictures": [response.urljoin(each) for each in pictures]}
        for picture in pictures:
            yield response.download(picture, types=["image/*"], max_bytes=100_000, item={"kind": "picture"})
        for manual in response.css("a.manual"):
            yield response.download(manual, types=["application/pdf"], item={"kind": "manual"})
