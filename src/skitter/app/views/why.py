"""What became of one URL, and why: its state, and reasons as values. Policies are pure: they are simply asked again."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from skitter.app.views.status import count_serving
from skitter.cluster.process_identity import live_workers
from skitter.errors import UrlError
from skitter.frontier.contract import Frontier
from skitter.frontier.tables import DELIVERED, MAYBE_SEEN
from skitter.model.job import Report, State, Trace
from skitter.model.outcome import RobotsRecord
from skitter.model.page_record import PageRecord
from skitter.model.request import FILE_CALLBACK, Fingerprinter, RequestFields
from skitter.model.url import absolute, host_key
from skitter.policy.recrawl import DEFAULT_RATE, change_rate
from skitter.policy.robots import Robots
from skitter.policy.scope import LinkPatterns, Scope
from skitter.policy.traps import TrapRules
from skitter.settings import Settings
from skitter.spiders.sitemaps import ROBOTS

UNSEEN = "unseen"
KNOWN = "known"


class Reason(msgspec.Struct, frozen=True):
    """One reason: its kind, and the values that belong to it. ``cli.why`` has the words of each kind."""

    kind: str
    values: dict[str, Any] = {}


class WhyView(msgspec.Struct, frozen=True, kw_only=True):
    """A URL."""

    url: str
    state: str
    """As ``Trace.state``; ``unseen``: the job does not know it; ``known``: it does, from an earlier run."""
    reasons: list[Reason]
    trace: Trace | None = None
    """What the frontier knows of it."""
    page: PageRecord | None = None
    """Its record, in a job that recrawls."""


def _reason(kind: str, **values: Any) -> Reason:
    return Reason(kind, values)


def why_refused(text: str) -> WhyView | None:
    """Why what a person typed is in no job, if it is a URL that is never crawled; UrlError for what is no URL.

    Asked before a frontier is opened: a mistake of typing is told even where there is no store.
    """
    try:
        absolute(text)
    except UrlError as error:
        if error.rule == "unparsable":
            raise
        return WhyView(url=text, state=UNSEEN, reasons=[_reason("never_crawled", problem=str(error))])
    return None


async def why_url(frontier: Frontier, text: str) -> WhyView:
    """What became of a URL as a person typed it; UrlError for what is no URL."""
    if (refused := why_refused(text)) is not None:
        return refused
    url = absolute(text)
    report, key = await frontier.report(0), host_key(url)
    fingerprinter = Fingerprinter.of_job(report.job)
    trace, page = None, None
    # As a page, or else as a download.
    for request in (RequestFields(url), RequestFields(url, FILE_CALLBACK)):
        request_id = fingerprinter.request_id(request)
        trace, page = await frontier.trace(request_id, key), await frontier.page_record(request_id, key)
        if trace is not None or page is not None:
            break
    of_page = [] if page is None else [_history(page)]
    if trace is not None:
        reasons = seen_reasons(trace, report) + of_page
        return WhyView(url=url, state=trace.state, reasons=reasons, trace=trace, page=page)
    if page is not None:
        return WhyView(url=url, state=KNOWN, reasons=of_page, page=page)
    robots = (await frontier.robots([key])).get(key)
    return WhyView(url=url, state=UNSEEN, reasons=unseen_reasons(url, report, robots))


def _history(page: PageRecord) -> Reason:
    """The visits of a page from run to run."""
    return _reason(
        "history",
        fetched_at=page.fetched_at,
        changed_at=page.changed_at,
        next_at=page.next_at,
        visits=[(visit.seconds, visit.changed) for visit in page.visits],
        rate=change_rate(page.visits, DEFAULT_RATE),
    )


def seen_reasons(trace: Trace, report: Report) -> list[Reason]:
    """The life of a request that the frontier knows."""
    if trace.state == "ended":
        return [_reason("ended")]
    if trace.state == DELIVERED:
        return [_reason("delivered")]
    if trace.state == MAYBE_SEEN:
        return [_reason("maybe_seen", error_rate=report.dedup.implied_error_rate if report.dedup else 0.0)]
    origin = _reason(
        "origin", referrer=trace.referrer, added_at=trace.added_at, depth=trace.depth, priority=trace.priority
    )
    if trace.state in ("queued", "delayed"):
        return [*_waiting(trace, report), origin]
    if trace.state == "leased":
        return [_reason("leased", worker=trace.worker, attempt=trace.attempts + 1), origin]
    error = {"ended_at": trace.ended_at, "error_class": trace.error_class, "error": trace.error}
    if trace.state == "failed":
        failed = _reason("failed", **error, status=trace.status)
        return [failed, _reason("spent", attempts=trace.attempts, losses=trace.losses), origin]
    if trace.state == "excluded":
        return [_reason("excluded", **error), origin]
    kind = "redirected" if trace.state == "redirected" else "fetched"
    return [_reason(kind, ended_at=trace.ended_at, status=trace.status, attempts=max(1, trace.attempts)), origin]


def _waiting(trace: Trace, report: Report) -> list[Reason]:
    reasons = []
    if trace.attempts or trace.losses:
        counts = {"attempts": trace.attempts, "losses": trace.losses}
        reasons.append(_reason("tried", **counts, error_class=trace.error_class, error=trace.error))
    if report.job.state is not State.RUNNING:
        reasons.append(_reason("job_not_running", state=report.job.state, reason=report.job.reason))
    elif not live_workers(report):
        reasons.append(_reason("no_worker"))
    if trace.need:
        reasons.append(_reason("need", need=trace.need, workers=count_serving(report, trace.need)))
    reasons += [_reason("blocked_by_sink", target=sink.target) for sink in report.sinks if sink.blocking]
    host = trace.host
    if host is not None:
        if host.paused:
            reasons.append(_reason("host_paused"))
        if host.blocked_seconds:
            reasons.append(_reason("host_blocked", seconds=host.blocked_seconds, error_class=host.error_class))
        if host.stopped_by:
            reasons.append(_reason("host_budget", pages=host.pages, stopped_by=host.stopped_by))
        reasons.append(_reason("host_queue", queued=host.queued, in_flight=host.in_flight))
    if trace.ready_in_seconds:
        return [*reasons, _reason("not_before", seconds=trace.ready_in_seconds)]
    if host is not None and host.address_full:
        return [*reasons, _reason("address_full", address=host.address)]
    if (host is not None and host.paused) or (trace.need and not count_serving(report, trace.need)):
        return reasons
    return [*reasons, _reason("ready")]


def unseen_reasons(url: str, report: Report, robots: RobotsRecord | None) -> list[Reason]:
    """Which rule would keep it out; failing that, what is left to think of."""
    job = report.job
    settings = Settings.from_layers([("the job", job.spec.settings)])
    reasons = []
    if not job.spec.spider:
        permitted = [host_key(seed) for seed in (*job.spec.seeds, *job.spec.sitemaps) if seed != ROBOTS]
        scope = Scope(by_seeds=True)
        scope.permit(permitted)
        if scope.rule_against(url, 0):
            reasons.append(_reason("outside_scope", host=host_key(url), hosts=list(dict.fromkeys(permitted))))
    if settings.politeness.obey_robots and robots is not None:
        rule = Robots.parse(robots.text, settings.fetch.agent).deciding(url)
        if rule is not None and not rule.allow:
            reasons.append(_reason("robots_rule", rule=str(rule)))
    reasons += _pattern_reasons(url, settings)
    reasons += _trap_reasons(url, settings)
    if reasons:
        return reasons
    reasons.append(_reason("not_found"))
    if settings.limits.max_depth is not None:
        reasons.append(_reason("max_depth", max_depth=settings.limits.max_depth))
    if settings.politeness.obey_nofollow:
        reasons.append(_reason("nofollow"))
    if job.state is State.RUNNING:
        reasons.append(_reason("not_finished"))
    elif job.reason:
        seconds = job.ended_at - job.started_at
        reasons.append(_reason("job_ended", state=job.state, reason=job.reason, seconds=seconds))
    return reasons


def _pattern_reasons(url: str, settings: Settings) -> list[Reason]:
    """Whether links like it are left out by ``include`` or ``exclude``."""
    patterns = LinkPatterns.of(settings.links)
    rule = patterns and patterns.rule_against(url)
    if patterns is None or rule is None:
        return []
    shown = list(settings.links.include) if rule == "include" else [patterns.excluding(url)]
    return [_reason("link_pattern", rule=rule, patterns=shown)]


def _trap_reasons(url: str, settings: Settings) -> list[Reason]:
    """How far from a seed it was found is not known; a rule may only be against it there."""
    if settings.traps.traps == "off":
        return []
    rules = TrapRules(settings.traps, time.gmtime().tm_year)
    if rule := rules.rule_against(url, 0):
        return [_reason("trap", rule=rule)]
    if rule := rules.rule_against(url, settings.traps.endless_depth):
        return [_reason("trap_if_deep", rule=rule)]
    return []
