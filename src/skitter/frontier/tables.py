"""The records of a job, and what the rules ask of a store: rows in, rows out, inside one transaction.

No rule lives here. A backend that offers these tables (memory, SQLite) gets all promises of the contract from
``rules``; a backend with its own engine (Redis and Lua) implements the contract itself, and uses the records.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from skitter.errors import MissingJobError
from skitter.model.bloom_stats import BloomStats
from skitter.model.consistency import Finding
from skitter.model.host import Host
from skitter.model.intake import IntakeRecord
from skitter.model.item import Item, ItemKind, NewItem
from skitter.model.job import Counts, Job, JobSpec, JobState, SinkProgress, State, Trace
from skitter.model.lease import Work
from skitter.model.outcome import RobotsRecord
from skitter.model.page_record import KnownPage, PageRecord
from skitter.model.proxy import HostProxies, ProxyRecord
from skitter.model.session import Jar, SessionRecord, SessionSeen
from skitter.model.worker import WorkerHeartbeat
from skitter.policy.shares import ShortWorker

ENDED = "ended"
"""The state of a request that is done or redirected, and of which nothing else is kept."""
MAYBE_SEEN = "maybe-seen"
"""The state of a request that a Bloom filter takes for known."""
MAX_ERROR_CHARS = 8000
"""Of an error's text, its beginning and its end together: a traceback may quote a whole page."""


class RequestState(enum.IntEnum):
    """The state of a request. The numbers are stored."""

    QUEUED = 0
    DELAYED = 1
    LEASED = 2
    DONE = 3
    REDIRECTED = 4
    FAILED = 5
    EXCLUDED = 6
    SUSPECT = 7
    """Queued, and to be leased alone."""


STATE_NAMES = {state: state.name.lower() for state in RequestState} | {RequestState.SUSPECT: "queued"}
"""What people are told."""
DELIVERED_EARLIER = "delivered_earlier"
"""The counter of links that were left out because an earlier run has delivered their page."""
LOST_LINKS = "lost_links"
"""The counter of links between shards that a server had lost when the job finished, and that nothing finds again."""
DELIVERED = "delivered"
"""The state of a request that is not in this run, because an earlier one has delivered its page."""


class Row(msgspec.Struct):
    """One request of the run."""

    seq: int
    """First in, first out: also the order of the failed."""
    id: int
    host_key: str
    priority: int
    payload: bytes
    state: RequestState = RequestState.QUEUED
    attempts: int = 0
    losses: int = 0
    losses_alone: int = 0
    blocks: int = 0
    not_before: float = 0.0
    added_at: float = 0.0
    ended_at: float = 0.0
    status: int = 0
    error_class: str = ""
    error: str = ""
    need: str = ""
    proxy_failures: int = 0


class LeaseRow(msgspec.Struct):
    """One current lease."""

    work: Work
    id: int
    epoch: int
    worker: str
    host_key: str
    leased_at: float
    deadline: float
    alone: bool = False
    staged: bool = False
    """Items of earlier parts are staged under its epoch."""
    row: Row | None = None
    """Of a page: its request, maybe without the payload."""
    address: str = ""
    """The IP address that it is counted under, if it is."""
    proxy: str = ""
    """The proxy of the pool that it goes through, and is counted under."""
    session: str = ""
    """Name and generation of the session that was taken for it, with a blank between them; empty: none was."""


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a worker's call, as far as it is needed when the call is sent again."""

    token: str
    first_epoch: int
    """Of the leases that were granted. Their epochs follow each other."""
    granted: int
    accepted: list[bool]


class ShortenedDelay(msgspec.Struct, array_like=True, frozen=True):
    """The last time that delays of the run were shortened."""

    at: float
    epoch: int
    """What was granted before has a smaller one."""
    until: float
    """By then each host that was granted before is due."""


