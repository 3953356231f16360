"""Recording of an operator's mutations in two steps: that it is intended, and how it ended. For stores like Redis."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from typing import Any, cast

from skitter.audit.entry import Draft
from skitter.audit.mutations import MUTATIONS, Mutation
from skitter.audit.trail import Trail, recorded
from skitter.errors import BackendError, JobError, VanishedError
from skitter.frontier.contract import Frontier
from skitter.model.audit import Actor

NOT_THERE = "refused: it does not exist"


def recorded_frontier(frontier: Frontier, trail: Trail, job_name: str, actor: Actor) -> Frontier:
    """A view of a frontier that records what is no more than one call of it."""
    return cast("Frontier", RecordedFrontier(frontier, trail, job_name, actor))


class RecordedFrontier:
    """A Frontier; what it does not record, it passes on. Its mutations come from ``audit.mutations``."""

    def __init__(self, frontier: Frontier, trail: Trail, job_name: str, actor: Actor) -> None:
        self._frontier = frontier
        self._trail = trail
        self._name = job_name
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frontier, name)

    async def _record(self, name: str, mutation: Mutation, arguments: Mapping[str, Any]) -> Any:
        call = getattr(self._frontier, name)
        action = mutation.action(arguments)
        if not action:
            return await call(**arguments)
        before = mutation.seen(arguments, await self._values(mutation))
        details = mutation.details(arguments)
        draft = Draft(actor=self._actor, action=action, job=self._name, details=details, before=before)
        async with recorded(self._trail, draft) as entry:
            answer = await call(**arguments)
            try:
                entry.after = mutation.seen(arguments, await self._values(mutation)) | mutation.answer(answer)
            except BackendError:
                # It was made, which is more than nothing.
                entry.after = mutation.answer(answer)
            if not mutation.is_done(answer):
                entry.outcome = NOT_THERE
        return answer

    async def _values(self, mutation: Mutation) -> dict[str, Any]:
        try:
            return {name: await getattr(self._frontier, name)() for name in mutation.reads}
        except (JobError, VanishedError):
            return {}


@cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(Frontier, name))


def bound(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call of the contract, by their names."""
    found = _signature(name).bind(None, *arguments, **options)
    found.apply_defaults()
    return {key: value for key, value in found.arguments.items() if key != "self"}


def recording_method(name: str, mutation: Mutation) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A method of a class with ``_record``, which makes and records a mutation."""

    async def call(self: Any, /, *arguments: Any, **options: Any) -> Any:
        return await self._record(name, mutation, bound(name, arguments, options))

    call.__name__ = name
    return call


for _name, _mutation in MUTATIONS.items():
    setattr(RecordedFrontier, _name, recording_method(_name, _mutation))
