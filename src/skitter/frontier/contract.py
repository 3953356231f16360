"""Frontier contract: the Protocols of a frontier and the promises that every backend must keep at all times.

 1  Nothing is lost: a request whose ``add`` returned reaches exactly one of done, redirected,
    failed, excluded, whichever workers die, stall or lose their network.
 2  One effect: a commit is accepted once, and only with the current ``epoch``. The epoch is the lease's fencing token:
    it grows with each lease of the job, so a commit with an older one is stale and is refused. The ending, out-links,
    items and host news of a commit take effect together or not at all.
 3  Exact dedup: a request id is queued once per run under any concurrency; check and enqueue are one step.
 4  Polite as a cluster: two grants of one host key to different workers are at least the host's delay apart (plus the
    start window that the first worker may use up), and never more than ``per_host`` requests are leased. The worker
    itself keeps a short delay between its own starts (``Lease.pace_seconds``); its requests may then be granted ahead.
    Crawl-delay, Retry-After and back-off are state of the host.
 5  Order: ready hosts are served by highest waiting priority; then hosts in a burst that have nothing in flight; then
    the least recently served. A burst is at most ``burst_pages`` grants of a host, and ends ``burst_seconds`` after
    the first. So while a ready host waits, each other host of its priority is granted two bursts at most. Within a
    host, requests are served by priority, then first in, first out. A request that comes back keeps its place, except
    that ``retry_priority`` is added to the priority of a delayed one. (In a job with shards, this is the order within
    a shard; shards take turns.)
 6  Exact end: ``finished`` if and only if nothing is queued, delayed or leased, the seeding is over and no intake is
    open.
 7  Bounded: the work of every call is bounded by its arguments, and a full outbox stops leasing. Housekeeping within a
    call (expired leases, delayed requests, the queue of a host that is given up) covers at most ``BATCH`` requests;
    later calls continue it.
 8  Resume: everything above holds after any process was killed at any instant (except for ``memory:``, which dies with
    its process).

Rules that all backends share:

- Times come from the store's clock, which never goes back. Durations are seconds.
- A lost lease (expired, or its worker died) is counted as a loss, not as an attempt. After
  ``LOSSES_BEFORE_ALONE`` losses a request is leased alone: its worker holds nothing else. Only after
  ``LOSSES_WHILE_ALONE`` further losses in that condition does it fail, with class ``lost``.
- ``Ending.RETRY`` spends an attempt, and the request fails with the last one; a block spends none. The outcome gives
  the number of attempts (``max_attempts``); otherwise the setting does.
- When a host is given up, its queued requests fail in batches: the call that gives it up fails the first batch, and
  each ``lease`` and ``reap`` after it one more. Until the last batch, nothing of the host is leased, and requests that
  are added or come back meanwhile fail too. A normal answer of the host, or a revived request of it, ends this: the
  rest stays queued.
- A host whose budget is spent (``max_pages_per_host``, ``trap_pages``: policy.host_budgets) is emptied in the same way,
  but its queued requests are excluded, with class ``host_budget``. Neither an answer nor a revived request ends this,
  only a larger budget. Requests that are added or come back later are excluded by the next ``lease`` or ``reap``. Pages
  in flight and pages done together never exceed the budget; a lowered budget applies to later leases.
- An operator may pause a host: nothing more of it is leased, neither a page nor its robots.txt, until it is resumed.
  Requests in flight end normally; requests that are added or come back wait. So a job with requests at paused hosts is
  not finished; if nothing else is left, ``Grant.blocked_by`` says so. A host that an operator gives up is emptied like
  one that is down, with class ``given_up``, for the rest of the run: requests that are added or come back later fail
  with the next ``lease`` or ``reap``, and an answer does not end this. A revived request of the host ends it, and so do
  ``resume`` and ``pause``: requests that have not failed yet stay queued. Both orders survive restarts, and end with
  the run. A host that the job never had a request for is unknown, and has no orders.
- Each method may safely be called again after an error. A client may also resend a call by itself when the answer was
  lost: the call still acts once, and ``begin``, ``lease`` and ``commit`` repeat their first answer (without leases that
  have ended since). ``add``, ``revive``, ``reap`` and ``release_worker`` then return the number that was left for the
  second call, which may be too low; the other methods are idempotent.
- A worker may also resend a ``lease`` or ``commit``, through this frontier object or another one, with the token of the
  first call and ``Call.again``. It acts once, as above. Only the first answer reports what was new, struck or
  recovered; both report permits. For each worker a store remembers the last call that granted or ended something, until
  the worker is forgotten or a new run begins. So a worker has only one call with a token under way at a time. A token
  older than the remembered one is a new call: its outcomes are refused, and more is granted. (In a job with shards,
  each shard remembers the last call that it had a part in.)
- No frontier object keeps state of a worker: the token and the position in the permits come with each call
  (``model.lease.Call``), so one object may pass on calls of many workers, and one worker may use several objects.
- A worker that sends its slots (``Call.slots``) and was granted fewer requests than it asked for counts as short until
  it asks again, or until it is 2 s late in asking. While pages are slow and another worker is short and about to ask, a
  worker that sends its slots is granted no more than its share of the ready requests (policy.shares), and is told to
  ask again soon if some were left. (Not in a job with shards.)
- A request may have a need, which a worker must be able to serve at the moment (``Call.needs``). No other worker is
  granted it. All other rules apply to the requests that the asking worker can serve, so a need that no worker serves
  holds up neither its host nor others. A request keeps its need wherever it goes, and dedup ignores it.
- Recovered leases, strikes and new links are reported in the answer to the call that caused them: once in the cluster.
- A job with the setting ``recrawl`` keeps, across its runs, every request that was ever added to it (``KnownPage``),
  and the record of each one that was fetched (``PageRecord``), until the job is dropped. A lease carries the record,
  and the commit that ends it may replace it (promise 2). A page is due from its ``next_at`` on; a page that was never
  fetched is due at once. With ``recrawl=due``, ``add`` leaves out pages that are not due, except those that come with a
  permit: URLs that the user typed are fetched. With ``stay`` those are left out as well, but their permit counts.

- A job has a proxy pool from the first ``register_proxy`` of its run on, or from its beginning with the setting
  ``proxy_pool``. From then on every lease except that of the seeding names the proxy that it must use, and counts
  against this proxy until it ends: at most ``per_proxy`` leases for all workers together. While no proxy is free for
  any host, nothing is leased (``Grant.blocked_by``). A proxy that is banned at a host gets no requests of that host,
  and a host without another proxy waits. The proxy news of an outcome takes effect with the outcome (promise 2). A
  failure of the proxy (``ProxyNews.fault``) spends no attempt and is no strike against the host; after
  ``PROXY_FAILURES_LIMIT`` of them the request fails with class ``proxy``. A new run begins without proxies.
- The settings of a run may change, by ``change_settings`` or by the ``begin`` that resumes it, and apply from the next
  call on. If a delay becomes shorter, a host that waits for it waits no longer than the new delay from then on (the
  next calls of ``lease`` adjust ``BATCH`` hosts each); a longer delay applies from the next grant on. A resumed run
  keeps the changes of ``change_settings``, unless the specification of the ``begin`` has another value than the one
  before; a new run begins with its own settings.
- A cookie takes effect with the commit of the page that set it, in the order of the commits: a refused outcome sets
  none. A lease carries the newest version of the jars of its host's registrable domain (``Lease.jar``), so a worker
  knows whether to read one (``jars``) before it fetches. Jars are bounded (policy.cookies) and belong to the run: a
  resumed run keeps them, a new run begins with none.
- With the settings ``session_pool`` or ``exclusive_sessions``, or a spider that has ``login`` (``JobSpec.login``),
  sessions are assigned with leases: a request has the need ``session:NAME``, or ``session:pool`` for any of the pool,
  and is granted while a session serves that need (``Lease.session``). A need of several words is served when each word
  is. Uses are counted with the grant and never exceed ``max_session_uses``; an exclusive session has one lease at a
  time. A session that is used up, too old or reported as expired is replaced once: its cookies are forgotten and, if
  the spider logs in, a worker is asked to do so (``Grant.logins``); no page is granted with the session until the login
  is over. (Not in a job with shards.)
- A run whose specification has ``on_close`` is over when that hook was called: ``claim_close`` assigns the call to one
  owner at a time, like the ownership of a sink. Until then ``begin`` resumes the finished run, as it does while a sink
  has undelivered items. A finished job that gets new work is claimed again at its next end.
- The counts of ``Outcome.tally`` are added with their outcome, once, and not if it is refused. Counters of spiders and
  hooks (``model.counters``) beyond ``MAX_COUNTERS`` share one name.
- An intake is open from ``open_intake`` until ``close_intake``, even if all its readers die: a dead reader does not
  close it. Several processes may read one intake. A new run begins without intakes.

A frontier object belongs to one job and one process. Methods raise FrontierError when the store
fails, and JobError for a job that does not exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from skitter.model.audit import Actor
from skitter.model.consistency import Consistency
from skitter.model.host import Halt, HostCommand, HostFilter
from skitter.model.intake import IntakeProgress, IntakeSeen
from skitter.model.item import Item
from skitter.model.job import (
    Begun,
    CloseClaim,
    Command,
    Counts,
    FailedRequest,
    HostPage,
    Job,
    JobSpec,
    JobState,
    Report,
    SinkProgress,
    SinkSeen,
    StopReason,
    Trace,
)
from skitter.model.lease import ONCE, Call, Grant, Lease
from skitter.model.outcome import Committed, Outcome, RobotsRecord
from skitter.model.page_record import KnownPage, PageRecord
from skitter.model.proxy import ProxySeen
from skitter.model.request import Entry
from skitter.model.session import CookieNews, Jar, JarRef, SessionLogin, SessionSeen
from skitter.model.store_capacity import StoreCapacity
from skitter.model.worker import WorkerHeartbeat, WorkerSeen

BATCH = 1000
"""Maximum number of requests or hosts that one call moves as housekeeping (promise 7)."""
MAX_PRIORITY = 2**53
"""Limit up to which Lua's numbers are exact. Higher priorities count as this one, or become it when they change."""
BURY_BATCH = BATCH
"""Maximum number of requests of given-up hosts that one call ends."""
POLL_SECONDS = 1.0
"""Poll interval of a worker when nothing is scheduled: the commit of another worker may have added work."""
PAUSED_HOSTS = "paused hosts"
"""``Grant.blocked_by`` of a job whose only remaining requests are at paused hosts."""
SUSPECTS_TRIED = 32
"""Number of requests to be leased alone that one call examines to find one that may start now."""
SINK_OWNER_SECONDS = 30.0
"""Another process may take over a sink whose owner has given no sign of life for this long."""
INTAKE_OWNER_SECONDS = 30.0
"""A reader of an intake counts as dead after this time without a sign of life."""
NOTABLE_HOSTS = 16
"""Number of slow or failing hosts that a job keeps for reports."""
NEEDS_TOLD = 16
"""Number of needs that a report lists: those that most queued requests have."""
RATE_SAMPLE_SECONDS = 5.0
"""Interval between two samples of the number of done requests, for the current rate."""
MAX_PROXIES = 1_000
"""Maximum size of a job's proxy pool: each grant examines all of them."""
HOST_PROXY_SECONDS = 10.0
"""Time after which a host without a free proxy is examined again, if no ban ends before."""
FORGET_SECONDS = 3600.0
"""How long a worker that vanished without notice stays listed, so that operators can see it."""


