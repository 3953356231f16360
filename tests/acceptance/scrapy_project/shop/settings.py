BOT_NAME = "shop"

SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"

ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS = 8
DEFAULT_REQUEST_HEADERS = {"Accept": "text/html,*/*;q=0.8", "Accept-Language": "de"}
DOWNLOADER_MIDDLEWARES = {"shop.middlewares.HeaderMiddleware": 543}
SPIDER_MIDDLEWARES = {"shop.middlewares.StampMiddleware": 543}
ITEM_PIPELINES = {
    "shop.pipelines.CleanPipeline": 300,
    "shop.pipelines.DropPipeline": 400,
    "shop.pipelines.JsonLinesPipeline": 800,
}
RETRY_TIMES = 1
SHOP_CURRENCY = "EUR"
REQUEST_FINGERPRINTER_IMPLEMENTATION = "2.7"
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
FEED_EXPORT_ENCODING = "utf-8"
TELNETCONSOLE_ENABLED = False
LOG_LEVEL = "INFO"
