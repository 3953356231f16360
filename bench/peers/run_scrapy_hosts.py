"""Scrapy on many hosts: run_scrapy_hosts.py FILE MAX_PAGES, with the first URL of each host in the file."""

from pathlib import Path

from meter import Meter
from run_scrapy import crawl

if __name__ == "__main__":
    meter = Meter("scrapy")
    crawl(meter, Path(meter.start_url).read_text().split())
