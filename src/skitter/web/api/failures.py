"""Failures of a job: a bounded list by class and host, and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Literal

import msgspec

from skitter.app.views.failed import check_error_class, count_failed
from skitter.frontier.contract import Frontier
from skitter.model.job import FailedRequest
from skitter.model.url import host_key
from skitter.web.api.job_reads import PageQuery, Text, opened_job
from skitter.web.api.live_figures import LiveFigures
from skitter.web.api.route import MAX_PAGE_LIMIT, Call, Page
from skitter.web.frontier_routes import RefusedError

MAX_FAILURES_READ = 2_000
"""Of one page of failures, with a filter by host, and of a summary by host."""
FAILED_BATCH = 500


class FailuresQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    error_class: Text = msgspec.field(default="", name="class")
    host: Text = ""
    """The key of a host, or a part of it."""
    order: Annotated[
        Literal["newest", "oldest"],
        msgspec.Meta(description="By when requests were added to the job, not by when they failed (ended_at)."),
    ] = "newest"


class FailureRow(msgspec.Struct, frozen=True, kw_only=True):
    """A request that failed for good."""

    id: str
    """16 hexadecimal digits."""
    url: str
    host: str
    error_class: str
    error: str
    """With its traceback, if there is one."""
    status: int
    attempts: int
    losses: int
    referrer: str | None
    ended_at: float


class HostFailures(msgspec.Struct, frozen=True, kw_only=True):
    """Failures of a host, among those that were looked at."""

    host: str
    failures: int


class FailureSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Failures by class, all of them; and by host, of those whose requests were added last."""

    total: int
    classes: dict[str, int]
    hosts: list[HostFailures]
    looked_at: int


class FailureReads:
    """The handlers."""

    def __init__(self, figures: LiveFigures) -> None:
        self._figures = figures

    async def rows(self, call: Call) -> Page[FailureRow]:
        query: FailuresQuery = call.query
        check_error_class(query.error_class)
        is_newest = query.order == "newest"
        rows: list[FailureRow] = []
        position, read = cursor_number(query.after), 0
        async with opened_job(call) as frontier:
            while read < MAX_FAILURES_READ:
                wanted = FAILED_BATCH if query.host else query.limit - len(rows)
                batch = await frontier.failures(query.error_class, wanted, position, newest=is_newest)
                read += len(batch)
                for failed in batch:
                    position = failed.position
                    row = failure_row(failed)
                    if query.host in row.host:
                        rows.append(row)
                    if len(rows) == query.limit:
                        return Page(rows=rows, next=str(position))
                if len(batch) < wanted:
                    return Page(rows=rows)
        return Page(rows=rows, next=str(position))

    async def summary(self, call: Call) -> FailureSummary:
        report = await self._figures.report(call.store, call.job)
        hosts: Counter[str] = Counter()
        async with opened_job(call) as frontier:
            async for failed in newest_failed(frontier, MAX_FAILURES_READ):
                hosts[host_of(failed.url)] += 1
        return FailureSummary(
            total=count_failed(report),
            classes={name: n for name, n in report.errors.items() if n},
            hosts=[HostFailures(host=host, failures=n) for host, n in hosts.most_common(MAX_PAGE_LIMIT)],
            looked_at=hosts.total(),
        )


async def newest_failed(frontier: Frontier, most: int, error_class: str = "") -> AsyncIterator[FailedRequest]:
    """The failures whose requests were added last, in that order."""
    position = 0
    while most > 0 and (batch := await frontier.failures(error_class, min(FAILED_BATCH, most), position, newest=True)):
        for failed in batch:
            yield failed
        position, most = batch[-1].position, most - len(batch)


def failure_row(failed: FailedRequest) -> FailureRow:
    """A failure as it is shown."""
    return FailureRow(
        id=f"{failed.id % 2**64:016x}",
        url=failed.url,
        host=host_of(failed.url),
        error_class=failed.error_class,
        error=failed.error,
        status=failed.status,
        attempts=failed.attempts,
        losses=failed.losses,
        referrer=failed.referrer,
        ended_at=failed.ended_at,
    )


def host_of(url: str) -> str:
    """The key of a URL's host; what is no URL any more has none."""
    try:
        return host_key(url)
    except ValueError:
        return ""


def cursor_number(after: str) -> int:
    """The position in a cursor."""
    if not after:
        return 0
    if not after.isdecimal() or not after.isascii() or len(after) > 18:
        raise RefusedError(400, "invalid cursor of this list: after", hint="use the value of next")
    return int(after)
