"""The summary of a crawl, and the commands to run next."""

from __future__ import annotations

import argparse
import shlex
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skitter.cli import exit_codes
from skitter.cli.job_ref import JobRef, program_words
from skitter.cli.output import print_json
from skitter.cli.terminal_text import by_class, clean, count, duration, first_line, number, rate, size
from skitter.model.secrets import without_secrets

if TYPE_CHECKING:
    from skitter.app import Summary
    from skitter.cli.run_messages import RunOutput

_TO_KEEP = "to keep the items"


def print_summary(
    summary: Summary | None, signal_number: int, job_ref: JobRef, options: argparse.Namespace, output: RunOutput
) -> int:
    """Print the summary, the next commands and the error, if any, and return the exit code.

    ``signal_number`` is the signal that ended the command, or 0; ``summary`` is None if the crawl had not begun.
    """
    if summary is None:
        return exit_codes.of_signal(signal_number)
    summary.signal = signal_number
    fields = as_json(summary, job_ref)
    if options.json:
        print_json(fields)
    steps = next_steps(summary, job_ref, options.command_line)
    output.summary(as_text(summary, says_kept=not any(step.startswith(_TO_KEEP) for step in steps)), fields)
    for step in steps:
        output.note(step)
    code = exit_codes.of_summary(summary)
    if summary.seeding_problem:
        trace = job_ref.command("status", "-v")
        hint = f"correct the spider and run the same command again; the traceback: {trace}"
        output.error(seeding_line(summary.seeding_problem), hint, code)
    elif code == exit_codes.BACKEND:
        lost = count(summary.lost_links, "link")
        what = f"a server that failed over has lost {lost} between shards, and their pages are missing: {job_ref.job}"
        output.error(what, "crawl again with --fresh, and with wait_replicas=1 in the URL of the frontier", code)
    elif code == exit_codes.FAILED:
        why = summary.no_seed_because or job_ref.job
        output.error(f"no page was done: {why}", reason_hint(summary, job_ref), code)
    return code


def seeding_line(problem: str) -> str:
    """Return the reason why start() did not give all seeds, in one line."""
    head, _, error = problem.partition("\n")
    return f"{clean(head)} {first_line(error)}".rstrip()


def as_json(summary: Summary, job_ref: JobRef) -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(summary)
    return fields | {"frontier": job_ref.shown}


def as_text(summary: Summary, *, says_kept: bool = True) -> list[str]:
    """Format the summary as text. ``says_kept``: whether it says that there was no output, or a next step does."""
    pages, seconds = count(summary.pages, "page"), duration(summary.seconds)
    speed = f"{rate(summary.pages_per_second)} pages/s"
    if summary.begun in ("resumed", "joined"):
        # The counts are those of the run; time and speed are this command's own.
        first = f"{pages}, {size(summary.bytes)} in all; this time {seconds} ({speed})"
    else:
        first = f"{pages} in {seconds} ({speed}), {size(summary.bytes)}"
    lines = [f"{_ending(summary)}: {first}"]
    unchanged = [f"{number(summary.unchanged)} unchanged"] if summary.unchanged else []
    cached = [f"{number(summary.cached)} from the cache"] if summary.cached else []
    parts = [
        *cached,
        *unchanged,
        count(summary.items, "item") + (_kept(summary) if says_kept else ""),
        f"{number(summary.failed)} failed",
        f"{number(summary.redirected)} redirected",
        f"{number(summary.excluded)} excluded",
        f"{number(summary.duplicates)} duplicate links",
    ]
    lines.append("  " + ", ".join(parts))
    if summary.delivered_earlier:
        lines.append(f"  {count(summary.delivered_earlier, 'link')} to pages that earlier runs have delivered")
    if errors := by_class(summary.errors):
        lines.append("  failed by class: " + ", ".join(f"{name} {number(n)}" for name, n in errors))
    if empty := summary.empty_sitemaps:
        named = ", ".join(map(clean, sorted(empty)[:3])) + (", …" if len(empty) > 3 else "")
        lines.append(f"  {count(sum(empty.values()), 'empty sitemap')}: {named}")
    if summary.rejected:
        lines.append(f"  {count(summary.rejected, 'item')} rejected: see the reasons in the rejects file")
    if dropped := by_class(summary.dropped):
        lines.append("  dropped: " + ", ".join(f"{name} {number(n)}" for name, n in dropped))
    for words, counted in (("hooks", summary.decisions), ("counters", summary.stats)):
        if counted:
            lines.append(f"  {words}: " + ", ".join(f"{clean(name)} {number(n)}" for name, n in by_class(counted)))
    if summary.undelivered:
        lines.append(f"  {count(summary.undelivered, 'item')} undelivered")
    return lines


