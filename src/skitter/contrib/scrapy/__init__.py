"""Scrapy projects that crawl with skitter. Needs the extra ``scrapy``."""

from skitter.errors import ExtraMissingError

try:
    import scrapy  # noqa: F401
except ImportError as _error:
    raise ExtraMissingError("a Scrapy project", "scrapy") from _error
