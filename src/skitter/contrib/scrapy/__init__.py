"""Scrapy projects that crawl with skitter. Needs the extra ``scrapy``."""
