"""The summary of a crawl: how it ended, as a value."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import Any, Self

from skitter.app.failure_sentence import failure_sentence
from skitter.errors import CrawlError
from skitter.frontier.contract import Frontier
from skitter.frontier.tables import DELIVERED_EARLIER, LOST_LINKS
from skitter.model.counters import EMPTY_SITEMAP, without_prefix
from skitter.model.job import Begun, Report, State, StopReason, seeding_problem
from skitter.model.request import Fingerprinter
from skitter.model.url import host_key

_CUT_SHORT = (StopReason.COMMAND, StopReason.CLOSE_AFTER_ERRORS)
"""Reasons to stop that leave a crawl incomplete."""


@dataclasses.dataclass(kw_only=True)
class Summary:
    """Result of a crawl. Counts are those of the run; ``seconds`` and ``pages_per_second`` are those of this node.

    It is a dataclass, which FastAPI and pydantic accept as an answer."""

    job: str
    state: str
    run: int
    pages: int
    unchanged: int = 0
    """Number of these pages that had not changed since they were last parsed, in a job that recrawls."""
    cached: int = 0
    """Responses from the cache."""
    items: int
    redirected: int
    failed: int
    excluded: int
    duplicates: int
    delivered_earlier: int = 0
    """Of the duplicates: links to pages that earlier runs have delivered (``dedup_scope``)."""
    bytes: int
    seconds: float
    pages_per_second: float
    seeds_done: bool
    """Whether at least one seed led to a page."""
    no_seed_because: str = ""
    """Reason why no seed led to a page: one failure or exclusion, as a sentence."""
    no_seed_class: str = ""
    """Error class of this failure or exclusion."""
    outputs: list[str] = field(default_factory=list)
    """Outputs of the job; if empty, its items are not kept."""
    signal: int
    """SIGINT or SIGTERM if a signal ended it, else 0. Set by the process that handles signals; a node does not."""
    blocked_by: str
    undelivered: int
    rejected: int
    """Items that could not be stored or written; they are in the rejects files."""
    lost_links: int = 0
    """Links between shards that a server lost in a failover, although their pages had ended: pages are missing."""
    dropped: dict[str, int]
    """Items that item functions have dropped, by reason."""
    stats: dict[str, int] = field(default_factory=dict)
    """Counters of the spider and its hooks, by name."""
    decisions: dict[str, int] = field(default_factory=dict)
    """Number of decisions of hooks, by ``DECISION:REASON``."""
    empty_sitemaps: dict[str, int] = field(default_factory=dict)
    """Sitemaps that list nothing, and robots.txt files that name no sitemap, by URL (its first 100 characters)."""
    errors: dict[str, int]
    reason: str
    begun: str
    """new, resumed, rerun or joined."""

    @property
    def seeding_problem(self) -> str:
        """Problem that kept the spider's ``start()`` from yielding all seeds; empty if there was none."""
        return seeding_problem(self.reason)

    def raise_for_state(self) -> Self:
        """Raise CrawlError if the crawl failed or is not complete; else return the summary.

        A limit that was set, such as ``max_pages``, completes it; requests that failed beside others do not matter."""
        problem = self.seeding_problem
        if not self.seeds_done and self.state != State.STOPPED:
            problem = f"no page was fetched: {self.no_seed_because or 'there were no requests'}"
        elif self.state not in (State.FINISHED, State.STOPPED) or self.reason in _CUT_SHORT:
            problem = f"it is {self.state}{self.reason and f' by {self.reason}'} after {self.pages} pages"
        elif self.lost_links:
            problem = f"{self.lost_links} links between shards were lost"
        elif self.undelivered and not problem:
            problem = f"{self.undelivered} items are undelivered"
        if problem:
            raise CrawlError(f"the crawl of job {self.job} failed or is incomplete: {problem}")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for ``json.dumps`` for example."""
        return dataclasses.asdict(self) | {"state": str(self.state), "begun": str(self.begun)}


async def summary_of(frontier: Frontier, report: Report, begun: Begun, seconds: float, done_before: int) -> Summary:
    """The summary of a node that ran for ``seconds`` and found ``done_before`` pages done at its start."""
    counts, tally = report.counts, report.tally
    error_class, because = await _why_no_seed(frontier, report)
    rate = max(0, counts.done - done_before) / seconds if seconds else 0.0
    return Summary(
        job=report.job.spec.name,
        state=report.job.state,
        run=report.job.run,
        pages=counts.done,
        unchanged=tally.get("unchanged", 0),
        cached=tally.get("cached", 0),
        items=report.items,
        rejected=report.rejected,
        dropped=report.dropped,
        stats=report.stats,
        decisions=report.decisions,
        lost_links=tally.get(LOST_LINKS, 0),
        empty_sitemaps=without_prefix(tally, EMPTY_SITEMAP),
        redirected=counts.redirected,
        failed=counts.failed,
        excluded=counts.excluded,
        duplicates=tally.get("duplicates", 0),
        delivered_earlier=tally.get(DELIVERED_EARLIER, 0),
        bytes=tally.get("bytes", 0),
        seconds=round(seconds, 3),
        pages_per_second=round(rate, 1),
        # A crawl that stays may have had nothing to do in its last run, and a queue may have been empty.
        seeds_done=counts.done > 0
        or report.job.spec.settings.get("stay") is True
        or (bool(report.intakes) and not counts.seen),
        no_seed_because=because,
        no_seed_class=error_class,
        outputs=[sink.target for sink in report.sinks],
        signal=0,
        blocked_by="sink" if any(sink.blocking for sink in report.sinks) else "",
        undelivered=report.undelivered,
        errors=report.errors,
        reason=report.job.reason,
        begun=begun,
    )


async def _why_no_seed(frontier: Frontier, report: Report) -> tuple[str, str]:
    """Return class and sentence of the first failed request, or else of the first seed; empty if a page was done."""
    if not report.counts.done:
        for failed in await frontier.failures("", 1):
            return failed.error_class, failure_sentence(failed.url, failed.error_class, failed.error)
        for seed in report.job.spec.seeds[:1]:
            trace = await frontier.trace(Fingerprinter.of_job(report.job).fingerprint("GET", seed), host_key(seed))
            if trace is not None and trace.error_class:
                return trace.error_class, failure_sentence(trace.url, trace.error_class, trace.error)
    return "", ""