class WorkSource(Protocol):
    """The methods that a worker needs. Work may also reach it over a bus or from another scheduler."""

    async def lease(self, worker: str, limit: int, call: Call = ONCE) -> Grant:
        """Lease at most ``limit`` requests that may start now (promises 4 and 5).

        Before that, recovers expired leases and fails a batch of requests of given-up hosts.
        """
        ...

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        """Extend the deadlines; False for each lease that was already lost, or belongs to another worker.

        Also counts as a sign of life of the worker.
        """
        ...

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0, call: Call = ONCE) -> Committed:
        """Apply the outcomes (promise 2); with ``want``, also lease that many new requests, as ``lease`` does.

        An outcome whose lease has an outdated ``epoch`` (fencing token) is refused. Items are published and counted
        with the last part of their page, each kind in its own counter of the tally (``model.item.COUNTERS``).
        """
        ...

    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        """Return unfinished work at once, without counting an attempt or a loss. The host's slot is free again.

        ``late``: the start window had passed; the host's window grows, so that a slow machine makes progress.
        ``touched``: the request may have reached the network before it was aborted; the host's delay continues.
        """
        ...

    async def tell(self, worker: str, heartbeat: WorkerHeartbeat | None) -> None:
        """Store the heartbeat of a worker, which is a sign of life. None: the worker leaves and is no longer listed.

        Leases do not change. A worker that has been silent for ``FORGET_SECONDS`` and holds no lease is forgotten.
        """
        ...

    async def robots(self, host_keys: Sequence[str]) -> dict[str, RobotsRecord]:
        """Return the robots.txt records of these hosts; a host without one is left out."""
        ...

    async def proxies(self) -> list[ProxySeen]:
        """Return the proxies of the job's pool, ordered by id, with their passwords. Cheap enough to poll."""
        ...

    async def jars(self, wanted: Sequence[JarRef]) -> list[Jar]:
        """Return the cookie jars that exist, except those whose version the caller already has. They are secrets."""
        ...

    async def log_in(self, login: SessionLogin, entries: Sequence[Entry], *, failed: bool = False) -> bool:
        """Begin the login that a grant has asked for, with these requests (with the need ``login:NAME``).

        Returns False if another worker has begun it: nothing was added. Without requests the session is ready at once.
        ``failed``: the spider's ``login`` raised an exception.
        """
        ...

    async def count_distinct(self, changes: bytes) -> None:
        """Merge at most ``BATCH`` registers of the HyperLogLog of URLs that are done (``hyperloglog.changes_since``).

        The count is only an estimate: the registers that a killed worker had not yet sent are missing.
        """
        ...

    async def known_pages(self, after: float, until: float, limit: int) -> list[KnownPage]:
        """Return the first ``limit`` known pages with ``after`` < ``due_at`` <= ``until``, ordered by ``due_at``.

        Pages that are due at the same time are returned together, so there may be a few more than ``limit``. For the
        next page of results pass the last ``due_at`` as ``after``.
        """
        ...


