"""The promises of a frontier, as Protocols. Every backend keeps all of them, always.

 1  Nothing is lost: a request whose ``add`` returned reaches exactly one of done, redirected,
    dead, excluded, whichever workers die, stall or lose their network.
 2  One effect: a commit is accepted once, and only from the current epoch; ack, out-links, items
    and host news take effect together or not at all.
 3  Exact dedup: a request id is queued once per run under any concurrency; check and enqueue are one step.
 4  Polite as a cluster: between two grants of one host key to different workers its delay passes (and the start
    window that the worker may use up), and never more than ``per_host`` are leased. A short delay is kept by the worker
    itself between its own starts (``Lease.pace_seconds``), and then it may be granted ahead. Crawl-delay, Retry-After
    and back-off are state of the host.
 5  Order: among ready hosts the one with the highest waiting priority; then those in a burst that have nothing in
    flight; then the least recently served. A burst is at most ``burst_pages`` grants of a host, and ends
    ``burst_seconds`` after the first. So while a ready host waits, each other host of its priority is granted two
    bursts at most. Inside a host priority, then first in first out. A request that comes back keeps its place, but
    that ``retry_priority`` is added to the priority of one that was delayed. (Where a job is in shards, this is the
    order of a shard; shards take turns.)
 6  Exact end: ``finished`` if and only if nothing is queued, delayed or leased, the seeding is over and no intake is
    open.
 7  Bounded: every call is bounded by its arguments; a full outbox stops the leasing. What a call does on behalf of
    others (expired leases, delayed requests, the queue of a host that is given up) it does for ``BATCH``
    requests at most, and calls to come go on with it.
 8  Resume: everything above holds after any process was killed at any instant (``memory:`` excepted:
    it dies with its process).

Rules that all backends share:

- Time is the store's clock and never goes back. Durations are seconds.
- A lost lease (expired, or its worker died) is counted as a loss, not as an attempt. After
  ``LOSSES_BEFORE_ALONE`` losses a request is leased alone: its worker holds nothing else. Only
  ``LOSSES_WHILE_ALONE`` losses in that condition make it dead, class ``lost``.
- ``Ending.RETRY`` spends an attempt, and the last one makes the request dead; a block spends none. How many there are
  the outcome says (``max_attempts``), or else the setting.
- A host that is given up takes what waits for it along, piece by piece: the call that gives it up buries the first
  piece, and each ``lease`` and ``reap`` after it one more. Until the last one nothing of the host is leased, and what
  is added or comes back meanwhile is buried too. A normal answer of the host, or a revived request of it, ends
  that: the rest stays queued.
- A host whose budget is spent (``max_pages_per_host``, ``trap_pages``: policy.host_budgets) goes the same way, but what
  waits for it is excluded, class ``host_budget``; and neither an answer nor a revived request ends that, only a larger
  budget. What is added to it or comes back later is excluded by the next ``lease`` or ``reap``. Pages in flight and
  pages done together never exceed the budget; a budget that is lowered holds for what is leased after it.
- Each method may be called again after an error without harm. A client may also send a call again by itself, because
  the answer was lost on its way: it still acts once, and ``begin``, ``lease`` and ``commit`` answer what they
  answered before (without leases that have ended since). ``add``, ``revive``, ``reap`` and ``release_worker`` then
  return how many were left to the second call, which may be too few; the other methods are the same when told twice.
- A worker may send a ``lease`` or ``commit`` again as well, through this frontier object or another one, with the token
  of the first time and ``Call.again``. It acts once, as above. What was new, struck or recovered is told by the first
  answer only; permits are told by both. A store remembers, for each worker, the last call that granted or ended
  something, until the worker is forgotten or a new run begins. So a worker has one call with a token under way at a
  time, and a token that is older than the one remembered is a new call: its outcomes are refused, and more is granted.
  (Where a job is in shards, each shard remembers the last call that it had a part in.)
- No frontier object keeps what a worker knows: the token and the permits' mark come with each call
  (``model.lease.Call``), so calls of many workers may be passed on through one object, and those of one worker through
  several.
- A worker that says its slots (``Call.slots``) and was granted fewer requests than it asked for is short until it asks
  again, or has not for 2 s after it was to. While pages are slow and another worker is short and about to ask, a
  worker that says its slots is granted no more than its share of what is ready (policy.shares), and is told to ask
  again soon if something was left. (Not where a job is in shards.)
- A request may have a need, which a worker must be able to serve at the moment (``Call.needs``). It is granted to no
  other; everything else holds for what the asking worker can serve, so a need that nobody serves holds up neither its
  host nor others. A request keeps its need wherever it goes, and dedup does not look at it.
- What was recovered, struck or new is told in the answer to whoever caused it: once in the whole cluster.
- A job with the setting ``recrawl`` knows, beyond its runs, every request that was ever added to it (``KnownPage``),
  and the record of each that was fetched (``PageRecord``); only dropping the job forgets them. A lease brings the
  record, and the commit that ends it may replace it (promise 2). A page is due from its ``next_at`` on; one that was
  never fetched is due at once. With ``recrawl=due``, ``add`` leaves out what is not due, unless it comes with a permit:
  what the user typed is fetched. With ``stay`` that is left out as well; its permit counts nevertheless.

- A job has a pool of proxies from the first ``register_proxy`` of its run on, or from its beginning with the setting
  ``proxy_pool``. From then on every lease but that of the seeding names the proxy that it must go through, and is
  counted under it until it ends: never more than ``per_proxy`` of all workers together. While no proxy is free for
  any host, nothing is leased (``Grant.blocked_by``); one that is banned at a host gets nothing of that host, and a host
  without any other waits. What an outcome tells of its proxy takes effect with it (promise 2). A failure by the proxy
  (``ProxyNews.fault``) spends no attempt, and its host is not struck; after ``PROXY_FAILURES_LIMIT`` of them the
  request is dead, class ``proxy``. A new run begins without proxies.
- The settings of a run may change, by ``change_settings`` or by the ``begin`` that resumes it, and hold from the next
  call on. A host that waits because of a delay which is shorter now waits no longer than the new one from then on (the
  next calls of ``lease`` see to it, ``BATCH`` hosts each); a longer delay counts from the next grant on. A resumed run
  keeps what ``change_settings`` has changed, unless the specification of the ``begin`` has another value than that of
  the one before; a new run begins with its own.
- A cookie takes effect with the commit of the page that set it, in the order of the commits: a refused outcome sets
  none. A lease says the newest version of the jars of its host's registrable domain (``Lease.jar``), so a worker knows
  whether to read one (``jars``) before it fetches. Jars are bounded (policy.cookies) and belong to the run: a resumed
  one has them, a new one begins with none.
- With the settings ``session_pool`` or ``exclusive_sessions``, or a spider that has ``login`` (``JobSpec.login``),
  sessions are handed out with leases: a request has the need ``session:NAME``, or ``session:pool`` for any of the pool,
  and is granted while a session serves that (``Lease.session``). A need of several words is served when each is. Uses
  are counted with the grant and never exceed ``max_session_uses``; an exclusive session is leased once at a time. One
  that is used up, too old or told to be expired is replaced, once: its cookies are forgotten and, if the spider logs
  in, a worker is asked for it (``Grant.logins``), and no page is granted with it until the login is over. (Not in
  shards.)
- A run whose specification has ``on_close`` is over when that was called: ``claim_close`` gives the call of it to one
  owner at a time, as a sink has one. Until then ``begin`` resumes the finished run, as it does for a target that lacks
  items. A finished job that has new work is claimed again at its next end.
- A count of ``Outcome.tally`` is added with its outcome, once, and not if that is refused. Names of spiders and hooks
  (``model.counters``) beyond ``MAX_COUNTERS`` are counted under one.
- An intake is open from ``open_intake`` until ``close_intake``, whoever dies meanwhile: a reader that is gone does not
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
from skitter.model.intake import IntakeProgress, IntakeSeen
from skitter.model.item import Item
from skitter.model.job import (
    Begun,
    CloseClaim,
    Command,
    Counts,
    Dead,
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
from skitter.model.worker import WorkerCard, WorkerSeen

BATCH = 1000
"""Requests or hosts that one call moves at most on behalf of others (promise 7)."""
MAX_PRIORITY = 2**53
"""Lua's numbers are exact up to here; priorities beyond count as this one, or become it when they change."""
BURY_BATCH = BATCH
"""Requests of hosts that were given up, which one call ends at most."""
POLL_SECONDS = 1.0
"""When nothing is scheduled, a worker asks again this often: another one's commit may have added work."""
SUSPECTS_TRIED = 32
"""Requests to be leased alone that one call looks at for one that may start now."""
SINK_OWNER_SECONDS = 30.0
"""A sink whose owner has not been heard from for this long may be taken over."""
INTAKE_OWNER_SECONDS = 30.0
"""A reader of an intake that has not been heard from for this long counts as dead."""
NOTABLE_HOSTS = 16
"""Slow and troubled hosts that a job remembers for people."""
NEEDS_TOLD = 16
"""Needs that a report names: those that most queued requests have."""
RATE_SAMPLE_SECONDS = 5.0
"""Between two samples of what is done, for the present rate."""
MAX_PROXIES = 1_000
"""Proxies of a job's pool: each grant looks at all of them."""
HOST_PROXY_SECONDS = 10.0
"""A host that no proxy is free for is looked at again so soon, if no ban ends before."""
FORGET_SECONDS = 3600.0
"""A worker that is gone without a word is listed this long, so that somebody can see it."""


