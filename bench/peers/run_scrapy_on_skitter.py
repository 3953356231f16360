"""Scrapy's engine on skitter's frontier: run_scrapy_on_skitter.py START_URL MAX_PAGES REDIS_URL.

Scrapy as in run_scrapy.py, with skitter's scheduler: queue, dedup, leases and the end of the job are in Redis.
"""

from meter import Meter
from run_scrapy import crawl

meter = Meter("skitter")
crawl(
    meter,
    SCHEDULER="skitter.contrib.scrapy.Scheduler",
    SCHEDULER_FLUSH_ON_START=True,
    SKITTER_FRONTIER=meter.redis_url,
)
