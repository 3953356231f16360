"""``skitter status``: what a job is doing, from one instant."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_job_options, add_voice_options

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef
    from skitter.model.job import HostSeen, Report
    from skitter.model.worker import WorkerSeen

PLACES = ("queued", "delayed", "leased", "done", "redirected", "dead", "excluded", "seen")
QUEUES = 5
MAX_WORKERS = 20
"""Listed one by one, those that are silent first; -v lists all."""


def configure(parser: Parser) -> None:
    add_job_options(parser)
    add_voice_options(parser)


def run(options: argparse.Namespace) -> int:
    import shutil
    import sys

    from skitter.cli.job_ref import ask, live_workers, locate
    from skitter.cli.output import note, print_json
    from skitter.model.job import State

    place = locate(options)
    report = ask(place, lambda frontier: frontier.report(queues=QUEUES))
    if options.json:
        print_json(as_json(report, place))
    else:
        # A pipe gets everything; a terminal would break long lines, and a broken table cannot be read.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(as_text(report, place, time.time(), verbose=bool(options.verbose), width=width)))
        if report.job.state is State.RUNNING and not live_workers(report):
            note(f"to go on, run the same crawl again, or: {place.command('worker')}")
    return 0


def as_json(report: Report, place: JobRef) -> dict[str, Any]:
    import msgspec

    from skitter.cli.job_ref import live_workers

    job = report.job
    return {
        "job": place.job,
        "state": job.state,
        "run": job.run,
        **{name: getattr(report.counts, name) for name in PLACES},
        "undelivered": report.undelivered,
        "rejected": report.rejected,
        "dropped": report.dropped,
        "exact": report.exact,
        "workers": live_workers(report),
        "worker_list": [_worker_as_json(worker, report) for worker in report.workers],
        "pages_per_second": round(report.pages_per_second, 2),
        "overdue_seconds": round(report.overdue_seconds, 3),
        "reason": job.reason,
        "blocked_by": "sink" if _blocking(report) else "",
        "seeding": job.seeding,
        "spider": job.spec.spider,
        "seeds": job.spec.seeds,
        "sitemaps": job.spec.sitemaps,
        "version": job.spec.version,
        "frontier": place.shown,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "errors": {name: n for name, n in report.errors.items() if n},
        "tally": report.tally,
        "sinks": msgspec.to_builtins(report.sinks),
        "hosts": msgspec.to_builtins(report.hosts),
        "crowded": msgspec.to_builtins(report.crowded),
    }


def _worker_as_json(worker: WorkerSeen, report: Report) -> dict[str, Any]:
    import msgspec

    from skitter.cli.job_ref import is_alive
    from skitter.model.worker import WorkerCard

    told = {"id": worker.id, "leased": worker.leased, "silent_seconds": worker.silent_seconds}
    return {**told, "alive": is_alive(worker, report), **msgspec.to_builtins(worker.card or WorkerCard())}


def as_text(report: Report, place: JobRef, now: float, *, verbose: bool = False, width: int | None = None) -> list[str]:
    """``width``: of the terminal; None: lines may be as long as they are."""
    from skitter.cli.summary import seeding_problem
    from skitter.cli.terminal_text import by_class, clean, clean_block, count, number, size, table

    job, tally = report.job, report.tally
    lines = [
        f"job       {place.job}, run {job.run}, {clean(job.spec.spider) or 'built-in spider'}",
        f"state     {_state(report, now)}",
        f"frontier  {place.shown}",
        f"workers   {_workforce(report)}",
    ]
    if job.seeding:
        lines.append("seeding   not over yet")
    elif problem := seeding_problem(job.reason):
        lines.append(f"seeding   {problem}")
        if verbose:
            lines += [f"          | {line}" for line in clean_block(job.reason).splitlines()]
    if blocking := _blocking(report):
        lines.append(f"blocked   by sink: {clean(', '.join(blocking))}")
    if not report.exact:
        lines.append("counts    not from one instant: the job is too busy")
    rows = [(name, number(getattr(report.counts, name)), "") for name in PLACES]
    errors = ", ".join(f"{clean(name)} {number(n)}" for name, n in by_class(report.errors))
    rows[PLACES.index("dead")] = ("dead", number(report.counts.dead), errors)
    lines += ["", *table(rows, right=[1]), ""]
    lines.append(
        f"{count(report.items, 'item')}, {number(report.undelivered)} undelivered,"
        f" {size(tally.get('bytes', 0))} fetched, {number(tally.get('duplicates', 0))} links already known"
    )
    for sink in report.sinks:
        owner = f", by {clean(sink.owner)}" if sink.owner else ", by nobody" if sink.undelivered else ""
        rejected = f", {number(sink.rejected)} rejected" if sink.rejected else ""
        trouble = f"; away: {clean(sink.trouble)}" if sink.trouble else ""
        lines.append(f"  {clean(sink.target)}: {number(sink.undelivered)} undelivered{rejected}{owner}{trouble}")
    if unstored := tally.get("rejected"):
        lines.append(f"{count(unstored, 'item')} could not be stored: the rejects file has the reasons")
    if report.dropped:
        dropped = (f"{clean(name)} {number(n)}" for name, n in by_class(report.dropped))
        lines.append("items dropped: " + ", ".join(dropped))
    for kind, words in (("outside:", "links not followed: "), ("withheld:", "items withheld: ")):
        if rules := {name.removeprefix(kind): n for name, n in tally.items() if name.startswith(kind) and n}:
            lines.append(words + ", ".join(f"{clean(name)} {number(n)}" for name, n in by_class(rules)))
    lines += _workers(report, now, None if verbose else MAX_WORKERS)
    lines += _hosts("slow hosts", report.hosts, width)
    if not {host.key for host in report.crowded} <= {host.key for host in report.hosts}:
        lines += _hosts("long queues", report.crowded, width)
    return lines if width is None else [line[:width] for line in lines]


def _state(report: Report, now: float) -> str:
    from skitter.cli.job_ref import live_workers, shown_state
    from skitter.cli.terminal_text import clock, rate

    job, state = report.job, shown_state(report)
    seconds = (job.ended_at or now) - job.started_at
    average = rate(report.counts.done / seconds if seconds > 0 else 0.0)
    if job.ended_at:
        return f"{state}, {clock(seconds)}, {average} pages/s"
    if not live_workers(report):
        return f"{state}, begun {clock(seconds)} ago"
    return f"{state}, {clock(seconds)}, {rate(report.pages_per_second)} pages/s now, {average} on average"


def _workforce(report: Report) -> str:
    from skitter.cli.job_ref import live_workers
    from skitter.cli.terminal_text import duration

    living = live_workers(report)
    parts = [str(living)]
    if silent := len(report.workers) - living:
        parts.append(f"{silent} silent or gone")
    if report.overdue_seconds:
        # Whoever leases reaps: with workers at work this is never more than a moment.
        parts.append(f"a lease is {duration(report.overdue_seconds)} overdue")
    return ", ".join(parts)


def _blocking(report: Report) -> list[str]:
    return [sink.target for sink in report.sinks if sink.blocking]


def _workers(report: Report, now: float, limit: int | None) -> list[str]:
    from skitter.cli.job_ref import is_alive
    from skitter.cli.terminal_text import clean, clock, duration, number, table
    from skitter.model.worker import WorkerCard

    if not report.workers:
        return []
    ordered = sorted(report.workers, key=lambda worker: (is_alive(worker, report), worker.id))
    versions = {worker.card.version for worker in ordered if worker.card}
    rows = [("workers", "pid", "is", "leased", "heard", "up", "skitter" if len(versions) > 1 else "")]
    for worker in ordered[:limit]:
        card = worker.card or WorkerCard(host_name=worker.id)
        alive = is_alive(worker, report)
        rows.append(
            (
                clean(card.host_name),
                str(card.pid or "-"),
                (clean(card.doing) or "-") if alive else "gone, or cut off",
                number(worker.leased),
                "now" if worker.silent_seconds < 1 else f"{duration(worker.silent_seconds)} ago",
                clock(now - card.started_at) if card.started_at and alive else "-",
                clean(card.version) if len(versions) > 1 else "",
            )
        )
    lines = table(rows, right=[1, 3, 4, 5])
    if limit is not None and len(ordered) > limit:
        lines.append(f"and {number(len(ordered) - limit)} more; -v lists all")
    return ["", *lines]


def _trouble(host: HostSeen) -> str:
    from skitter.cli.terminal_text import clean, count

    if host.stopped_by:
        return f"stopped after {count(host.pages, 'page')} ({host.stopped_by})"
    return f"{clean(host.error_class)} ({host.strikes} in a row)" if host.strikes else "-"


def _hosts(title: str, hosts: Sequence[HostSeen], width: int | None) -> list[str]:
    from skitter.cli.terminal_text import clean, duration, number, shorten, table

    if not hosts:
        return []
    rows = [(title, "latency", "in flight", "queued", "waits", "trouble")]
    rows += [
        (
            clean(host.key),
            duration(host.latency_seconds) if host.latency_seconds else "-",
            number(host.in_flight),
            number(host.queued),
            duration(host.due_seconds) if host.due_seconds else "address" if host.address_full else "-",
            _trouble(host),
        )
        for host in hosts
    ]
    lines = table(rows, right=[1, 2, 3, 4])
    if width is not None and (excess := max(map(len, lines)) - width) > 0:
        # The name gives way: its beginning and its end still tell which host it is.
        room = max(len(title), 12, max(len(row[0]) for row in rows) - excess)
        lines = table([(shorten(row[0], room), *row[1:]) for row in rows], right=[1, 2, 3, 4])
    return ["", *lines]
