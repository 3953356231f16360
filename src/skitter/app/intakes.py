"""Intakes of a node: from what a command names to readers that run beside its workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePath

import msgspec

from skitter.cluster.process_identity import is_dead
from skitter.errors import UsageError
from skitter.frontier.contract import Frontier
from skitter.intakes.sources import STDIN, Source, intake_of, parse_source
from skitter.model.job_name import job_name_of
from skitter.node.intake_reader import IntakeReader, OnEvent, reading_intakes
from skitter.observe import events
from skitter.settings import Settings
from skitter.stop_request import StopRequest


class IntakeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The intakes that a command names."""

    sources: list[Source] = []
    until_idle_seconds: float | None = None
    """When nothing came for so long, an intake is closed; None: it stays open."""
    closes_unread: bool = False
    """Intakes that nobody reads are closed."""


def intake_config(
    texts: Sequence[str], *, job: str, until_idle_seconds: float | None = None, closes_unread: bool = False
) -> IntakeConfig:
    """The checked intakes of a command. UsageError for what is no source, before anything is made."""
    sources = [parse_source(text, job=job) for text in texts]
    names = [source.name for source in sources]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"the same source is named twice: --intake {twice[0]}", hint="name each source once")
    if until_idle_seconds is not None and not sources:
        raise UsageError("--until-idle without --intake", hint="--intake URL --until-idle SECONDS")
    for source in sources:
        intake_of(source)
    return IntakeConfig(sources=sources, until_idle_seconds=until_idle_seconds, closes_unread=closes_unread)


def job_name_of_intake(text: str) -> str:
    """The default name of a job that has nothing but an intake: its key, queue, topic or file."""
    if text == STDIN:
        return "stdin"
    source = parse_source(text)
    return job_name_of(source.fragment.partition(":")[0] or PurePath(source.path).stem or source.scheme)


@asynccontextmanager
async def intakes_read(
    frontier: Frontier,
    config: IntakeConfig,
    settings: Settings,
    stop: StopRequest,
    on_event: OnEvent,
    *,
    operator: Frontier,
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """While the body works for the job, its intakes are read, each by a task that ends when its intake is closed.

    The job does not finish before they are. ``operator``: the frontier for what whoever runs this asks for.
    """
    await _look_for_unread(operator, config, on_event)
    readers = [
        IntakeReader(
            frontier,
            intake_of(source),
            max_queued=settings.limits.max_queued,
            until_idle_seconds=config.until_idle_seconds,
            stop=stop,
            on_event=on_event,
        )
        for source in config.sources
    ]
    async with reading_intakes(readers, stop) as tasks:
        yield tasks


async def _look_for_unread(frontier: Frontier, config: IntakeConfig, on_event: OnEvent) -> None:
    """Close intakes that nobody reads, or warn of them."""
    named = {source.name for source in config.sources}
    for intake in await frontier.intakes():
        dead = [owner for owner in intake.owners if is_dead(owner)]
        if intake.closed or intake.source in named or len(dead) < len(intake.owners):
            continue
        for owner in dead:
            # Killed on this machine a moment ago: nobody need wait until its time has run out.
            await frontier.leave_intake(intake.source, owner)
        if config.closes_unread and await frontier.close_intake(intake.source, ""):
            told = {"read": intake.read, "added": intake.added, "dead_letters": intake.dead_letters}
            on_event(events.INTAKE_CLOSED(source=intake.source, **told))
        else:
            on_event(events.INTAKE_UNREAD(source=intake.source))