class JobRow(msgspec.Struct):
    """The job's own record: state, counters and sequences. Loaded and saved once per transaction."""

    spec: JobSpec
    secret: bytes
    state: State = State.RUNNING
    run: int = 1
    seeding: bool = True
    seed_losses: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    reason: str = ""
    queued: int = 0
    delayed: int = 0
    leased: int = 0
    done: int = 0
    redirected: int = 0
    failed: int = 0
    excluded: int = 0
    next_seq: int = 1
    next_epoch: int = 1
    reap_at: float = 0.0
    """No lease expires before: renewals only push deadlines, so this may be early and is never late."""
    position: int = 0
    """Of the newest item."""
    tally: dict[str, int] = {}
    errors: dict[str, int] = {}
    notable: dict[str, float] = {}
    """A few slow and troubled hosts, and how much so."""
    sampled_at: tuple[float, float] = (0.0, 0.0)
    """When two samples were taken, for the rate of now; the older one first."""
    sampled_done: tuple[int, int] = (0, 0)
    """What was done then."""
    parked: int = 0
    """Hosts in phase PARKED."""
    needy: int = 0
    """Queued requests that have a need. While it is 0, nobody looks for them."""
    answers: dict[str, Answer] = {}
    """The last answer to each worker that granted or ended something. Here, because this record is read and written by
    every transaction anyway: in a table of their own, answers would cost each batch a page of the log."""
    intakes: int = 0
    """Intakes that are open. While there is any, the job does not finish."""
    short_workers: dict[str, ShortWorker] = {}
    """A few workers that were granted fewer requests than they asked for."""
    shared_at: float = 0.0
    """When a worker was last granted its share, and something was left for others."""
    held_seconds: float = 0.0
    """Moving average of how long pages are held, taken while workers are short; 0: it is not known."""
    shortened: ShortenedDelay | None = None
    """There while a host may be due by a delay that was shortened since: each that is written is looked at."""
    close_owner: str = ""
    """Who calls ``on_close`` of the finished run."""
    close_owned_until: float = 0.0
    closed: bool = False
    """``on_close`` was called."""
    jars: int = 0
    """Jars that there are. While it is 0, nobody looks for them."""
    jar_version: int = 0
    """Of the jar that was changed last."""
    reschedule_after: float | None = None
    """Of hosts that wait, those that are due later than this are still to be looked at for that. None: none are."""
    pooled: bool = False
    """A proxy was registered: from then on nothing is leased without one."""
    proxy_serial: int = 0
    """Grants of the pool."""
    proxy_draw: int = 1
    """The newest random number of the pool."""
    proxy_hosts: int = 0
    """Hosts that something is remembered of the proxies at. While it is 0, nobody looks for it."""
    paused_hosts: int = 0
    """Hosts that an operator has paused."""
    given_up_hosts: int = 0
    """Hosts that an operator has given up."""


class SinkRow(msgspec.Struct):
    """One sink of the job."""

    target: str
    progress: SinkProgress
    owner: str = ""
    owned_until: float = 0.0


class IntakeRow(msgspec.Struct):
    """One intake of the job."""

    source: str
    mark: bytes = b""
    record: IntakeRecord = msgspec.field(default_factory=IntakeRecord)


def no_such_job(name: str) -> MissingJobError:
    """The error for a job that is not in the store."""
    hint = f"start it with: skitter.crawl(…, job={name!r}) (skitter crawl … --job {name})"
    return MissingJobError(f"no such job: {name}", hint=hint)


def public_job(row: JobRow) -> Job:
    """The public view of a job's record."""
    return Job(
        spec=row.spec,
        state=row.state,
        run=row.run,
        secret=row.secret,
        seeding=row.seeding,
        started_at=row.started_at,
        ended_at=row.ended_at,
        reason=row.reason,
        closed=row.closed,
    )


def state_of(row: JobRow) -> JobState:
    """What is polled of a job's record."""
    return JobState(state=row.state, run=row.run, reason=row.reason)


def counts_of(row: JobRow) -> Counts:
    """How many requests are in each state."""
    return Counts(
        queued=row.queued,
        delayed=row.delayed,
        leased=row.leased,
        done=row.done,
        redirected=row.redirected,
        failed=row.failed,
        excluded=row.excluded,
    )


def sessions_seen(jars: Iterable[Jar], records: Mapping[str, SessionRecord]) -> list[SessionSeen]:
    """The sessions of a run for people, by name."""
    of_session: dict[str, list[Jar]] = {name: [] for name in records}
    for jar in jars:
        of_session.setdefault(jar.session, []).append(jar)
    return [
        SessionSeen(
            name=name,
            cookies=sum(len(jar.cookies) for jar in some),
            domains=sorted(jar.domain for jar in some if jar.cookies),
            changed_at=max((jar.changed_at for jar in some), default=0.0),
            record=records.get(name),
        )
        for name, some in sorted(of_session.items())
    ]


def pages_per_second(row: JobRow, now: float) -> float:
    """The present rate, by a job's record. A run that is younger than the samples is measured from its start."""
    if row.ended_at:
        return 0.0
    # Of two samples the older one may be from before a long silence, or be none.
    at, done = row.sampled_at[0], row.sampled_done[0]
    if at < row.started_at:
        at, done = row.started_at, 0
    return max(0, row.done - done) / (now - at) if now > at else 0.0


