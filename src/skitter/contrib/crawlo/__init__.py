"""Names of Crawlo for spiders that come from there, as in ``from skitter.contrib.crawlo import Request, Spider``.

What its documented base class, requests and items have and skitter has too, under Crawlo's names. The rest is in
docs/how-to/come-from-crawlo.md, line by line.
"""

from __future__ import annotations

from skitter.contrib.crawlo.items import Field, Item
from skitter.contrib.crawlo.requests import Request, RequestPriority
from skitter.contrib.crawlo.spiders import Spider
from skitter.extract.response import Response

__all__ = ["Field", "Item", "Request", "RequestPriority", "Response", "Spider"]
