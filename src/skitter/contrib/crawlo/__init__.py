"""Crawlo's names for spiders that were written for it: ``from skitter.contrib.crawlo import Request, Spider``.

Provides those features of Crawlo's documented base class, requests and items that skitter has too, under Crawlo's
names. docs/how-to/migrate-from-crawlo.md lists the rest.
"""

from __future__ import annotations

from skitter.contrib.crawlo.items import Field, Item
from skitter.contrib.crawlo.requests import Request, RequestPriority
from skitter.contrib.crawlo.spiders import Spider
from skitter.extract.response import Response

__all__ = ["Field", "Item", "Request", "RequestPriority", "Response", "Spider"]
