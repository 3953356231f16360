"""Scrapy projects that crawl with skitter. Needs the extra ``scrapy``."""

from __future__ import annotations

from skitter.contrib.scrapy.redis_spiders import RedisCrawlSpider, RedisSpider
from skitter.contrib.scrapy.scheduler import Scheduler

__all__ = ["RedisCrawlSpider", "RedisSpider", "Scheduler"]
