"""The composition root: the one place that knows every room and puts them together.

``backends`` picks a backend by URL, ``crawl`` runs a job on this machine, ``child`` is the process
of one worker, ``script`` is ``skitter.crawl``.
"""

from skitter.app.backends import default_frontier, open_frontier
from skitter.app.crawl import run_crawl, run_drain, run_worker
from skitter.app.plan import CrawlPlan, Output, Summary
from skitter.app.script import crawl

__all__ = [
    "CrawlPlan",
    "Output",
    "Summary",
    "crawl",
    "default_frontier",
    "open_frontier",
    "run_crawl",
    "run_drain",
    "run_worker",
]
