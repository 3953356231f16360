"""``skitter status``: what a job is doing, from one instant."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_job_options, add_voice_options

if TYPE_CHECKING:
    from skitter.cli.jobs import Place
    from skitter.model.job import Report

PLACES = ("queued", "delayed", "leased", "done", "redirected", "dead", "excluded", "seen")


def configure(parser: Parser) -> None:
    add_job_options(parser)
    add_voice_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.jobs import ask, locate
    from skitter.cli.output import print_json

    place = locate(options)
    report = ask(place, lambda frontier: frontier.report())
    if options.json:
        print_json(as_json(report, place))
    else:
        print("\n".join(as_text(report, place, time.time(), verbose=bool(options.verbose))))
    return 0


def as_json(report: Report, place: Place) -> dict[str, Any]:
    import msgspec

    from skitter.cli.jobs import live_workers

    job = report.job
    return {
        "job": place.job,
        "state": job.state,
        "run": job.run,
        **{name: getattr(report.counts, name) for name in PLACES},
        "undelivered": report.undelivered,
        "exact": report.exact,
        "workers": live_workers(report),
        "worker_list": msgspec.to_builtins(report.workers),
        "reason": job.reason,
        "blocked_by": "sink" if _blocking(report) else "",
        "seeding": job.seeding,
        "spider": job.spec.spider,
        "seeds": job.spec.seeds,
        "frontier": place.shown,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "errors": {name: n for name, n in report.errors.items() if n},
        "tally": report.tally,
        "sinks": msgspec.to_builtins(report.sinks),
        "hosts": msgspec.to_builtins(report.hosts),
    }


def as_text(report: Report, place: Place, now: float, *, verbose: bool = False) -> list[str]:
    from skitter.cli.jobs import live_workers
    from skitter.cli.summary import seeding_problem
    from skitter.cli.text import by_class, clean, clean_block, clock, count, number, size, table

    job, tally = report.job, report.tally
    state = f"{job.state} by {job.reason}" if job.state == "stopped" and job.reason else str(job.state)
    lines = [
        f"job       {place.job}, run {job.run}, {clean(job.spec.spider) or 'built-in spider'}",
        f"state     {state}, {clock((job.ended_at or now) - job.started_at)}",
        f"frontier  {place.shown}",
        f"workers   {live_workers(report)}",
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
        f"{count(tally.get('items', 0), 'item')}, {number(report.undelivered)} undelivered,"
        f" {size(tally.get('bytes', 0))} fetched, {number(tally.get('duplicates', 0))} links already known"
    )
    lines += [f"  {clean(sink.target)}: {number(sink.undelivered)} undelivered" for sink in report.sinks]
    if outside := {name.partition(":")[2]: n for name, n in tally.items() if name.startswith("outside:") and n}:
        lines.append("links not followed: " + ", ".join(f"{clean(name)} {number(n)}" for name, n in by_class(outside)))
    return [*lines, *_hosts(report)]


def _blocking(report: Report) -> list[str]:
    return [sink.target for sink in report.sinks if sink.blocking]


def _hosts(report: Report) -> list[str]:
    from skitter.cli.text import clean, duration, number, table

    if not report.hosts:
        return []
    rows = [("slow hosts", "latency", "in flight", "queued", "waits", "trouble")]
    rows += [
        (
            clean(host.key),
            duration(host.latency_seconds),
            number(host.in_flight),
            number(host.queued),
            duration(host.due_seconds) if host.due_seconds else "-",
            f"{clean(host.error_class)} ({host.strikes} in a row)" if host.strikes else "-",
        )
        for host in report.hosts
    ]
    return ["", *table(rows, right=[1, 2, 3, 4])]
