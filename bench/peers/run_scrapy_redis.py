"""scrapy-redis on one site: run_scrapy_redis.py START_URL MAX_PAGES REDIS_URL.

Scrapy as in run_scrapy.py, with the queue and the filter of scrapy-redis. Both are emptied when the crawl ends.
"""

from meter import Meter
from run_scrapy import crawl

meter = Meter("scrapy-redis")
crawl(
    meter,
    SCHEDULER="scrapy_redis.scheduler.Scheduler",
    DUPEFILTER_CLASS="scrapy_redis.dupefilter.RFPDupeFilter",
    SCHEDULER_PERSIST=False,
    SCHEDULER_FLUSH_ON_START=True,
    REDIS_URL=meter.redis_url,
)
