"""Requests of a job that failed for good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from skitter.app.crawl_source import seed_url
from skitter.frontier.contract import Frontier
from skitter.model.job import Dead, Report
from skitter.model.secrets import MASK, without_secrets
from skitter.model.url import canonical

_BATCH = 500


async def find_dead(frontier: Frontier, error_class: str = "", urls: Sequence[str] = ()) -> AsyncIterator[Dead]:
    """Dead requests in the order they were added; with ``urls``, only those.

    By going through the list and not by fingerprint: a request with a body, or one that was never
    deduped, has the URL of another and still is one that failed.
    """
    wanted = {canonical(seed_url(url)) for url in urls}
    # As they were listed, with their secrets masked.
    masked = {url for url in urls if MASK in url}
    after = 0
    while batch := await frontier.dead(error_class, _BATCH, after):
        after = batch[-1].position
        for dead in batch:
            if not wanted or canonical(dead.url) in wanted or without_secrets(dead.url) in masked:
                yield dead


def count_dead(report: Report, error_class: str = "") -> int:
    """How many there are, of one class or of all."""
    return report.errors.get(error_class, 0) if error_class else report.counts.dead
