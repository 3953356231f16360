"""Schedules of a store over REST: list, history, add, change, pause, resume, run now, remove."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

import msgspec

from skitter.app.schedules import (
    CheckCommand,
    CommandTarget,
    Schedules,
    ScheduleSettings,
    ScheduleView,
    split_command,
)
from skitter.errors import UsageError
from skitter.model.schedule import HistoryRow
from skitter.web.api.job_reads import PageQuery
from skitter.web.api.route import Answer, Call, Rows, StoreQuery, check_scope
from skitter.web.credentials import Credential
from skitter.web.frontier_routes import RefusedError
from skitter.web.stores import Store


class ScheduleHistoryQuery(StoreQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20


Word = Annotated[str, msgspec.Meta(min_length=1, max_length=8_000)]


class ScheduleBody(ScheduleSettings, kw_only=True, forbid_unknown_fields=True):
    """When a command runs, and which: ``crawl`` or ``submit``, of URLs or of a spider below the server's folder.

    Give ``cron`` or ``every``. Durations are seconds, or text such as ``1h30m``.
    """

    command: Word | Annotated[list[Word], msgspec.Meta(min_length=1, max_length=100)]
    """Without the program's name; text is split as a shell splits it, and no shell runs it."""


class NewScheduleBody(ScheduleBody, kw_only=True, forbid_unknown_fields=True):
    """A schedule to add."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=60)]


class ScheduleRow(ScheduleView, frozen=True, kw_only=True):
    """A schedule in the list."""

    store: str


class SchedulesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules, and the scheduler that runs them."""

    rows: list[ScheduleRow]
    next: str | None
    leader: str
    """Of the first store that has one; empty: none runs."""


class RunNow(msgspec.Struct, frozen=True, kw_only=True):
    """A tick that was added for now."""

    name: str
    scheduled_at: float
    leader: str
    """The scheduler that will start it; empty: none runs."""


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that is gone."""

    name: str
    removed: bool


class ScheduleRoutes:
    """The handlers."""

    def __init__(self, check_command: CheckCommand | None) -> None:
        """``check_command``: says which commands may be scheduled; None: none may."""
        self._check_command = check_command

    async def list(self, call: Call) -> SchedulesAnswer:
        query: PageQuery = call.query
        found: list[ScheduleRow] = []
        leader = ""
        for store in call.chosen_stores():
            async with self._opened(call, store) as schedules:
                if schedules is None:
                    continue
                for view in await schedules.list():
                    key = f"{store.name}/{view.name}"
                    if key > query.after and may_see_schedule(call.credential, view):
                        fields = {name: getattr(view, name) for name in ScheduleView.__struct_fields__}
                        found.append(ScheduleRow(**fields, store=store.name))
                leader = leader or await schedules.leader()
        found.sort(key=_key)
        rows = found[: query.limit]
        return SchedulesAnswer(rows=rows, next=_key(rows[-1]) if len(found) > query.limit else None, leader=leader)

    async def get(self, call: Call) -> ScheduleView:
        async with self._schedules(call) as (schedules, name):
            return await schedules.get(name)

    async def add(self, call: Call) -> Answer:
        body: NewScheduleBody = call.body
        async with self._opened(call, call.store) as schedules:
            if schedules is None:
                raise RefusedError(409, "this store has no schedules", hint="serve sqlite:PATH or redis://HOST")
            if any(view.name == body.name for view in await schedules.list()):
                raise RefusedError(409, f"the schedule already exists: {body.name}", hint="PUT changes it")
            return Answer(value=await self._put(schedules, body.name, body, replace=False), status=201)

    async def change(self, call: Call) -> ScheduleView:
        async with self._schedules(call) as (schedules, name):
            return await self._put(schedules, name, call.body, replace=True)

    async def history(self, call: Call) -> Rows[HistoryRow]:
        async with self._schedules(call) as (schedules, name):
            return Rows(rows=[*await schedules.history(name, call.query.limit)])

    async def pause(self, call: Call) -> ScheduleView:
        async with self._schedules(call) as (schedules, name):
            return await schedules.pause(name)

    async def resume(self, call: Call) -> ScheduleView:
        async with self._schedules(call) as (schedules, name):
            return await schedules.resume(name)

    async def run(self, call: Call) -> RunNow:
        async with self._schedules(call) as (schedules, name):
            at = await schedules.run(name)
            return RunNow(name=name, scheduled_at=at, leader=await schedules.leader())

    async def remove(self, call: Call) -> Removed:
        async with self._schedules(call) as (schedules, name):
            await schedules.remove(name)
        return Removed(name=name, removed=True)

    @asynccontextmanager
    async def _schedules(self, call: Call) -> AsyncIterator[tuple[Schedules, str]]:
        """The schedules of the call's store, and the name of one that is there and that the caller may see."""
        name = call.names["name"]
        missing = RefusedError(404, f"no such schedule: {name[:100]}", hint="the list of schedules names them")
        async with self._opened(call, call.store) as schedules:
            views = {} if schedules is None else {view.name: view for view in await schedules.list()}
            if schedules is None or name not in views or not may_see_schedule(call.credential, views[name]):
                raise missing
            yield schedules, name

    @asynccontextmanager
    async def _opened(self, call: Call, store: Store) -> AsyncIterator[Schedules | None]:
        """The schedules of a store; None: it has no place for them."""

        def check(words: Sequence[str], frontier: str) -> CommandTarget:
            if self._check_command is None:
                raise RefusedError(403, "schedules cannot be added here", hint="use skitter schedule add")
            target = self._check_command(words, frontier)
            check_scope(call.credential, target.job)
            return target

        try:
            schedules = Schedules(store.schedules_url, check_command=check, actor=call.actor)
        except UsageError:
            yield None
            return
        async with schedules:
            yield schedules

    async def _put(self, schedules: Schedules, name: str, body: ScheduleBody, *, replace: bool) -> ScheduleView:
        settings = {field: getattr(body, field) for field in ScheduleSettings.__struct_fields__}
        return await schedules.add(name, split_command(body.command), replace=replace, **settings)


def may_see_schedule(credential: Credential, view: ScheduleView) -> bool:
    """Whether a schedule's job is one of the credential's; one without a job is for those that see every job."""
    return credential.may_see(view.job) if view.job else not credential.jobs


def _key(row: ScheduleRow) -> str:
    return f"{row.store}/{row.name}"
