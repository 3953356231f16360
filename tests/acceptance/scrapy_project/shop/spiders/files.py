import scrapy


class FilesSpider(scrapy.Spider):
    """Files and images of items, by Scrapy's own pipelines."""

    name = "files"
    custom_settings = {
        "ITEM_PIPELINES": {
            "scrapy.pipelines.files.FilesPipeline": 1,
            "scrapy.pipelines.images.ImagesPipeline": 2,
        },
        "FILES_STORE": "stored-files",
        "IMAGES_STORE": "stored-images",
        "IMAGES_THUMBS": {"small": (8, 8)},
        "DOWNLOADER_MIDDLEWARES": {},
    }

    def __init__(self, site="http://127.0.0.1:1", **kwargs):
        super().__init__(**kwargs)
        self.site = site
        self.start_urls = [f"{site}/files-page"]

    async def parse(self, response):
        yield {
            "name": "a",
            "file_urls": response.css("a::attr(href)").getall(),
            "image_urls": response.css("img::attr(src)").getall(),
        }
        inline = await self.crawler.engine.download_async(scrapy.Request(f"{self.site}/echo"))
        yield {"name": "inline", "status": inline.status, "text": inline.css("h1::text").get()}