@runtime_checkable
class TakesTurns(Protocol):
    """A WorkSource whose calls wait for calls of other processes, such as a file with one writer at a time."""

    async def wait_for_turn(self) -> None:
        """Return when a call need not wait, so that requests that end meanwhile can join it.

        Another process may still get its turn first.
        """
        ...


def wait_for_turn_of(source: WorkSource) -> Callable[[], Awaitable[None]] | None:
    """Return the source's ``wait_for_turn``; None: its calls do not wait for each other."""
    return source.wait_for_turn if isinstance(source, TakesTurns) else None


@runtime_checkable
class DistantSource(Protocol):
    """A WorkSource behind a network: answers arrive with a delay, and frequent calls are expensive."""

    @property
    def round_trip_seconds(self) -> float:
        """Recent duration of its calls; a worker sends it with its next call (``Call.round_trip_seconds``)."""
        ...

    async def wait_for_work(self, worker: str, timeout_seconds: float) -> bool:
        """Wait, and return True when the worker should ask for work; False: it may wait again. Grants nothing."""
        ...


def distant_source(source: WorkSource) -> DistantSource | None:
    """Return the source if it is a distant one."""
    return source if isinstance(source, DistantSource) else None


class JobReader(Protocol):
    """The methods by which a process reads the record of its job before it works for it."""

    async def job(self) -> Job:
        """Return the job; raises JobError if there is none of this name.

        Its specification may hold a hundred thousand seeds: for polling, use ``state``.
        """
        ...

    async def state(self) -> JobState:
        """Return the state and the run of the job. Cheap enough to poll."""
        ...

    async def sinks(self) -> list[SinkSeen]:
        """Return the outputs that the job keeps items for, with the progress of each. Cheap enough to poll.

        A job with shards is not read at one instant: items that are committed or delivered during the call may count as
        undelivered, but no undelivered item is left out.
        """
        ...

    async def report(self, hosts: int = 5, queues: int = 0) -> Report:
        """Return everything that ``status`` shows, from one instant.

        ``hosts`` is the number of notable hosts, ``queues`` the number of longest queues. A client that asks again is
        not sent the job's specification again. This is the only call that promise 7 does not cover: to find the longest
        queues, a store may have to scan everything that is queued (0.1 s for a million requests), while other calls
        continue.
        """
        ...


