import asyncio
import json
from pathlib import Path

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem
from twisted.internet import defer, reactor


class CleanPipeline:
    """Strips text, and waits for a Deferred and a coroutine on the way."""

    def __init__(self, currency):
        self.currency = currency

    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler.settings.get("SHOP_CURRENCY"))

    async def process_item(self, item, spider):
        await asyncio.sleep(0)
        adapter = ItemAdapter(item)
        if "currency" in adapter.field_names() or isinstance(item, dict):
            adapter["currency"] = self.currency
        return item


class DropPipeline:
    """Drops what has been seen, and what is broken."""

    def open_spider(self, spider):
        self.crawler_stats = spider.crawler.stats

    def process_item(self, item, spider):
        adapter = ItemAdapter(item)
        if adapter.get("text") == "drop me" or adapter.get("title") == "Drop Me":
            raise DropItem("not wanted")
        if adapter.get("title") == "Fail In Pipeline":
            raise ValueError("a pipeline that fails")
        waited = defer.Deferred()
        reactor.callLater(0, waited.callback, item)
        return waited


class JsonLinesPipeline:
    """Writes a file of its own, as many tutorials do."""

    def open_spider(self, spider):
        self.file = Path(f"own-{spider.name}.jsonl").open("a", encoding="utf-8")

    def close_spider(self, spider):
        self.file.close()

    def process_item(self, item, spider):
        self.file.write(json.dumps(ItemAdapter(item).asdict(), default=str) + "\n")
        self.file.flush()
        return item
