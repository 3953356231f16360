"""Built-in alerts: one process of a cluster compares the figures of a job with the rules, and tells of changes.

Every node and master that has rules waits to lead; the leader's states are kept beside the locks of the job, so that
the next leader goes on with them, and what was not told yet is told by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from skitter.alert_rules import AlertRule
from skitter.app.alert_delivery import alert_message, deliver
from skitter.app.alert_loading import WatchedStore
from skitter.app.frontiers import HTTP_SCHEMES, is_shared, open_frontier
from skitter.app.lock_store import lock_cluster
from skitter.app.views.metrics import figure_name, figure_names, job_samples, read_job
from skitter.errors import BackendError, ClusterError, JobError, SettingsError, SkitterError, VanishedError
from skitter.frontier.contract import Frontier, acting_for
from skitter.model.audit import Actor
from skitter.model.job import Command, State
from skitter.observe import events
from skitter.observe.metrics import Histogram
from skitter.policy.alerts import AlertChange, AlertState
from skitter.settings import Run

if TYPE_CHECKING:
    from skitter.cluster.cluster import Cluster

LOOK_SECONDS = 2.0
"""Between two looks at the figures of a job."""
AWAY_SECONDS = 5.0
END_SECONDS = 5.0
"""How long the end of a crawl waits for what is being told."""
JOBS_SECONDS = 10.0
MAX_JOBS = 100
"""Jobs of a store that a master watches at a time."""
OnEvent = Callable[[events.Event], None]
_UNTOUCHED = msgspec.json.encode(AlertState())


def check_rules(rules: Sequence[AlertRule]) -> None:
    """SettingsError for a figure that there is not, and for two alerts of one name."""
    known, names = figure_names(), [rule.name for rule in rules]
    for rule in rules:
        if rule.figure not in known:
            near = difflib.get_close_matches(rule.figure, known, n=1)
            hint = f"did you mean {near[0]} ?" if near else "as in failure_ratio or requests:queued"
            raise SettingsError(f"no such figure: {rule.figure} of the alert {rule.name}", hint=hint)
        if names.count(rule.name) > 1:
            raise SettingsError(f"two alerts of one name: {rule.name}", hint="each [[alert]] has a name of its own")


@asynccontextmanager
async def alerts_watched(frontier: Frontier, url: str, job: str, run: Run, on_event: OnEvent) -> AsyncIterator[None]:
    """Watch a job while the body works, if it has rules. Behind a master that is the master's task."""
    rules = [rule for rule in run.alerts if rule.is_for(job)]
    is_behind_master = url.partition("://")[0].lower() in HTTP_SCHEMES
    if not rules or is_behind_master:
        if is_behind_master:
            on_event(events.ALERTS_AWAY(reason="behind a master that is for skitter serve, with the same tables"))
        yield
        return
    watch = AlertWatch(frontier, url, job, rules, run, on_event)
    watching = asyncio.create_task(watch.run())
    try:
        yield
    finally:
        await watch.finish()
        watching.cancel()
        await asyncio.wait([watching])


@asynccontextmanager
async def store_alerts_watched(store: WatchedStore, run: Run) -> AsyncIterator[None]:
    """Watch all jobs of a store while the body works."""
    watching = asyncio.create_task(_watch_store(store, run))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _watch_store(store: WatchedStore, run: Run) -> None:
    async with contextlib.AsyncExitStack() as stack:
        watched: set[str] = set()
        while True:
            with contextlib.suppress(SkitterError):
                names = [name for name in await store.jobs() if any(rule.is_for(name) for rule in run.alerts)]
                for name in [name for name in names if name not in watched][: MAX_JOBS - len(watched)]:
                    url = store.url_of(name)
                    frontier = await asyncio.to_thread(open_frontier, url, name, create=False, patient=True)
                    stack.push_async_callback(frontier.close)
                    await stack.enter_async_context(alerts_watched(frontier, url, name, run, _emit_of(name)))
                    watched.add(name)
            await asyncio.sleep(JOBS_SECONDS)


def _judged(rule: AlertRule, state: AlertState, job: State, value: float | None) -> AlertChange | None:
    if rule.only_running and job is not State.RUNNING:
        # The end of a job ends its alerts; a pause, which may be an alert's own doing, does not.
        if job not in (State.FINISHED, State.STOPPED):
            state.rest()
            return None
        value = None
    return state.update(rule, value, time.time())


def _emit_of(job: str) -> OnEvent:
    return lambda event: events.emit(msgspec.structs.replace(event, job=job))