class WorkSource(Protocol):
    """All that a worker needs. Work may also reach it over a bus or from another scheduler."""

    async def lease(self, worker: str, limit: int, call: Call = ONCE) -> Grant:
        """Requests that may start now (promises 4 and 5), at most ``limit``. Reaps and buries first."""
        ...

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        """Push the deadlines; False for each that was already lost, or is another worker's.

        Also says that the worker lives.
        """
        ...

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0, call: Call = ONCE) -> Committed:
        """Make the outcomes true (promise 2); with ``want``, answer with new leases as ``lease`` would.

        Items are published with the last part of their page, and counted then: each kind in its counter of the tally
        (``model.item.COUNTERS``).
        """
        ...

    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        """Hand back unfinished work at once: no attempt, no loss, and the host's slot is free again.

        ``late``: the start window had passed; the host's window grows, so that a slow machine gets on.
        ``touched``: it may have been at the socket when it was broken off; the host's delay goes on.
        """
        ...

    async def tell(self, worker: str, card: WorkerCard | None) -> None:
        """What a worker says of itself, for people; also says that it lives. None: it leaves, and is no longer listed.

        Leases are not touched by it. Whoever has been silent for ``FORGET_SECONDS`` and holds nothing is forgotten.
        """
        ...

    async def robots(self, host_keys: Sequence[str]) -> dict[str, RobotsRecord]:
        """The robots records that govern these hosts; a host without one is left out."""
        ...

    async def proxies(self) -> list[ProxySeen]:
        """The proxies of the job's pool, by id, with their passwords. Cheap enough to be polled."""
        ...

    async def jars(self, wanted: Sequence[JarRef]) -> list[Jar]:
        """The jars that are there, without those whose version is known. They are secrets."""
        ...

    async def log_in(self, login: SessionLogin, entries: Sequence[Entry], *, failed: bool = False) -> bool:
        """Begin the login that a grant has asked for, with these requests (of the need ``login:NAME``).

        False: another worker has, and nothing was added. Without requests the session is ready at once; ``failed``: the
        spider's ``login`` has raised.
        """
        ...

    async def count_distinct(self, changes: bytes) -> None:
        """Merge registers of a HyperLogLog of URLs that were done, at most ``BATCH`` (``hyperloglog.changes_since``).

        An estimate, and no more: it lacks what a worker that is killed has not told yet.
        """
        ...

    async def known_pages(self, after: float, until: float, limit: int) -> list[KnownPage]:
        """Known pages by ``due_at``: the first ``limit`` of those that are due later than ``after``, until ``until``.

        Those that are due at the same time come together, so there may be some more; page on with the last time.
        """
        ...


