"""``skitter why``: what became of one URL, and why. Policies are pure: they are simply asked again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from skitter.cli.arguments import Parser, add_job_options, add_voice_options
from skitter.errors import UrlError

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef
    from skitter.frontier.contract import Frontier
    from skitter.model.job import Report, Trace
    from skitter.model.outcome import RobotsRecord
    from skitter.settings import Settings

UNSEEN = "unseen"
HOW_TO_IGNORE = "to fetch it nevertheless: --ignore-robots"
RULES = {
    "guard": "it leads to a private address that no seed has named (--allow-private)",
}


class Known(NamedTuple):
    """All that is known of a URL."""

    report: Report
    trace: Trace | None
    robots: RobotsRecord | None


def configure(parser: Parser) -> None:
    parser.add_argument("url", metavar="URL", nargs="?", default="", help="as it stands in a page or in the results")
    add_job_options(parser)
    add_voice_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_ref import ask, locate
    from skitter.cli.output import print_json
    from skitter.cli.terminal_text import clean
    from skitter.errors import UsageError
    from skitter.model.url import absolute

    if not options.url:
        raise UsageError("which URL?", hint="skitter why URL")
    place = locate(options)
    try:
        url = absolute(options.url)
    except UrlError as flaw:
        if flaw.rule == "unparsable":
            raise UsageError(str(flaw), hint=flaw.hint) from flaw
        url, state, reasons, trace = options.url, UNSEEN, [f"it can never be crawled: {flaw}"], None
    else:
        known = ask(place, lambda frontier: _look(frontier, url))
        trace = known.trace
        state = trace.state if trace else UNSEEN
        reasons = seen_reasons(trace, known.report, place) if trace else unseen_reasons(url, known)
    if options.json:
        print_json(_as_json(url, state, reasons, trace))
    else:
        print(f"{clean(url)}: {'never seen' if state == UNSEEN else state}")
        print("\n".join(f"  {clean(reason)}" for reason in reasons))
    return 0


async def _look(frontier: Frontier, url: str) -> Known:
    from skitter.model.request import Fingerprinter
    from skitter.model.url import host_key

    report = await frontier.report(0)
    key = host_key(url)
    trace = await frontier.trace(Fingerprinter.of_job(report.job).fingerprint("GET", url), key)
    return Known(report, trace, (await frontier.robots([key])).get(key))


def _as_json(url: str, state: str, reasons: list[str], trace: Trace | None) -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(trace) if trace else {}
    return fields | {"url": url, "state": state, "reasons": reasons}


def seen_reasons(trace: Trace, report: Report, place: JobRef) -> list[str]:
    """The life of a request that the frontier knows, in sentences."""
    from skitter.cli.terminal_text import instant

    reasons = {
        "queued": _waiting,
        "delayed": _waiting,
        "leased": _leased,
        "dead": _dead,
        "excluded": _excluded,
    }.get(trace.state, _ended)(trace, report, place)
    if trace.state == "ended":
        return reasons
    origin = f"found on {trace.referrer}" if trace.referrer else "a seed"
    added = f", added {instant(trace.added_at)}" if trace.added_at else ""
    return [*reasons, f"{origin}{added}, depth {trace.depth}, priority {trace.priority}"]


def _waiting(trace: Trace, report: Report, _place: JobRef) -> list[str]:
    from skitter.cli.job_ref import live_workers
    from skitter.cli.terminal_text import count, duration, first_line

    reasons = []
    if trace.attempts or trace.losses:
        last = f", last: {trace.error_class}: {first_line(trace.error)}" if trace.error_class else ""
        reasons.append(f"{count(trace.attempts, 'attempt')} so far, lost {trace.losses} times with its worker{last}")
    if report.job.state != "running":
        why = f" by {report.job.reason}" if report.job.reason else ""
        reasons.append(f"the job is {report.job.state}{why}: nothing is started")
    elif not live_workers(report):
        reasons.append("no worker is at the job")
    reasons += [f"the outbox is full: blocked by sink {sink.target}" for sink in report.sinks if sink.blocking]
    host = trace.host
    if host is not None:
        if host.blocked_seconds:
            trouble = f" after {host.error_class}" if host.error_class else ""
            reasons.append(f"its host is left alone for {duration(host.blocked_seconds)}{trouble}")
        if host.stopped_by:
            reasons.append(f"its host has had its {count(host.pages, 'page')} ({host.stopped_by}): it will be excluded")
        reasons.append(f"its host has {count(host.queued, 'request')} queued and {host.in_flight} in flight")
    if trace.ready_in_seconds:
        return [*reasons, f"not before {duration(trace.ready_in_seconds)} from now"]
    if host is not None and host.address_full:
        return [*reasons, f"it waits for its address: {host.address} has as many in flight as per_ip allows"]
    return [*reasons, "it may be fetched now, when its turn comes"]


def _leased(trace: Trace, _report: Report, _place: JobRef) -> list[str]:
    return [f"being fetched by worker {trace.worker}, attempt {trace.attempts + 1}"]


def _dead(trace: Trace, _report: Report, place: JobRef) -> list[str]:
    from skitter.cli.terminal_text import count, first_line, instant

    status = f", status {trace.status}" if trace.status else ""
    lost = f", lost {trace.losses} times with its worker" if trace.losses else ""
    return [
        f"failed {instant(trace.ended_at)}: {trace.error_class}{status}: {first_line(trace.error)}",
        f"{count(trace.attempts, 'attempt')}{lost}",
        f"the whole error: {place.command('failed', '--url', trace.url)}",
        f"to try again: {place.command('retry', trace.url)}",
    ]


def _excluded(trace: Trace, _report: Report, _place: JobRef) -> list[str]:
    from skitter.cli.terminal_text import first_line, instant

    when = instant(trace.ended_at)
    if trace.error_class == "robots":
        return [f"excluded {when} by {first_line(trace.error)}", HOW_TO_IGNORE]
    reason = RULES.get(trace.error_class, first_line(trace.error))
    return [f"excluded {when} by rule {trace.error_class}: {reason}"]


def _ended(trace: Trace, _report: Report, _place: JobRef) -> list[str]:
    from skitter.cli.terminal_text import count, instant

    if trace.state == "ended":
        return ["done, or redirected to a request of its own; this frontier keeps no more of what has ended"]
    status = f"status {trace.status}, " if trace.status else ""
    if trace.state == "redirected":
        return [f"{status}{instant(trace.ended_at)}; where it led to is a request of its own"]
    return [f"fetched {instant(trace.ended_at)}, {status}{count(max(1, trace.attempts), 'attempt')}"]


def unseen_reasons(url: str, known: Known) -> list[str]:
    """Which rule would keep it out; failing that, what is left to think of."""
    from skitter.cli.terminal_text import duration
    from skitter.model.url import host_key
    from skitter.policy.robots import Robots
    from skitter.policy.scope import Scope
    from skitter.settings import Settings
    from skitter.spiders.sitemaps import ROBOTS

    job = known.report.job
    settings = Settings.from_layers([("the job", job.spec.settings)])
    reasons = []
    if not job.spec.spider:
        permitted = [host_key(seed) for seed in (*job.spec.seeds, *job.spec.sitemaps) if seed != ROBOTS]
        scope = Scope(by_seeds=True)
        scope.permit(permitted)
        if scope.rule_against(url, 0):
            hosts = ", ".join(dict.fromkeys(permitted))
            reasons.append(
                f"outside the scope: {host_key(url)} is not among the seeds' hosts ({hosts})"
                " nor, as far as these tell, one that a seed was redirected to"
            )
    if settings.politeness.obey_robots and known.robots is not None:
        robots = Robots.parse(known.robots.text, settings.fetch.agent)
        if (rule := robots.deciding(url)) is not None and not rule.allow:
            reasons += [f"excluded by {rule}", HOW_TO_IGNORE]
    reasons += _of_traps(url, settings)
    if reasons:
        return reasons
    reasons.append("no link to it was found so far, or the spider did not follow it")
    if settings.limits.max_depth is not None:
        reasons.append(f"links further than {settings.limits.max_depth} from a seed are not followed (--max-depth)")
    if settings.politeness.obey_nofollow:
        reasons.append("links that say nofollow are not followed (obey_nofollow)")
    if job.state == "running":
        reasons.append("the job is not finished: it may still be found")
    elif job.reason:
        reasons.append(f"the job is {job.state} by {job.reason}, after {duration(job.ended_at - job.started_at)}")
    return reasons


def _of_traps(url: str, settings: Settings) -> list[str]:
    """How far from a seed it was found is not known; a rule may only be against it there."""
    import time

    from skitter.policy.traps import RULES, TrapRules

    if settings.traps.traps == "off":
        return []
    rules = TrapRules(settings.traps, time.gmtime().tm_year)
    if rule := rules.rule_against(url, 0):
        return [f"rule {rule}: {RULES[rule]}"]
    if rule := rules.rule_against(url, settings.traps.endless_depth):
        return [f"rule {rule}, if it was found far from a seed: {RULES[rule]}"]
    return []
