"""The job that a command is about: how it is found, and how its frontier is opened."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from skitter.app.frontiers import default_frontier, local_frontiers
from skitter.errors import UsageError, did_you_mean
from skitter.model.job_name import check_job_name
from skitter.model.secrets import shown_frontier

if TYPE_CHECKING:
    from skitter.frontier.contract import Frontier
    from skitter.model.job import Report
    from skitter.model.worker import WorkerSeen

T = TypeVar("T")
STARTING_SECONDS = 5.0
"""So long after its begin a job may have no worker yet; it takes half a second on an idle machine."""


def program_words() -> list[str]:
    """Return the words that call this program again from the same shell."""
    import shutil

    typed = Path(sys.argv[0])
    if typed.name not in ("skitter", "__main__.py"):
        return ["skitter"]  # a program that calls the command line by itself
    script = (typed if typed.name == "skitter" else Path(sys.prefix) / "bin" / "skitter").absolute()
    if not script.exists():
        return [sys.executable, "-P", "-m", "skitter"]
    found = shutil.which("skitter")
    if found is not None and Path(found).absolute() == script:
        return ["skitter"]
    here = Path.cwd()
    return [str(script.relative_to(here) if script.is_relative_to(here) else script)]


class JobRef(NamedTuple):
    """A frontier and a job in it."""

    frontier: str
    job: str

    @property
    def shown(self) -> str:
        """The frontier's URL without its password."""
        return shown_frontier(self.frontier)

    def command(self, name: str, *words: str) -> str:
        """Return the shortest command about this job that works in this folder, to be pasted into a shell."""
        if self.frontier == default_frontier(self.job):
            place, is_found = [], _names() == [self.job]
        else:
            place, is_found = ["--frontier", self.shown], _name_of_file(self.frontier) == self.job
        # A word that ends so is the file of a spider.
        job = [] if is_found else ["--job", self.job] if self.job.endswith(".py") else [self.job]
        return shlex.join([*program_words(), name, *job, *words, *place])


def locate(options: argparse.Namespace, *, must_exist: bool = True) -> JobRef:
    """Return the job of --frontier and --job, or of .skitter where one is missing."""
    frontier, job = options.frontier, options.job
    if frontier is not None and frontier.startswith("memory:"):
        raise UsageError(
            f"exists inside one process only: {frontier}", hint="use sqlite:PATH to share a crawl with other processes"
        )
    if job is not None:
        check_job_name(job)
        instead = getattr(options, "instead_of_job", ())
        return JobRef(frontier, job) if frontier is not None else _by_name(job, must_exist, instead)
    if frontier is not None:
        if name := _name_of_file(frontier):
            return JobRef(frontier, name)
    elif len(names := _names()) == 1:
        return JobRef(default_frontier(names[0]), names[0])
    raise which_job(options)


def which_job(options: argparse.Namespace) -> UsageError:
    """Return the error for a command that does not say which job it means."""
    here = f"; {_listed()}; --frontier URL names another store" if options.frontier is None else ""
    return UsageError("which job?", hint=f"name it: {shlex.join(options.command_line[:2])} JOB{here}")


def _by_name(job: str, must_exist: bool, actions: Sequence[str]) -> JobRef:
    if must_exist and job not in _names():
        what = "neither a job here nor an action" if actions else "no such job here"
        hint = did_you_mean(job, [*_names(), *actions]) or f"{_listed()}; --frontier URL names another store"
        raise UsageError(f"{what}: {job}", hint=hint)
    return JobRef(default_frontier(job), job)


def _name_of_file(frontier: str) -> str:
    """Return the job that a file of SQLite is named after, as ``.skitter/NAME.db`` is; empty for another frontier."""
    return Path(frontier.partition(":")[2]).stem if frontier.startswith("sqlite:") else ""


def _names() -> list[str]:
    return sorted(Path(url.partition(":")[2]).stem for url in local_frontiers())


def _listed() -> str:
    names = _names()
    return f"here: {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}" if names else ".skitter has no jobs"


@asynccontextmanager
async def opened(job_ref: JobRef) -> AsyncIterator[Frontier]:
    """Open the frontier of an existing job."""
    from skitter.app import open_frontier

    frontier = open_frontier(job_ref.frontier, job_ref.job, create=False)
    try:
        yield frontier
    finally:
        await frontier.close()


def ask(job_ref: JobRef, question: Callable[[Frontier], Awaitable[T]]) -> T:
    """Open a job's frontier, run one query on it, and return the answer."""
    import asyncio

    async def put() -> T:
        async with opened(job_ref) as frontier:
            return await question(frontier)

    return asyncio.run(put())


def act(job_ref: JobRef, change: Callable[[Frontier], Awaitable[T]]) -> T:
    """Open a job's frontier, and make a change of it that is recorded in the audit trail."""
    from skitter.cli.actor import cli_actor
    from skitter.frontier.contract import acting_for

    return ask(job_ref, lambda frontier: change(acting_for(frontier, cli_actor())))


def is_starting(started_at: float, seen: int, now: float) -> bool:
    """Return whether a job without workers has just begun: its first worker joins before it has any request."""
    return not seen and now - started_at < STARTING_SECONDS


def shown_state(state: str, reason: str, *, is_over: bool, workers: int, is_starting: bool) -> str:
    """Return the state of a job for people: a stored ``running`` without live workers is an interrupted job."""
    shown = f"{state} by {reason}" if state == "stopped" and reason else state
    if is_over or workers or state in ("stopped", "finished"):
        return shown
    if state == "running" and is_starting:
        return "starting"
    return "interrupted, no live workers" if state == "running" else f"{shown}, no live workers"


def live_workers(report: Report) -> int:
    """Return the number of live workers."""
    from skitter.cluster.process_identity import live_workers

    return len(live_workers(report))


def is_alive(worker: WorkerSeen, report: Report) -> bool:
    from skitter.cluster.process_identity import is_alive

    return is_alive(worker, report.job)