@runtime_checkable
class TakesTurns(Protocol):
    """A WorkSource whose calls wait for those of other processes, as with a file that one of them writes at a time."""

    async def wait_for_turn(self) -> None:
        """Return when a call need not wait; what ends meanwhile can go with it. Another process may still be first."""
        ...


def wait_for_turn_of(source: WorkSource) -> Callable[[], Awaitable[None]] | None:
    """Return the source's ``wait_for_turn``; None: its calls do not wait for each other."""
    return source.wait_for_turn if isinstance(source, TakesTurns) else None


@runtime_checkable
class DistantSource(Protocol):
    """A WorkSource behind a network: its answers are old when they arrive, and asking it often is expensive."""

    @property
    def round_trip_seconds(self) -> float:
        """How long its calls took of late; what a worker tells with its next one (``Call.round_trip_seconds``)."""
        ...

    async def wait_for_work(self, worker: str, timeout_seconds: float) -> bool:
        """Return when the worker should ask for work; False: it need not, and may wait again. Grants nothing."""
        ...


def distant_source(source: WorkSource) -> DistantSource | None:
    """Return the source if it is a distant one."""
    return source if isinstance(source, DistantSource) else None


class JobReader(Protocol):
    """What a process reads of its job before it works for it."""

    async def job(self) -> Job:
        """The job; JobError when there is none of this name.

        Its specification may hold a hundred thousand seeds: whoever polls asks for ``state``.
        """
        ...

    async def state(self) -> JobState:
        """The state and the run of the job. Cheap enough to be polled."""
        ...

    async def sinks(self) -> list[SinkSeen]:
        """The targets that the job keeps items for, and how far each is. Cheap enough to be polled.

        Where a job is in shards, they are not read at one instant: what is committed or delivered during the call may
        count as not delivered yet, and nothing that a target lacks is left out.
        """
        ...

    async def report(self, hosts: int = 5, queues: int = 0) -> Report:
        """Everything that ``status`` shows, from one instant: so many notable hosts, and so many long queues.

        A client that asks again is not sent the job's specification again. The one call that promise 7 leaves out: a
        store may have to look through all that is queued to find the longest queues (0.1 s for a million), while others
        go on.
        """
        ...


