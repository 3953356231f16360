"""Schedules of a store over REST: list, history, pause, resume, run now, remove."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated

import msgspec

from skitter.app.schedules import CommandTarget, Schedules, ScheduleView
from skitter.errors import ScheduleStoreError, UsageError
from skitter.model.audit import Actor
from skitter.model.schedule import HistoryRow
from skitter.web.api.job_reads import PageQuery
from skitter.web.api.route import Call, Rows, StoreQuery
from skitter.web.credentials import Credential
from skitter.web.frontier_routes import RefusedError


class ScheduleHistoryQuery(StoreQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20


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

    async def list(self, call: Call) -> SchedulesAnswer:
        query: PageQuery = call.query
        found: list[ScheduleRow] = []
        leader = ""
        for store in call.chosen_stores():
            async with _opened(store.schedules_url, call.actor) as schedules:
                if schedules is None:
                    continue
                for view in await schedules.list():
                    key = f"{store.name}/{view.name}"
                    if key > query.after and _may_see(call.credential, view):
                        fields = {name: getattr(view, name) for name in ScheduleView.__struct_fields__}
                        found.append(ScheduleRow(**fields, store=store.name))
                leader = leader or await schedules.leader()
        found.sort(key=_key)
        rows = found[: query.limit]
        return SchedulesAnswer(rows=rows, next=_key(rows[-1]) if len(found) > query.limit else None, leader=leader)

    async def get(self, call: Call) -> ScheduleView:
        async with self._schedules(call) as (schedules, name):
            return await schedules.get(name)

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
        async with _opened(call.store.schedules_url, call.actor) as schedules:
            views = {} if schedules is None else {view.name: view for view in await schedules.list()}
            if schedules is None or name not in views or not _may_see(call.credential, views[name]):
                raise missing
            yield schedules, name


@asynccontextmanager
async def _opened(url: str, actor: Actor) -> AsyncIterator[Schedules | None]:
    """The schedules of a store; None: it has no place for them."""
    try:
        schedules = Schedules(url, check_command=_refuse, actor=actor)
    except UsageError:
        yield None
        return
    async with schedules:
        yield schedules


def _refuse(words: Sequence[str], frontier: str) -> CommandTarget:  # noqa: ARG001  the type of a check
    raise ScheduleStoreError("schedules are not added here", hint="skitter schedule add")


def _may_see(credential: Credential, view: ScheduleView) -> bool:
    """Whether a schedule's job is one of the credential's; one without a job is for those that see every job."""
    return credential.may_see(view.job) if view.job else not credential.jobs


def _key(row: ScheduleRow) -> str:
    return f"{row.store}/{row.name}"
