"""Spider for a shop whose pages need JavaScript: renders each page and stores a screenshot of every product.

skitter crawl shop.py -a shop=https://shop.example/ -O products.jsonl
"""

from skitter import Click, Request, Screenshot, Spider, WaitFor


class Shop(Spider):
    shop = "https://shop.example/"

    def start(self):
        # The list shows two products; a click shows the others.
        more = [WaitFor(".product"), Click("text=Show all"), WaitFor(".product:nth-child(4)")]
        yield Request(self.shop, render=True, actions=more)

    def parse(self, response):
        for link in response.css(".product a"):
            yield response.follow(link, self.product, render=True, actions=[WaitFor(".price"), Screenshot()])

    async def product(self, response):
        item = {"name": response.css("h1::text").get(), "price": response.css(".price::text").get()}
        yield await self.save_screenshot(response, item)

    async def on_browser_page(self, request, page):
        """Close the banner if there is one. A hook gets Playwright's page, for what actions cannot express."""
        banner = page.locator("#banner button")
        if await banner.count():
            await banner.click()