class WorkerRecovery(Protocol):
    """What a supervisor needs: to give back what its workers held when they died or were held by a page."""

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        """See ``WorkSource.renew``."""
        ...

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0) -> Committed:
        """See ``WorkSource.commit``."""
        ...

    async def release_worker(self, worker: str) -> int:
        """A worker was seen to die: its leases return at once, each with a loss. How many. Its ``claim_close`` ends."""
        ...

    async def relieve_worker(self, worker: str, page: Lease, pause_seconds: float) -> int:
        """A worker is held by this page: it keeps the page's lease, and its others return without a loss. How many.

        The delays of their hosts go on. The page's host gets nothing more for ``pause_seconds``, or until it answers.
        """
        ...


class Outbox(Protocol):
    """Delivering items to sinks: a role of its own. One owner per sink at a time."""

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        """Become the owner; None while another owner's time (``SINK_OWNER_SECONDS``) has not run out.

        From the first ``open_sink`` on, if not from ``begin``, the job keeps items for the target.
        """
        ...

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        """The next items the target lacks, in order; keeps the ownership; None when it was lost."""
        ...

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        """The target holds everything up to ``progress.position``. False when the ownership was lost."""
        ...

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        """Give the ownership up. ``forget``: the job keeps nothing for this target any more."""
        ...


