"""Spider: yields the quotes of a site, page by page, and the birth dates of their authors."""

import skitter


class Quotes(skitter.Spider):
    name = "quotes"
    start_urls = ["https://quotes.example/"]
    allowed_domains = ["quotes.example"]

    def parse(self, response):
        for quote in response.css("div.quote"):
            yield {
                "text": quote.css("span.text::text").get(),
                "author": quote.css("small.author::text").get(),
                "tags": quote.css("a.tag::text").getall(),
            }
            yield response.follow(quote.css("a.about").attrib["href"], self.parse_author)
        yield from response.follow_all(css="li.next a")

    def parse_author(self, response):
        yield {"author": response.css("h3::text").get().strip(), "born": response.css("span.born::text").get()}


if __name__ == "__main__":
    for item in skitter.stream(Quotes):
        print(item)
