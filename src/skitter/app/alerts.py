"""Built-in alerts: one process of a cluster compares the figures of a job with the rules, and tells of changes.

Every node and master that has rules waits to lead; the leader's states are kept beside the locks of the job, so that
the next leader goes on with them, and what was not told yet is told by it.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from skitter.concurrency import open_in_thread
from skitter.errors import (
    BackendError,
    ClusterError,
    FrontierError,
    JobError,
    SettingsError,
    SkitterError,
    VanishedError,
    did_you_mean,
)
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
_ENDED = (State.FINISHED, State.STOPPED)
_MASTERS_TASK = "the frontier is a master, where skitter serve checks the alerts"
_UNTOUCHED = msgspec.json.encode(AlertState())


def check_rules(rules: Sequence[AlertRule]) -> None:
    """SettingsError for a figure that there is not, and for two alerts of one name."""
    known, names = figure_names(), [rule.name for rule in rules]
    for rule in rules:
        if rule.figure not in known:
            hint = did_you_mean(rule.figure, known) or "as in failure_ratio or requests:queued"
            raise SettingsError(f"no such figure: {rule.figure} of the alert {rule.name}", hint=hint)
        if names.count(rule.name) > 1:
            raise SettingsError(f"two alerts have the same name: {rule.name}", hint="give each [[alert]] its own name")


@asynccontextmanager
async def alerts_watched(frontier: Frontier, url: str, job: str, run: Run, on_event: OnEvent) -> AsyncIterator[None]:
    """Watch a job while the body works, if it has rules. Behind a master that is the master's task."""
    rules = [rule for rule in run.alerts if rule.is_for(job)]
    if not rules or _is_behind_master(url):
        if _is_behind_master(url):
            on_event(events.ALERTS_AWAY(reason=_MASTERS_TASK))
        yield
        return
    async with AlertWatch(frontier, url, job, rules, run, on_event).running():
        yield


def _is_behind_master(url: str) -> bool:
    return url.partition("://")[0].lower() in HTTP_SCHEMES


@asynccontextmanager
async def store_alerts_watched(store: WatchedStore, run: Run) -> AsyncIterator[None]:
    """Watch all jobs of a store while the body works."""
    watch = _StoreWatch(store, run)
    watching = asyncio.create_task(watch.run())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await watch.close()


class _StoreWatch:
    """The jobs of a store that are watched. Where there are too many, those that have ended take turns."""

    def __init__(self, store: WatchedStore, run: Run) -> None:
        self._store = store
        self._run = run
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._watches: dict[str, AlertWatch] = {}
        self._left_at: dict[str, float] = {}
        """When jobs that are not watched last were."""
        self._ending: set[asyncio.Task[None]] = set()
        self._troubles: dict[str, str] = {}

    async def run(self) -> None:
        """Look for jobs until cancelled."""
        while True:
            with contextlib.suppress(SkitterError):
                names = await self._store.jobs()
                self._choose([name for name in names if any(rule.is_for(name) for rule in self._run.alerts)])
            await asyncio.sleep(JOBS_SECONDS)

    async def close(self) -> None:
        """End all at once: each may have something to tell."""
        for name in list(self._tasks):
            self._end(name)
        if self._ending:
            await asyncio.wait(self._ending)

    def _choose(self, names: list[str]) -> None:
        gone = {name for name, watch in self._watches.items() if watch.is_gone}
        for name in [name for name, task in self._tasks.items() if task.done() or name in gone or name not in names]:
            self._end(name)
        waiting = [name for name in names if name not in self._tasks]
        waiting.sort(key=lambda name: (self._left_at.get(name, 0.0), name))
        unneeded = [name for name, watch in self._watches.items() if not watch.is_needed]
        for name in unneeded[: max(0, len(self._tasks) + len(waiting) - MAX_JOBS)]:
            self._end(name)
        for name in waiting[: max(0, MAX_JOBS - len(self._tasks))]:
            self._tasks[name] = asyncio.create_task(self._watch(name))
        self._left_at = {name: at for name, at in self._left_at.items() if name in names}

    def _end(self, name: str) -> None:
        task = self._tasks.pop(name)
        self._watches.pop(name, None)
        self._left_at[name] = time.monotonic()
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _watch(self, name: str) -> None:
        """Watch one job until cancelled. One that cannot be opened is tried again, and hides no other."""
        url = self._store.url_of(name)
        try:
            if _is_behind_master(url):
                raise FrontierError(_MASTERS_TASK)
            frontier = await open_in_thread(open_frontier, url, name, create=False, patient=True)
        except SkitterError as error:
            if self._troubles.get(name) != str(error):
                self._troubles[name] = str(error)
                _emit_of(name)(events.ALERTS_AWAY(reason=str(error)))
            return
        try:
            rules = [rule for rule in self._run.alerts if rule.is_for(name)]
            watch = self._watches[name] = AlertWatch(frontier, url, name, rules, self._run, _emit_of(name))
            async with watch.running():
                await asyncio.Event().wait()
        finally:
            await frontier.close()


def _judged(rule: AlertRule, state: AlertState, job: State, value: float | None) -> AlertChange | None:
    if rule.only_running and job is not State.RUNNING:
        # The end of a job ends its alerts; a pause, which may be an alert's own doing, does not.
        if job not in _ENDED:
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
        self._has_ended = False
        self.is_gone = False
        """The job was dropped: a new one of its name needs another frontier."""

    @property
    def is_needed(self) -> bool:
        """Whether this process has something to watch: it leads, and the job goes on, or an alert does."""
        is_quiet = all(state.firing_since is None and state.is_told for state in self._states.values())
        return self._leads and not (self._has_ended and is_quiet)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch while the body works."""
        watching = asyncio.create_task(self.run())
        try:
            yield
        finally:
            await self.finish()
            watching.cancel()
            await asyncio.wait([watching])
            await self.cancel_deliveries()

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
            # If the store is unavailable, its workers say so.
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

    async def cancel_deliveries(self) -> None:
        """Cancel what is still being told, once nothing looks any more, and wait until its commands are killed."""
        if tasks := list(self._telling.values()):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    # ---- one look

    async def _look(self) -> None:
        async with self._looking:
            try:
                found = await read_job(self._frontier, self._url)
            except (JobError, VanishedError):
                self.is_gone = True
                return
            status = found.status
            self._has_ended = status.state in _ENDED
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