class Intakes(Protocol):
    """Sources that requests come from: a role of its own. An intake may have several readers at a time."""

    async def open_intake(self, source: str, owner: str, *, alone: bool = False) -> bytes | None:
        """Become a reader; the mark that was stored last. The job does not finish from here on; a finished one reopens.

        ``alone``: None while another reader's time (``INTAKE_OWNER_SECONDS``) has not run out.
        """
        ...

    async def tell_intake(self, source: str, owner: str, progress: IntakeProgress) -> bool:
        """Store what was read; also says that the reader lives. False: it counts as dead, or the intake was closed."""
        ...

    async def leave_intake(self, source: str, owner: str) -> None:
        """Stop reading; the intake stays open."""
        ...

    async def close_intake(self, source: str, owner: str) -> bool:
        """Stop reading because nothing comes any more. The intake is closed unless another reader is alive.

        Whether it is closed. Anybody may call it, to close an intake that nobody reads.
        """
        ...

    async def intakes(self) -> list[IntakeSeen]:
        """The intakes of the run, by source. Cheap enough to be polled."""
        ...


class ProxyPool(Protocol):
    """Changes of the job's pool of proxies: what providers, egresses and operators do."""

    async def register_proxy(self, url: str, owner: str, lifetime_seconds: float | None = None) -> str:
        """Add a proxy, or renew one that is known by its whole URL; its short id.

        It is gone after ``lifetime_seconds`` unless it is registered again; None: it stays. One that was drained is
        used again. UsageError beyond ``MAX_PROXIES``.
        """
        ...

    async def drain_proxy(self, proxy_id: str) -> int:
        """Grant nothing more to a proxy; how many requests are in flight. Telling it twice changes nothing."""
        ...

    async def remove_proxy(self, proxy_id: str) -> int:
        """Take a proxy out of the pool; how many requests are still in flight. They go on."""
        ...

    async def ban_proxy(self, proxy_id: str, host_key: str = "", seconds: float = 0.0) -> bool:
        """Ban a proxy for so long, at one host or everywhere; 0: end its bans. False: there is no such proxy."""
        ...


class WorkerStore(WorkSource, Outbox, JobReader, Protocol):
    """What the process of a worker has open: work, the job's record, and the outbox to enlist its archive in."""

    async def claim_close(self, owner: str, *, done: bool = False) -> CloseClaim:
        """Become, or stay, the one that calls ``on_close`` of the finished run; for ``SINK_OWNER_SECONDS``.

        ``done``: the owner has called it, and nobody is to call it again.
        """
        ...

    async def close(self) -> None: ...