class WorkerRecovery(Protocol):
    """The methods by which a supervisor recovers the leases of workers that died or hang on a page."""

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        """See ``WorkSource.renew``."""
        ...

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0) -> Committed:
        """See ``WorkSource.commit``."""
        ...

    async def release_worker(self, worker: str) -> int:
        """Return the leases of a dead worker to the queue at once, each with a loss; return how many.

        Its ``claim_close`` ends too.
        """
        ...

    async def relieve_worker(self, worker: str, page: Lease, pause_seconds: float) -> int:
        """Return the other leases of a worker that hangs on this page to the queue, without a loss; return how many.

        The worker keeps the lease of the page. The delays of the other hosts continue. The page's host is granted
        nothing for ``pause_seconds``, or until it answers.
        """
        ...


class Outbox(Protocol):
    """The methods for delivering items to sinks. Each sink has one owner at a time."""

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        """Become the owner of a sink; None while the time of another owner (``SINK_OWNER_SECONDS``) has not run out.

        The job keeps items for the target from its first ``open_sink`` on, or from ``begin`` if that named it.
        """
        ...

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        """Return the next undelivered items in order, and keep the ownership; None if it was lost."""
        ...

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        """Record that the target holds all items up to ``progress.position``. False if the ownership was lost."""
        ...

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        """Give up the ownership. ``forget``: the job keeps no more items for this target."""
        ...


