"""``skitter status``: shows the state of a job, its workers and its hosts."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options, seconds

if TYPE_CHECKING:
    from skitter.app.views.status import StatusView, WorkerView
    from skitter.model.bloom_stats import BloomStats
    from skitter.model.job import HostSeen

PLACES = ("queued", "delayed", "leased", "done", "redirected", "failed", "excluded", "seen")
QUEUES = 5
WATCH_SECONDS = 2.0
MAX_WORKERS = 20
"""The number of workers listed, silent ones first; -v lists all."""


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [options]",
        text="Show the state of a job at one instant: counts, speed, workers, outputs, hosts and errors.",
        examples=[
            ("skitter status books --watch", "Watch a job of this folder"),
            (
                "skitter status books --frontier redis://127.0.0.1:6379 --json",
                "Print the state of a job in Redis as JSON",
            ),
        ],
    )
    add_job_options(parser)
    parser.group("Output").add_argument(
        "--watch",
        type=seconds,
        nargs="?",
        const=WATCH_SECONDS,
        metavar="SECONDS",
        help=f"refresh every SECONDS (default {WATCH_SECONDS:g}) until the job ends or Ctrl-C",
    )
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    import shutil
    import sys

    from skitter.app.views.status import status_view
    from skitter.cli.job_ref import ask, is_starting, locate
    from skitter.cli.output import note, print_json
    from skitter.model.job import State

    job_ref = locate(options)

    def shown(status: StatusView) -> list[str]:
        # A pipe gets everything; a terminal would break long lines, and a broken table cannot be read.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        return as_text(status, time.time(), verbose=bool(options.verbose), width=width)

    if options.watch is not None:
        from skitter.cli.status_watch import watch

        show_json = (lambda status: print_json(as_json(status))) if options.json else None
        return watch(job_ref, options.watch, shown, show_json)
    report = ask(job_ref, lambda frontier: frontier.report(queues=QUEUES))
    status = status_view(report, job_ref.frontier)
    if options.json:
        print_json(as_json(status))
    else:
        print("\n".join(shown(status)))
        is_new = is_starting(status.started_at, status.seen, time.time())
        if status.state is State.RUNNING and not status.workers and not is_new:
            note(f"to resume, run the same crawl again, or: {job_ref.command('worker')}")
    return 0


def as_json(status: StatusView) -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(status)
    return fields | {
        # Its former name, until 0.3.
        "dead": status.failed,
        "pages_per_second": round(status.pages_per_second, 2),
        "overdue_seconds": round(status.overdue_seconds, 3),
    }


def as_text(status: StatusView, now: float, *, verbose: bool = False, width: int | None = None) -> list[str]:
    """Format a status for a terminal of this width; None: no limit."""
    from skitter.cli.summary import seeding_line
    from skitter.cli.terminal_text import by_class, clean, clean_block, count, number, size, table
    from skitter.model.counters import EMPTY_SITEMAP

    tally = status.tally
    lines = [
        f"job       {status.job}, run {status.run}, {clean(status.spider) or 'built-in spider'}",
        f"state     {_state(status, now)}",
        f"frontier  {status.frontier}",
        f"workers   {_workforce(status)}",
        *_nodes(status),
    ]
    if status.seeding:
        lines.append("seeding   in progress")
    elif status.seeding_problem:
        lines.append(f"seeding   {seeding_line(status.seeding_problem)}")
        if verbose:
            lines += [f"          | {line}" for line in clean_block(status.reason).splitlines()]
    lines += _changed_settings(status)
    if status.blocking:
        lines.append(f"blocked   by output: {clean(', '.join(status.blocking))}")
    lines += _paused_hosts(status)
    lines += _intakes(status)
    lines += _needs(status)
    lines += _dedup(status.dedup)
    if not status.exact:
        lines.append("counts    not exact: the job changes too fast to be counted at one instant")
    lines += ["", *table(_places(status), right=[1]), ""]
    cached = f", {count(tally['cached'], 'response')} from the cache" if tally.get("cached") else ""
    lines.append(
        f"{count(status.items, 'item')}, {number(status.undelivered)} undelivered,"
        f" {size(tally.get('bytes', 0))} fetched{cached}, {number(tally.get('duplicates', 0))} duplicate links"
    )
    for sink in status.sinks:
        owner = f", by {clean(sink.owner)}" if sink.owner else ", no writer" if sink.undelivered else ""
        rejected = f", {number(sink.rejected)} rejected" if sink.rejected else ""
        trouble = f"; unavailable: {clean(sink.trouble)}" if sink.trouble else ""
        lines.append(f"  {clean(sink.target)}: {number(sink.undelivered)} undelivered{rejected}{owner}{trouble}")
    if unstored := tally.get("rejected"):
        lines.append(f"{count(unstored, 'item')} could not be stored: see the reasons in the rejects file")
    if status.dropped:
        dropped = (f"{clean(name)} {number(n)}" for name, n in by_class(status.dropped))
        lines.append("items dropped: " + ", ".join(dropped))
    lines += _hooks(status)
    kinds = {"outside:": "links not followed", "withheld:": "items withheld", EMPTY_SITEMAP: "empty sitemaps"}
    for kind, words in kinds.items():
        if rules := {name.removeprefix(kind): n for name, n in tally.items() if name.startswith(kind) and n}:
            lines.append(f"{words}: " + ", ".join(f"{clean(name)} {number(n)}" for name, n in by_class(rules)))
    lines += _callbacks(status)
    lines += _workers(status, now, None if verbose else MAX_WORKERS, width)
    lines += _hosts("slow hosts", status.hosts, width)
    if not {host.key for host in status.crowded} <= {host.key for host in status.hosts}:
        lines += _hosts("long queues", status.crowded, width)
    return lines if width is None else [line[:width] for line in lines]


def _hooks(status: StatusView) -> list[str]:
    from skitter.cli.terminal_text import by_class, clean, number

    lines = [
        words + ", ".join(f"{clean(name)} {number(n)}" for name, n in by_class(counted))
        for words, counted in (("hooks: ", status.decisions), ("counters: ", status.stats))
        if counted
    ]
    if status.awaits_close:
        lines.append("on_close has not been called yet; the same crawl command or skitter worker calls it")
    return lines


def _changed_settings(status: StatusView) -> list[str]:
    from skitter.cli.terminal_text import clean
    from skitter.settings import settings_text, shown_value

    told = [
        f"{settings_text({name: changed.value})} (was {shown_value(changed.before)})"
        for name, changed in status.changed_settings.items()
    ]
    return [f"changed   {clean(', '.join(told))}"] if told else []


def _places(status: StatusView) -> list[tuple[str, str, str]]:
    from skitter.cli.terminal_text import by_class, clean, number

    remarks = {"failed": ", ".join(f"{clean(name)} {number(n)}" for name, n in by_class(status.errors))}
    if status.unchanged:
        remarks["done"] = f"{number(status.unchanged)} of them unchanged"
    return [(name, number(getattr(status, name)), remarks.get(name, "")) for name in PLACES]


def _state(status: StatusView, now: float) -> str:
    from skitter.cli.job_ref import is_starting, shown_state
    from skitter.cli.terminal_text import clock, rate

    over = bool(status.ended_at)
    state = shown_state(
        str(status.state),
        status.reason,
        is_over=over,
        workers=status.workers,
        is_starting=is_starting(status.started_at, status.seen, now),
    )
    seconds = (status.ended_at or now) - status.started_at
    average = rate(status.done / seconds if seconds > 0 else 0.0)
    if status.ended_at:
        return f"{state}, {clock(seconds)}, {average} pages/s"
    if not status.workers:
        return f"{state}, begun {clock(seconds)} ago"
    return f"{state}, {clock(seconds)}, {rate(status.pages_per_second)} pages/s now, {average} on average"


def _dedup(filled: BloomStats | None) -> list[str]:
    from skitter.cli.terminal_text import number, size

    if filled is None:
        return []
    line = (
        f"dedup     Bloom filter with {number(filled.items)} of {number(filled.capacity)} pages in"
        f" {size(filled.bits // 8)}, {filled.fill:.1%} of its bits set:"
        f" mistakes {100 * filled.implied_error_rate:.2g} % of new pages for duplicates"
    )
    return [line]


def _workforce(status: StatusView) -> str:
    from skitter.cli.terminal_text import clean, duration

    parts = [str(status.workers)]
    skipping = [worker for worker in status.worker_list if worker.problem]
    if silent := len(status.worker_list) - status.workers - len(skipping):
        parts.append(f"{silent} not responding")
    if skipping:
        parts.append(f"skipped by {clean(', '.join(sorted({worker.host_name for worker in skipping})))}")
    if status.overdue_seconds:
        # Whoever leases reaps: with workers at work this is never more than a moment.
        parts.append(f"a lease is {duration(status.overdue_seconds)} overdue")
    return ", ".join(parts)


def _nodes(status: StatusView) -> list[str]:
    """A line for each coordinator: nodes may have different ones, though they should not."""
    from skitter.cli.terminal_text import clean, count
    from skitter.model.worker import WaitsFor

    coordinated = [worker for worker in status.worker_list if worker.alive and worker.coordinator]
    lines = []
    for address in sorted({worker.coordinator for worker in coordinated}):
        there = [worker for worker in coordinated if worker.coordinator == address]
        nodes = len({worker.member for worker in there if worker.member})
        cut_off = sum(worker.waits_for == WaitsFor.COORDINATOR for worker in there)
        lost = f"; {count(cut_off, 'worker')} cannot reach it" if cut_off else ""
        lines.append(f"nodes     {nodes}, coordinator {clean(address)}{lost}")
    return lines


def _intakes(status: StatusView) -> list[str]:
    from skitter.cli.terminal_text import clean, count, duration, number

    lines = []
    for intake in status.intakes:
        parts = [count(intake.read, "message"), f"{number(intake.added)} new"]
        if intake.dead_letters:
            parts.append(count(intake.dead_letters, "dead letter"))
        if not intake.closed:
            if intake.backlog is not None:
                parts.append(f"{number(intake.backlog)} waiting")
            if intake.lag_seconds:
                parts.append(f"the oldest for {duration(intake.lag_seconds)}")
            parts.append(f"read by {', '.join(map(clean, intake.owners))}" if intake.owners else "no reader")
        parts += [clean(remark) for remark in (intake.paused, intake.trouble) if remark]
        lines.append(f"intake    {clean(intake.source)}, {'closed' if intake.closed else 'open'}: {', '.join(parts)}")
    if status.waits_for_intakes:
        lines.append("waits     for messages: the job finishes when its intakes are closed (--until-idle, --no-intake)")
    return lines


def _paused_hosts(status: StatusView) -> list[str]:
    from skitter.cli.terminal_text import count

    if not status.paused_hosts:
        return []
    only = "; nothing else is left to do" if status.blocked_by == "paused hosts" else ""
    return [f"paused    {count(status.paused_hosts, 'host')}, by an operator (skitter hosts --state paused){only}"]


def _needs(status: StatusView) -> list[str]:
    from skitter.cli.terminal_text import clean, count

    lines = []
    for need in status.needs:
        requests = f"{clean(need.name)}: {count(need.queued, 'request')}"
        if need.workers:
            lines.append(f"need      {requests}, served by {count(need.workers, 'worker')}")
        else:
            lines.append(f"blocked   need {requests}, no worker serves it")
    return lines


def _callbacks(status: StatusView) -> list[str]:
    from skitter.cli.terminal_text import clean, number, table

    if not status.callbacks:
        return []
    rows = [("callbacks", "calls", "seconds", "mean", "longest")]
    rows += [
        (
            clean(callback.name),
            number(callback.calls),
            f"{callback.seconds:,.1f}",
            _short(callback.seconds / callback.calls),
            _short(callback.longest_seconds) if callback.longest_seconds else "-",
        )
        for callback in status.callbacks
        if callback.calls
    ]
    return ["", *table(rows, right=[1, 2, 3, 4])]


def _short(seconds: float) -> str:
    """``0.12 ms``: many callbacks take less than a millisecond."""
    from skitter.cli.terminal_text import duration

    return f"{seconds * 1000:.2f} ms" if seconds < 0.01 else duration(seconds)


def _workers(status: StatusView, now: float, limit: int | None, width: int | None) -> list[str]:
    from skitter.cli.terminal_text import clean, clock, duration, number, rate, shorten, size, table

    if not status.worker_list:
        return []
    ordered = sorted(status.worker_list, key=lambda worker: (worker.alive, worker.id))
    versions = {worker.version for worker in ordered if worker.version}
    heads = ("workers", "pid", "is", "waits for", "slots", "share", "pages/s", "latency", "memory", "heard", "up")
    rows = [(*heads, "skitter" if len(versions) > 1 else "")]
    rows += [
        (
            clean(worker.host_name or worker.id),
            str(worker.pid or "-"),
            _activity(worker),
            (clean(worker.waits_for) or "-") if worker.alive else "-",
            f"{number(worker.leased)}/{number(worker.slots)}" if worker.slots else number(worker.leased),
            f"{worker.share:.0%}" if worker.share else "-",
            rate(worker.pages_per_second) if worker.slots and worker.alive else "-",
            duration(worker.latency_seconds) if worker.latency_seconds else "-",
            size(worker.memory_bytes) if worker.memory_bytes and worker.alive else "-",
            "now" if worker.silent_seconds < 1 else f"{duration(worker.silent_seconds)} ago",
            clock(now - worker.started_at) if worker.started_at and worker.alive else "-",
            clean(worker.version) if len(versions) > 1 else "",
        )
        for worker in ordered[:limit]
    ]
    right = [1, 4, 5, 6, 7, 8, 9, 10]
    lines = table(rows, right=right)
    if width is not None and (excess := max(map(len, lines)) - width) > 0:
        room = max(len(heads[0]), 10, max(len(row[0]) for row in rows) - excess)
        lines = table([(shorten(row[0], room), *row[1:]) for row in rows], right=right)
    if limit is not None and len(ordered) > limit:
        lines.append(f"and {number(len(ordered) - limit)} more; -v lists all")
    return ["", *lines]


def _activity(worker: WorkerView) -> str:
    from skitter.cli.terminal_text import clean

    if worker.problem:
        return f"skipped: {clean(worker.problem)}"
    return (clean(worker.doing) or "-") if worker.alive else "not responding"


def _trouble(host: HostSeen) -> str:
    from skitter.cli.terminal_text import clean, count

    if host.paused:
        return "paused by an operator"
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
