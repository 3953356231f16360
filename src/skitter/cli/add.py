"""``skitter add``: adds any number of URLs to a job, from the command line, a file or a pipe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options, priority
from skitter.errors import UrlError, UsageError

if TYPE_CHECKING:
    from skitter.cli.job_ref import JobRef
    from skitter.frontier.contract import Frontier

BATCH = 1000
"""URLs per call of the frontier, and the most that are held in memory."""
MAX_COMPLAINTS = 20
"""Bad lines that are shown one by one; the rest are only counted."""


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] URL... [options]",
        "[JOB] --file FILE [options]",
        text="Add URLs to a job as seeds. A finished job is reopened.",
        examples=[
            (
                "skitter add books http://127.0.0.1:8600/books/1.html --priority high",
                "Fetch one page before everything else",
            ),
            (
                "cat urls.txt | skitter add books --file - --frontier redis://127.0.0.1:6379",
                "Add any number of URLs from a pipe to a job in Redis",
            ),
        ],
    )
    add_job_options(parser)
    parser.add_argument(
        "urls", nargs="*", metavar="URL", help="URLs to add as seeds; the job may follow links to their hosts"
    )
    parser.add_argument(
        "--file",
        metavar="FILE",
        help='read one URL per line; "-" is standard input; lines that begin with # are skipped',
    )
    parser.add_argument(
        "--priority",
        metavar="N",
        type=priority,
        default=0,
        help="low (-100), normal (0, default), high (100), critical (1000) or a whole number; highest first",
    )
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_ref import act, locate
    from skitter.cli.output import error, note, print_json
    from skitter.cli.terminal_text import count, number

    if not options.urls and options.file is None:
        raise UsageError("no URLs given", hint="skitter add [JOB] https://..., or --file FILE")
    job_ref = locate(options)
    with _lines(options.file) as lines:
        reading = _Reading([*_typed(options.urls)], lines)
        added = act(job_ref, lambda frontier: _add(frontier, reading, options.priority))
    duplicates = reading.good - added
    if options.json:
        # "known" is the former name of "duplicates", until 0.3.
        told = {"duplicates": duplicates, "known": duplicates}
        print_json({"job": job_ref.job, "added": added, **told, "bad": reading.bad})
    else:
        print(f"{job_ref.job}: {count(added, 'request')} added, {count(duplicates, 'duplicate')}")
    if reading.bad > MAX_COMPLAINTS:
        note(f"... and {number(reading.bad - MAX_COMPLAINTS)} more bad URLs")
    if not reading.good:
        error("no valid URL to add", "give absolute http or https URLs, one per line")
        return 2
    _note_who_fetches(job_ref, options, added)
    return 0


class _Reading:
    """An iterator over the URLs of all sources, which reports and counts bad ones."""

    def __init__(self, typed: Iterable[tuple[str, str]], lines: Iterable[str]) -> None:
        self._typed = typed
        self._lines = lines
        self.good = 0
        self.bad = 0

    def __iter__(self) -> Iterator[str]:
        from skitter.cli.output import note
        from skitter.cli.terminal_text import clean
        from skitter.model.url import absolute

        for where, text in self._all():
            try:
                url = absolute(text)
            except UrlError as flaw:
                self.bad += 1
                if self.bad <= MAX_COMPLAINTS:
                    note(f"bad URL: {where}: {clean(str(flaw))}")
                continue
            self.good += 1
            yield url

    def _all(self) -> Iterator[tuple[str, str]]:
        yield from self._typed
        for number, line in enumerate(self._lines, 1):
            text = line.strip()
            if text and not text.startswith("#"):
                yield f"line {number}", text


def _typed(urls: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((f"argument {number}", url) for number, url in enumerate(urls, 1))


@contextmanager
def _lines(file: str | None) -> Iterator[Iterable[str]]:
    if file is None:
        yield ()
    elif file == "-":
        _forgive(sys.stdin)
        yield sys.stdin
    else:
        try:
            stream = Path(file).open(encoding="utf-8-sig", errors="replace")  # noqa: SIM115  closed just below
        except OSError as error:
            raise UsageError(f"cannot be read: {file}: {error.strerror}", hint="--file takes a text file") from error
        with stream:
            yield stream


def _forgive(stream: TextIO) -> None:
    # One bad byte in a pipe must not end the reading of the rest.
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")


async def _add(frontier: Frontier, urls: Iterable[str], priority: int) -> int:
    from itertools import islice

    from skitter.model.request import Fingerprinter, Request

    fingerprinter = Fingerprinter.of_job(await frontier.job())
    stream = iter(urls)
    added = 0
    # Reading a pipe blocks the loop, on which there is nothing else.
    while batch := list(islice(stream, BATCH)):
        requests = [Request(url, seed=True, priority=priority) for url in batch]
        added += await frontier.add([fingerprinter.entry(request) for request in requests])
    return added


def _note_who_fetches(job_ref: JobRef, options: argparse.Namespace, added: int) -> None:
    from skitter.app.job_checks import spent_limit
    from skitter.cli.job_ref import ask, live_workers
    from skitter.cli.output import note
    from skitter.model.job import State

    if not added or options.json:
        return
    report = ask(job_ref, lambda frontier: frontier.report(0))
    job = report.job
    if limit := spent_limit(report):
        more = f"run the crawl again as it was started, with --max-pages {2 * limit}"
        note(f"max_pages={limit} is reached, so the added requests wait; to fetch them, {more}")
    elif job.state is State.PAUSED:
        note(f"the job is paused; the added requests wait until {job_ref.command('resume')}")
    elif job.state in (State.STOPPED, State.DRAINING):
        note(f"the job is {job.state}; the added requests wait until the same crawl is run again")
    elif not live_workers(report):
        note(f"no worker is running; run the same crawl again, or: {job_ref.command('worker')}")