class Intakes(Protocol):
    """The methods for reading intakes, sources of requests outside the frontier. An intake may have several readers."""

    async def open_intake(self, source: str, owner: str, *, alone: bool = False) -> bytes | None:
        """Become a reader of an intake, and return the last stored mark.

        While the intake is open, the job does not finish; a finished job is reopened. With ``alone``, returns None
        while the time of another reader (``INTAKE_OWNER_SECONDS``) has not run out.
        """
        ...

    async def tell_intake(self, source: str, owner: str, progress: IntakeProgress) -> bool:
        """Store the progress of a reader; also counts as a sign of life.

        Returns False if the reader counts as dead, or if the intake was closed.
        """
        ...

    async def leave_intake(self, source: str, owner: str) -> None:
        """Stop reading; the intake stays open."""
        ...

    async def close_intake(self, source: str, owner: str) -> bool:
        """Stop reading because the source has ended, and close the intake unless another reader is alive.

        Returns whether it is closed. Any process may call this, to close an intake without readers.
        """
        ...

    async def intakes(self) -> list[IntakeSeen]:
        """Return the intakes of the run, ordered by source. Cheap enough to poll."""
        ...


class ProxyPool(Protocol):
    """The methods by which providers, egresses and operators change the job's proxy pool."""

    async def register_proxy(self, url: str, owner: str, lifetime_seconds: float | None = None) -> str:
        """Add a proxy, or renew the one with exactly this URL; return its short id.

        The proxy is removed after ``lifetime_seconds`` unless it is registered again; None: it stays. A drained proxy
        is used again. Raises UsageError beyond ``MAX_PROXIES``.
        """
        ...

    async def drain_proxy(self, proxy_id: str) -> int:
        """Stop granting requests to a proxy; return how many are in flight. Idempotent."""
        ...

    async def remove_proxy(self, proxy_id: str) -> int:
        """Remove a proxy from the pool; return how many requests are still in flight. They continue."""
        ...

    async def ban_proxy(self, proxy_id: str, host_key: str = "", seconds: float = 0.0) -> bool:
        """Ban a proxy for ``seconds``, at one host or everywhere; 0 ends its bans. False: there is no such proxy."""
        ...


