"""Requests of a job that failed for good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from skitter.app.crawl_source import seed_url
from skitter.errors import UsageError, did_you_mean
from skitter.frontier.contract import Frontier
from skitter.model.job import FailedRequest, Report
from skitter.model.secrets import MASK, without_secrets
from skitter.model.url import canonical
from skitter.policy.retry import FAILED_CLASSES

_BATCH = 500


async def find_failed(
    frontier: Frontier, error_class: str = "", urls: Sequence[str] = ()
) -> AsyncIterator[FailedRequest]:
    """Failed requests in the order they were added; with ``urls``, only those.

    By going through the list and not by fingerprint: a request with a body, or one that was never
    deduped, has the URL of another and still is one that failed.
    """
    wanted = {canonical(seed_url(url)) for url in urls}
    # As they were listed, with their secrets masked.
    masked = {url for url in urls if MASK in url}
    after = 0
    while batch := await frontier.failures(error_class, _BATCH, after):
        after = batch[-1].position
        for failed in batch:
            if not wanted or canonical(failed.url) in wanted or without_secrets(failed.url) in masked:
                yield failed


async def retry_failed(frontier: Frontier, error_class: str = "", urls: Sequence[str] | None = None) -> int:
    """Queue failed requests again, all or those of a class or with one of the URLs; return how many."""
    if urls is None:
        return await frontier.revive(error_class)
    if not urls:
        return 0
    ids = [failed.id async for failed in find_failed(frontier, error_class, urls)]
    # No ids would mean all of them.
    return await frontier.revive(error_class, ids) if ids else 0


def check_error_class(error_class: str) -> None:
    """Raise UsageError for an unknown error class, which would match nothing."""
    if error_class and error_class not in FAILED_CLASSES:
        near, listed = did_you_mean(error_class, FAILED_CLASSES), f"known classes: {', '.join(FAILED_CLASSES)}"
        raise UsageError(f"no such error class: {error_class}", hint=f"{near} {listed}".lstrip())


def count_failed(report: Report, error_class: str = "") -> int:
    """How many there are, of one class or of all."""
    return report.errors.get(error_class, 0) if error_class else report.counts.failed