class AlertWatch:
    """The alerts of one job, in one process."""

    def __init__(
        self, frontier: Frontier, url: str, job: str, rules: Sequence[AlertRule], run: Run, on_event: OnEvent
    ) -> None:
        self._frontier = frontier
        self._url = url
        self._job = job
        self._rules = rules
        self._settings = run
        self._on_event = on_event
        self._states: dict[str, AlertState] = {}
        self._stored: dict[str, bytes] = {}
        self._telling: dict[str, asyncio.Task[None]] = {}
        self._cluster: Cluster | None = None
        self._leads = False
        self._looking = asyncio.Lock()

    async def run(self) -> None:
        """Wait to lead, and watch, until cancelled."""
        told = ""
        while True:
            try:
                await self._lead()
            except (ClusterError, SkitterError) as error:
                # Other nodes lead as long as they reach it; a crawl goes on without.
                if str(error) != told:
                    told = str(error)
                    self._on_event(events.ALERTS_AWAY(reason=told))
            finally:
                self._leads = False
            await asyncio.sleep(AWAY_SECONDS)

    async def _lead(self) -> None:
        if not is_shared(self._url):
            return await self._watch()
        async with (
            lock_cluster(self._settings, self._url) as cluster,
            cluster.lead(f"alerts of {self._job}", retry_seconds=LOOK_SECONDS),
        ):
            # A coordinator of locks alone remembers nothing: its next leader begins anew.
            self._cluster = cluster if cluster.coordinator.keys is not None else None
            try:
                await self._load()
                await self._watch()
            finally:
                self._cluster = None

    async def _watch(self) -> None:
        self._leads = True
        while True:
            # If the store is away, its workers say so.
            with contextlib.suppress(BackendError):
                await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def finish(self) -> None:
        """Look once more, at the end of the work, and give what is being told some time.

        While it still leads, so that what was told is noted; the next leader tells the rest.
        """
        if self._leads:
            with contextlib.suppress(BackendError, JobError):
                await self._look()
        if self._telling:
            await asyncio.wait(self._telling.values(), timeout=END_SECONDS)
        for task in self._telling.values():
            task.cancel()

    # ---- one look

    async def _look(self) -> None:
        async with self._looking:
            try:
                found = await read_job(self._frontier, self._url)
            except (JobError, VanishedError):
                return
            status = found.status
            figures = {
                figure_name(sample): sample.value
                for sample in job_samples(found)
                if not isinstance(sample.value, Histogram)
            }
            for rule in self._rules:
                state = self._states.setdefault(rule.name, AlertState())
                if (change := _judged(rule, state, status.state, figures.get(rule.figure))) is not None:
                    self._tell_change(rule, state, change)
                await self._pause(rule, state, status.state)
                await self._store(rule.name)
                if not state.is_told and rule.name not in self._telling:
                    self._telling[rule.name] = asyncio.create_task(self._tell(rule, status.run))

    async def _pause(self, rule: AlertRule, state: AlertState, job: State) -> None:
        """Pause the job if a rule says so; if the store does not take it, the next look tries again."""
        if not state.is_paused:
            with contextlib.suppress(SkitterError):
                if job is State.RUNNING:
                    await acting_for(self._frontier, Actor(f"alert:{rule.name}")).command(Command.PAUSE)
                state.is_paused = True

    def _tell_change(self, rule: AlertRule, state: AlertState, change: AlertChange) -> None:
        kind = events.ALERT_FIRING if change is AlertChange.FIRING else events.ALERT_RESOLVED
        self._on_event(kind(alert=rule.name, figure=rule.figure, value=round(state.value, 6), threshold=rule.threshold))

    async def _tell(self, rule: AlertRule, run: int) -> None:
        state = self._states[rule.name]
        at = state.changed_at
        try:
            await deliver(rule, alert_message(rule, state, self._job, run), self._on_event)
            # Told, or given up. What has changed meanwhile is told by the next look.
            state.is_told = state.changed_at == at
            with contextlib.suppress(SkitterError):
                await self._store(rule.name)
        finally:
            self._telling.pop(rule.name, None)

    # ---- states that outlive the leader

    def _key(self, name: str) -> str:
        return f"alerts/{self._job}/{name}"

    async def _load(self) -> None:
        if self._cluster is None:
            return
        for rule in self._rules:
            entry = await self._cluster.read(self._key(rule.name))
            if entry is not None:
                with contextlib.suppress(msgspec.MsgspecError):
                    self._states[rule.name] = msgspec.json.decode(entry.value, type=AlertState)
                    self._stored[rule.name] = entry.value

    async def _store(self, name: str) -> None:
        if self._cluster is None:
            return
        value = msgspec.json.encode(self._states[name])
        if self._stored.get(name, _UNTOUCHED) != value:
            await self._cluster.put(self._key(name), value)
            self._stored[name] = value