class WorkerStore(WorkSource, Outbox, JobReader, Protocol):
    """The methods that a worker process uses: work, the job's record, and the outbox to enlist its archive in."""

    async def claim_close(self, owner: str, *, done: bool = False) -> CloseClaim:
        """Become or remain the owner that calls ``on_close`` of the finished run, for ``SINK_OWNER_SECONDS``.

        ``done``: the owner has called it; no process calls it again.
        """
        ...

    async def close(self) -> None: ...


class Frontier(WorkerStore, WorkerRecovery, Intakes, ProxyPool, Protocol):
    """The complete frontier, as commands, supervisors and masters use it."""

    async def begin(self, spec: JobSpec, *, fresh: bool = False, sinks: Sequence[str] = ()) -> Begun:
        """Create, resume or rerun the job. Raises JobError if an unfinished run has other seeds or arguments.

        From now on the job keeps items for the targets in ``sinks``, and for those that it had. If a run was already
        begun for the key in ``spec.run_keys``, that run is resumed, or found finished, and no new one begins, even with
        ``fresh``. A job remembers its last ``RUN_KEYS_KEPT`` keys.
        """
        ...

    async def add(self, entries: Sequence[Entry]) -> int:
        """Deduplicate and enqueue requests in one step; return how many were new. New ones reopen a finished job."""
        ...

    async def reap(self) -> int:
        """Return expired leases to the queue, each with a loss; return how many.

        Also fails a batch of requests of given-up hosts.
        """
        ...

    async def peek(self, after: int, limit: int) -> list[Item]:
        """Return items of the outbox, regardless of which sinks lack them, without changing any progress.

        For the next page pass the position of the last item as ``after``; 0 is the beginning. (In a job with shards,
        positions serve only for paging.)
        """
        ...

    async def counts(self) -> Counts: ...

    async def workers(self) -> list[WorkerSeen]:
        """Return the workers that have reported, ordered by id. Cheap enough to poll."""
        ...

    async def command(self, command: Command, reason: StopReason = StopReason.COMMAND) -> Job:
        """Pause, resume or stop the job; return the changed job. Idempotent. ``reason`` is the reason of a stop."""
        ...

    async def command_host(self, host_key: str, command: HostCommand) -> Halt | None:
        """Pause, resume or give up a host; return its previous order. None: the job has no such host.

        The last command applies. Idempotent.
        """
        ...

    async def hosts(self, state: HostFilter = HostFilter.ALL, limit: int = BATCH, after: str = "") -> HostPage:
        """Examine the next ``limit`` hosts (at most ``BATCH``), and return those that are in a state.

        For the next page pass ``HostPage.after``, until it is empty: a page may have few hosts or none although more
        follow. The order depends on the store: by key, or unordered (Redis). Every host that exists throughout the
        paging is listed. In an unordered store, a host may be listed twice, and a page may have more hosts than
        ``limit``. Queues are counted up to 10,000.
        """
        ...

    async def change_settings(self, values: Mapping[str, Any]) -> Job:
        """Change settings of the run (``settings.CHANGEABLE``); return the changed job.

        The values apply to all workers from the next call on. Raises UsageError for a setting that cannot be changed or
        a wrong value, and JobError for a finished job.
        """
        ...

    async def trace(self, request_id: int, host_key: str = "") -> Trace | None:
        """Return the stored state of a request; None if it was never seen in this run.

        ``host_key`` is the host key of the request: a store without an index by id needs it to find a queued request.
        """
        ...

    async def page_record(self, request_id: int, host_key: str) -> PageRecord | None:
        """Return the record of a page in a job that recrawls; None if the job never fetched it."""
        ...

    async def sessions(self) -> list[SessionSeen]:
        """Return the sessions of the run, ordered by name, without their cookies."""
        ...

    async def add_cookies(self, news: Sequence[CookieNews]) -> None:
        """Add cookies to jars, as a commit does."""
        ...

    async def failures(
        self, error_class: str = "", limit: int = 1000, after: int = 0, *, newest: bool = False
    ) -> list[FailedRequest]:
        """Failed requests in the order they were added, or with ``newest`` in the opposite order.

        For the next page pass the position of the last one as ``after``; 0 is the beginning. Requests that are revived
        meanwhile do not change the positions of others. (In a job with shards, the order is that within a shard;
        positions serve only for paging.)
        """
        ...

    async def revive(self, error_class: str = "", ids: Sequence[int] = ()) -> int:
        """Queue failed requests again with no attempts spent: all, one class, or those named; return how many."""
        ...

    async def distinct_urls(self) -> bytes:
        """Return the HyperLogLog registers of the URLs done in all runs of the job; empty if there are none."""
        ...

    async def capacity(self) -> list[StoreCapacity]:
        """Return the free capacity of the disks and servers that store the job; those without a limit are left out.

        Cheap enough to poll once a minute.
        """
        ...

    async def check_consistency(self, *, repair: bool = False) -> Consistency:
        """Compare every count, queue, lease, seen id, host record, outbox position and intake with each other.

        The check may take minutes; it holds at most one batch of requests, hosts or items in memory. While workers run,
        every reported error existed at one instant, and anything that could not be compared at one instant is named.
        ``repair`` corrects what can be corrected without loss; the caller must make sure that the job is idle
        meanwhile.
        """
        ...