def _kept(summary: Summary) -> str:
    if not summary.items or summary.outputs == ["-"]:
        return ""
    if not summary.outputs:
        return " (not kept: no output)"
    first, *others = (clean(without_secrets(target)) for target in summary.outputs)
    return f" in {first}" + (f" and {len(others)} more" if others else "")


def _ending(summary: Summary) -> str:
    if summary.signal:
        return "interrupted" if summary.signal == signal.SIGINT else "terminated"
    if summary.state == "stopped" and summary.reason:
        return f"stopped by {summary.reason}"
    return summary.state


def next_steps(summary: Summary, job_ref: JobRef, again: Sequence[str]) -> list[str]:
    """Return hints with the next commands. ``again`` is the command that ran; a memory frontier is gone by now."""
    if job_ref.frontier.startswith("memory:"):
        kept = summary.state == "finished" and not summary.failed
        return [] if kept else ["nothing was kept; use --frontier sqlite:PATH to resume and inspect a crawl"]
    steps = []
    if summary.signal or summary.state != "finished":
        steps.append(f"to resume: {_continuation(summary, job_ref, again)}")
    if summary.failed and not exit_codes.no_seed_done(summary):
        steps.append(f"to see what failed and why: {job_ref.command('failed')}")
    if summary.blocked_by == "sink" or (summary.undelivered and not steps):
        steps.append(f"to write the undelivered items: {job_ref.command('deliver', '-o', 'FILE')}")
    if summary.items and not summary.outputs and again[1] == "crawl":
        # An unfinished run goes on: what its pages have brought so far is not fetched again for an output.
        anew = [] if summary.state == "finished" else ["--fresh"]
        steps.append(f"{_TO_KEEP}, crawl again: {_repeated([*again, '-o', 'items.jsonl'])}{' '.join(['', *anew])}")
    return steps


def _continuation(summary: Summary, job_ref: JobRef, again: Sequence[str]) -> str:
    stopped = summary.state in ("stopped", "draining")
    if stopped and summary.reason == "max_pages":
        if again[1] != "crawl":
            return "skitter crawl as it was started, with a higher --max-pages"
        return _repeated([*_without_limit(again), "--max-pages", str(2 * summary.pages)])
    if stopped and summary.reason in ("close_after_items", "close_after_errors") and again[1] == "crawl":
        return _repeated([*again, "--set", f"{summary.reason}=none"])
    if stopped and again[1] != "crawl":
        return job_ref.command("resume")  # a worker would find the job stopped, and leave
    return _repeated(again)


def reason_hint(summary: Summary, job_ref: JobRef) -> str:
    """Return the hint for a crawl without a page of a seed."""
    if job_ref.frontier.startswith("memory:"):
        return "crawl without --frontier memory: to inspect the job"
    if summary.failed:
        return f"{job_ref.command('failed')} lists the reasons"
    if not summary.excluded and not summary.redirected:
        return "the spider's start() yielded no request for a page"
    return f"{job_ref.command('why', 'URL')} shows the reason"


def _without_limit(command: Sequence[str]) -> list[str]:
    words: list[str] = []
    for word in command:
        if (words and words[-1] == "--max-pages") or word.startswith("--max-pages="):
            words = words[:-1] if words[-1] == "--max-pages" else words
        else:
            words.append(word)
    return words


def _repeated(command: Sequence[str]) -> str:
    # --fresh would discard the run that is to be continued.
    words = [without_secrets(word) for word in command[1:] if word != "--fresh"]
    return shlex.join([*program_words(), *words])