class Frontier(WorkerStore, WorkerRecovery, Intakes, ProxyPool, Protocol):
    """Everything: what commands, supervisors and masters use."""

    async def begin(self, spec: JobSpec, *, fresh: bool = False, sinks: Sequence[str] = ()) -> Begun:
        """Create, resume or rerun the job. JobError when an unfinished run has other seeds or arguments.

        From this instant the job keeps items for the targets in ``sinks``, and for those it had. If a run was begun for
        the key in ``spec.run_keys``, that run is resumed, or found finished, and no new one begins, even with
        ``fresh``. A job remembers its last ``RUN_KEYS_KEPT`` keys.
        """
        ...

    async def add(self, entries: Sequence[Entry]) -> int:
        """Dedup and enqueue in one step; how many were new. Reopens a finished job if any were."""
        ...

    async def reap(self) -> int:
        """Expired leases go back, each with a loss; how many. Buries a piece of hosts that are given up."""
        ...

    async def peek(self, after: int, limit: int) -> list[Item]:
        """Items that the outbox holds, whoever lacks them, and nobody's progress moves.

        Page on with the position of the last one in ``after``; 0 is the beginning. (Of a job in shards, positions serve
        for this alone.)
        """
        ...

    async def counts(self) -> Counts: ...

    async def workers(self) -> list[WorkerSeen]:
        """The workers that were heard from, by id. Cheap enough to be polled."""
        ...

    async def command(self, command: Command, reason: StopReason = StopReason.COMMAND) -> Job:
        """Pause, resume or stop; the job as it is after. Telling it twice changes nothing. ``reason``: of a stop."""
        ...

    async def change_settings(self, values: Mapping[str, Any]) -> Job:
        """Give some settings of the run other values (``settings.CHANGEABLE``); the job as it is after.

        They hold for all workers from the next call on. UsageError for what cannot be changed, and for a value that is
        none; JobError for a finished job.
        """
        ...

    async def trace(self, request_id: int, host_key: str = "") -> Trace | None:
        """What the store knows of a request; None: never seen in this run.

        ``host_key`` is the request's: a store without an index by id finds a queued request only by it.
        """
        ...

    async def page_record(self, request_id: int, host_key: str) -> PageRecord | None:
        """The record of a page in a job that recrawls; None: it was never fetched there."""
        ...

    async def sessions(self) -> list[SessionSeen]:
        """The sessions of the run, by name, without their cookies."""
        ...

    async def add_cookies(self, news: Sequence[CookieNews]) -> None:
        """Put cookies into jars, as a commit would."""
        ...

    async def dead(
        self, error_class: str = "", limit: int = 1000, after: int = 0, *, newest: bool = False
    ) -> list[Dead]:
        """Dead requests in the order they were added, or with ``newest`` in the opposite order.

        Page on with the position of the last one in ``after``; 0 is the beginning. What is revived meanwhile moves no
        other. (Of a job in shards, the order is that of a shard; positions serve for paging alone.)
        """
        ...

    async def revive(self, error_class: str = "", ids: Sequence[int] = ()) -> int:
        """Queue dead requests again with a clean slate: all, one class, or the ones named. How many."""
        ...

    async def distinct_urls(self) -> bytes:
        """The registers of a HyperLogLog of the URLs that were done in all runs of the job; empty: none was."""
        ...

    async def capacity(self) -> list[StoreCapacity]:
        """The disks and servers that the job is stored on, and what is left there; those without a limit are left out.

        Cheap enough to be polled once a minute.
        """
        ...

    async def check_consistency(self, *, repair: bool = False) -> Consistency:
        """Compare every count, queue, lease, seen id, host record, outbox position and intake with each other.

        It may take minutes, and in memory it needs no more than a batch of requests, hosts or items. While others work
        at the job, what is told was wrong at one instant, and what could not be compared at one instant is named.
        ``repair`` mends what can be mended without loss: the job rests meanwhile, which the caller sees to.
        """
        ...


@runtime_checkable
class RecordsMutations(Protocol):
    """A Frontier whose store has an audit trail."""

    def acting_for(self, actor: Actor) -> Frontier:
        """Return a view of this frontier whose mutations are recorded as the actor's (``audit.mutations``).

        One that cannot be recorded is not made. There is nothing to close.
        """
        ...


def acting_for(frontier: Frontier, actor: Actor) -> Frontier:
    """Return a view that records the mutations of an operator; the frontier itself where a store has no trail."""
    # By its class: one that passes unknown names on to another frontier would be left out.
    if isinstance(frontier, RecordsMutations) and hasattr(type(frontier), "acting_for"):
        return frontier.acting_for(actor)
    return frontier


class OpenFrontier(Protocol):
    """Opens the frontier of one job."""

    def __call__(self, url: str, job: str, *, create: bool, patient: bool) -> Frontier:
        """Without ``create`` the store must be there already: FrontierError if not.

        ``patient``: the job runs already, so a server that is away now is waited for, and is not an error. A process
        may open the same URL twice, the second time in another thread with an event loop of its own.
        """
        ...


class FrontierBackend(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of frontier, for one scheme of URLs. Packages name theirs by entry points of ``skitter.frontiers``."""

    open: OpenFrontier
    shared: bool
    """Whether several processes can have it open at a time. If not, a crawl works inside its own process."""
    list_jobs: Callable[[str], Awaitable[list[str]]] | None = None
    """The names of the jobs that a URL reaches; None: it cannot tell."""
    drop_job: Callable[[str, str], Awaitable[bool]] | None = None
    """Remove a job and everything of it, False if there was none; None: it cannot."""
    drop_job_as: Callable[[str, str, Actor], Awaitable[bool]] | None = None
    """The same, recorded in the audit trail of the store; None: it has none."""