@runtime_checkable
class RecordsMutations(Protocol):
    """A Frontier whose store has an audit trail."""

    def acting_for(self, actor: Actor) -> Frontier:
        """Return a view of this frontier whose mutations are recorded as the actor's (``audit.mutations``).

        A mutation that cannot be recorded is not made. The view need not be closed.
        """
        ...


def acting_for(frontier: Frontier, actor: Actor) -> Frontier:
    """Return a view that records the mutations of an operator, or the frontier itself if its store has no trail."""
    # By its class: one that passes unknown names on to another frontier would be left out.
    if isinstance(frontier, RecordsMutations) and hasattr(type(frontier), "acting_for"):
        return frontier.acting_for(actor)
    return frontier


class OpenFrontier(Protocol):
    """Opens the frontier of one job."""

    def __call__(self, url: str, job: str, *, create: bool, patient: bool) -> Frontier:
        """Open a frontier. Without ``create`` the store must exist: otherwise raises FrontierError.

        ``patient``: the job is already running, so an unavailable server is waited for and is not an error. A process
        may open the same URL twice, the second time in another thread with its own event loop.
        """
        ...


class FrontierBackend(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of frontier, for one URL scheme. Packages register theirs as entry points of ``skitter.frontiers``."""

    open: OpenFrontier
    shared: bool
    """Whether several processes can open it at a time. If not, a crawl runs within its own process."""
    list_jobs: Callable[[str], Awaitable[list[str]]] | None = None
    """Returns the names of the jobs at a URL; None if the backend cannot list them."""
    drop_job: Callable[[str, str], Awaitable[bool]] | None = None
    """Deletes a job with all its data; returns False if there was none. None if the backend cannot."""
    drop_job_as: Callable[[str, str, Actor], Awaitable[bool]] | None = None
    """The same, recorded in the audit trail of the store; None if the store has none."""
