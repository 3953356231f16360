from dataclasses import dataclass, field

import scrapy
from itemloaders.processors import Join, MapCompose, TakeFirst
from scrapy.loader import ItemLoader


class QuoteItem(scrapy.Item):
    text = scrapy.Field()
    author = scrapy.Field()
    tags = scrapy.Field()
    born = scrapy.Field()
    seen_by = scrapy.Field()
    currency = scrapy.Field()


class PriceItem(scrapy.Item):
    title = scrapy.Field()
    price = scrapy.Field(serializer=lambda value: f"{value:.2f}")
    url = scrapy.Field()


@dataclass
class BookItem:
    title: str | None = None
    price: float | None = None
    categories: list[str] = field(default_factory=list)


class BookLoader(ItemLoader):
    default_item_class = PriceItem
    default_output_processor = TakeFirst()
    title_in = MapCompose(str.strip, str.title)
    title_out = Join(" ")
    price_in = MapCompose(lambda text: text.lstrip("£"), float)