def trace_without_record(state: str) -> Trace:
    """The trace of a request of which nothing is kept but its identity."""
    return Trace(
        state=state,
        url="",
        depth=0,
        priority=0,
        attempts=0,
        losses=0,
        referrer=None,
        added_at=0.0,
        ended_at=0.0,
        status=0,
        error_class="",
        error="",
        ready_in_seconds=0.0,
        worker="",
        host=None,
    )


def storable(text: str) -> str:
    """An error's text as every store can keep it: of bounded length, and without halves of surrogate pairs."""
    if len(text) > MAX_ERROR_CHARS:
        text = text[: MAX_ERROR_CHARS // 2] + "\n…\n" + text[-MAX_ERROR_CHARS // 2 :]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class Fault(msgspec.Struct):
    """A finding of the consistency check, and how it is mended."""

    finding: Finding
    mend: Callable[[], object] | None = None
    """None: it cannot be mended without loss."""


def fault(
    code: str, place: str, what: str, expected: object, found: object, mend: Callable[[], object] | None
) -> Fault:
    """Make a fault; without ``mend`` it is one that cannot be mended."""
    return Fault(
        Finding(code=code, place=place, what=what, expected=str(expected), found=str(found), mendable=mend is not None),
        mend,
    )


class Tables(Protocol):
    """The rows of one job. Every method runs inside the store's transaction."""

    can_forget: bool
    """Whether it can keep less than a row of a request that is done or redirected, as the job's dedup says."""

    def clock(self) -> float:
        """The store's time; never goes back."""
        ...

    def load_job(self) -> JobRow | None: ...
    def save_job(self, job: JobRow) -> None: ...
    def forget_run(self) -> None:
        """Drop requests, leases, items, sinks, intakes, permits and jars.

        Known pages and ids that were delivered stay, and so do hosts: none of them is ready, waiting or given up.
        """
        ...

    # Requests
    def known(self, ids: Sequence[int]) -> set[int]: ...
    def maybe_known(self, ids: Sequence[int]) -> set[int]:
        """Those that a Bloom filter takes for known. Only with ``can_forget``."""
        ...

    def keep(self, ids: Sequence[int]) -> None:
        """Know these exactly, also when their requests are done. Only with ``can_forget``."""
        ...

    def filter_stats(self) -> BloomStats | None: ...
    def insert(self, rows: Sequence[Row]) -> None: ...
    def row(self, request_id: int) -> Row | None: ...
    def queue_length(self, host_key: str, limit: int) -> int:
        """How many are queued and not held, with and without a need; counted no further than ``limit``."""
        ...

    def rows(self, ids: Sequence[int]) -> dict[int, Row]: ...
    def longest_queues(self, limit: int) -> list[str]:
        """Keys of hosts, the longest queue first. It may take time that grows with what is queued."""
        ...

    def save_rows(self, rows: Sequence[Row]) -> None:
        """Everything but priority, and seq, id, host, payload and need, which never change."""
        ...

    def save_priorities(self, rows: Sequence[Row]) -> None:
        """The priorities of rows that are not queued, before ``save_rows`` of them."""
        ...

    def rows_at(self, seqs: Sequence[int]) -> dict[int, Row]: ...
    def heads(self, host_keys: Sequence[str], limit: int, need: str = "") -> dict[str, deque[tuple[int, int]]]:
        """(priority, seq) of the first rows in each host's queue of a need that nobody holds, as promise 5 has them."""
        ...

    def suspects(self, limit: int, need: str = "") -> list[Row]:
        """Suspect rows of a need that nobody holds, lowest seq first."""
        ...

    def due_rows(self, now: float, limit: int) -> list[Row]:
        """Delayed rows whose time has come, earliest first."""
        ...

    def next_row_due(self) -> float | None: ...
    def waiting(self, host_key: str, limit: int) -> list[Row]:
        """Rows of a host that nobody holds: queued ones in their order, those with needs after the others and by the
        names of their needs; then suspect and delayed ones by seq."""
        ...

    def failed_rows(self, error_class: str, limit: int, after: int, *, newest: bool) -> list[Row]:
        """By seq, upwards or from the newest down; those beyond ``after``, or all for 0."""
        ...

    # Needs: touched only where requests have any
    def add_to_needs(self, steps: dict[str, int]) -> None:
        """Count how many requests of each need are queued."""
        ...

    def needs(self, limit: int) -> list[tuple[str, int]]:
        """(need, how many are queued), the most first, then by name."""
        ...

    # Known pages: touched only where ``recrawl`` is set
    def due_times(self, ids: Sequence[int]) -> dict[int, float]:
        """When pages are due; those that are not known are left out."""
        ...

    def insert_pages(self, pages: Sequence[KnownPage]) -> None:
        """Those that are known stay as they are."""
        ...

    def page_records(self, ids: Sequence[int]) -> dict[int, PageRecord]: ...
    def save_page_records(self, records: dict[int, PageRecord]) -> None:
        """Of known pages; the others, which were added before the job recrawled, get none."""
        ...

    def known_pages(self, after: float, until: float, limit: int) -> list[KnownPage]:
        """See ``WorkSource.known_pages``."""
        ...

    # Jars: touched only where an answer has set a cookie
    def jars(self, session: str, domains: Sequence[str]) -> list[Jar]: ...
    def jar_versions(self, domains: Sequence[str]) -> dict[str, int]:
        """The newest version of the jars of each domain; those without one are left out."""
        ...

    def save_jar(self, jar: Jar) -> None: ...
    def drop_oldest_jar(self) -> None:
        """The least recently changed one of the unnamed session; of any, if that has none."""
        ...

    def jars_of(self, session: str) -> list[Jar]: ...
    def all_jars(self) -> list[Jar]:
        """By session and domain. For people, and the consistency check."""
        ...

    # Sessions that are handed out
    def sessions(self, names: Sequence[str]) -> dict[str, SessionRecord]: ...
    def save_session(self, name: str, session: SessionRecord) -> None: ...
    def all_sessions(self) -> dict[str, SessionRecord]: ...

    # Hosts
    def hosts(self, keys: Sequence[str]) -> dict[str, Host]: ...
    def save_hosts(self, hosts: Sequence[Host]) -> None: ...
    def ready_hosts(self, limit: int, need: str = "") -> list[tuple[int, int, str]]:
        """(top, turn, key) of hosts in phase READY that have a queue of this need: highest top, then lowest turn."""
        ...

    def due_hosts(self, now: float, limit: int) -> list[str]:
        """Keys of hosts in phase WAITING that are due."""
        ...

    def next_host_due(self) -> float | None: ...
    def waiting_hosts(self, after: float, limit: int) -> list[tuple[float, str]]:
        """(due time, key) of hosts in phase WAITING that are due later than ``after``, the soonest first.

        Those that are due at the same time come together, so there may be some more.
        """
        ...

    def given_up_hosts(self, limit: int) -> list[str]:
        """Keys of hosts in phase GIVEN_UP, in their order."""
        ...

    # Addresses: touched only where ``per_ip`` is set, or was
    def loads(self, addresses: Sequence[str]) -> dict[str, int]:
        """How many leases are counted under each; those with none may be left out."""
        ...

    def save_loads(self, loads: dict[str, int]) -> None: ...
    def park(self, hosts: Sequence[Host]) -> None:
        """Hosts in phase PARKED, new ones and ones that have changed."""
        ...

    def unpark(self, host_keys: Sequence[str]) -> None: ...
    def parked_hosts(self, address: str | None, limit: int, need: str = "") -> list[str]:
        """Keys of parked hosts that have a queue of this need, of one address: highest top, then lowest turn.

        Of any address: keys of parked hosts, whatever their queues; some may come twice.
        """
        ...

    def parked_needs(self, address: str) -> list[str]:
        """The needs for which hosts are parked at an address."""
        ...

    def robots(self, host_key: str) -> RobotsRecord | None: ...
    def save_robots(self, host_key: str, record: RobotsRecord) -> None: ...
    def permit(self, host_key: str) -> None: ...
    def permitted(self, after: int) -> list[str]:
        """Permitted host keys in the order they came, without the first ``after``."""
        ...

    # Leases
    # A request that is leased has left its queue; where its row says so is the store's affair.
    def leases(self, keys: Sequence[tuple[Work, int]]) -> dict[tuple[Work, int], LeaseRow]: ...
    def save_leases(self, leases: Sequence[LeaseRow]) -> None: ...
    def drop_leases(self, leases: Sequence[LeaseRow]) -> None: ...
    def expired_leases(self, now: float, limit: int) -> list[LeaseRow]: ...
    def first_deadline(self) -> float | None:
        """Of all leases; None: there is none."""
        ...

    def leases_of(self, worker: str) -> list[LeaseRow]: ...
    def load_of(self, worker: str) -> tuple[int, bool]:
        """How many leases it holds, and whether one of them is to be alone."""
        ...

    def any_lease(self) -> bool: ...

    # Workers
    def heard_from(self, worker: str, now: float) -> None: ...
    def save_heartbeat(self, worker: str, heartbeat: WorkerHeartbeat) -> None: ...
    def forget_worker(self, worker: str) -> None: ...
    def number_of_workers(self) -> int: ...
    def silent_workers(self, until: float) -> list[str]:
        """Those who were last heard from at this time or before."""
        ...

    def workers(self) -> list[tuple[str, float, WorkerHeartbeat | None]]:
        """(id, when last heard from, what it told of itself), by id."""
        ...

    # Outbox
    def stage(self, request_id: int, epoch: int, items: Sequence[NewItem], after: int | None) -> None:
        """Put items behind what is staged under this epoch; nothing, if that is not as many as ``after``."""
        ...

    def publish(self, request_id: int, epoch: int, after: int, *, keep: bool) -> list[ItemKind]:
        """Move what was staged under this epoch behind position ``after`` (or drop it); the kind of each."""
        ...

    def save_items(self, items: Sequence[Item]) -> None: ...
    def items(self, after: int, limit: int) -> list[Item]: ...
    def drop_items(self, up_to: int, *, delivered: bool = False) -> None:
        """Drop the items up to a position. ``delivered``: remember the ids of their pages, but not of a page that has
        items behind it, nor of one that has none but its archived copy."""
        ...

    def delivered(self, ids: Sequence[int]) -> set[int]:
        """Those of which every item was delivered, by this run or an earlier one."""
        ...

    def sinks(self) -> list[SinkRow]: ...
    def save_sink(self, sink: SinkRow) -> None: ...
    def drop_sink(self, target: str) -> None: ...

    # Distinct URLs of all runs
    def distinct_registers(self) -> bytes:
        """The registers of a HyperLogLog; empty: nothing was counted."""
        ...

    def save_distinct_registers(self, registers: bytes) -> None: ...

    # Intakes
    def intakes(self) -> list[IntakeRow]:
        """By source."""
        ...

    def save_intake(self, intake: IntakeRow) -> None: ...

    # Proxies: touched only where a job has a pool
    def proxies(self) -> list[ProxyRecord]:
        """By id."""
        ...

    def save_proxies(self, proxies: Sequence[ProxyRecord]) -> None: ...
    def drop_proxies(self, ids: Sequence[str]) -> None: ...
    def host_proxies(self, host_keys: Sequence[str] | None) -> dict[str, HostProxies]:
        """What is remembered of the proxies at hosts; None: at all of them. Hosts with nothing are left out."""
        ...

    def save_host_proxies(self, of_hosts: dict[str, HostProxies]) -> None:
        """Empty records are dropped."""
        ...

    # The consistency check: read in pieces, and by nothing else
    def find_damage(self) -> str:
        """The first value of the job that cannot be read, and why; empty: there is none. It may take minutes."""
        ...

    def count_rows(self) -> dict[RequestState, int]:
        """How many requests are in each state."""
        ...

    def count_failed(self) -> dict[str, int]:
        """How many have failed of each class of errors."""
        ...

    def done_by_host(self) -> dict[str, int]:
        """How many pages of each host are done. A number for each host: asked for only if their sum is wrong."""
        ...

    def count_ended(self) -> int | None:
        """How many ids of requests that are done or redirected are remembered; None: their rows are kept."""
        ...

    def count_needs(self) -> dict[str, int]:
        """How many requests of each need are queued or suspect, and not held."""
        ...

    def need_tops(self, host_keys: Sequence[str]) -> dict[str, dict[str, int]]:
        """The highest priority that is queued and not held for each need of each host that has any."""
        ...

    def hosts_after(self, key: str, limit: int) -> list[Host]:
        """Hosts whose keys come after this one, by key."""
        ...

    def all_leases(self) -> list[LeaseRow]:
        """Every current lease: as many as all workers have slots."""
        ...

    def all_loads(self) -> dict[str, int]:
        """How many leases are counted under each address."""
        ...

    def staged_epochs(self) -> list[tuple[int, int]]:
        """(request id, epoch) of all that is staged."""
        ...

    def item_range(self) -> tuple[int, int, int]:
        """The first and the last position in the outbox, and how many items are there; zeros if there are none."""
        ...

    def last_seq(self) -> int: ...
    def index_faults(self, job: JobRow) -> Iterator[Fault]:
        """What the store's own indexes have that its records do not say, or lack."""
        ...
