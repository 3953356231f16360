"""Frontier client for tests. It accepts short names and checks the counts after every step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skitter.frontier.contract import Frontier
from skitter.model.item import Item, NewItem
from skitter.model.job import Begun, Command, Counts, JobSpec, State, Trace
from skitter.model.lease import Call, Grant, Lease, Work
from skitter.model.outcome import Committed, Ending, HostNews, Outcome, RobotsRecord
from skitter.model.request import Entry, Fingerprinter, Request
from skitter.worker.call_state import CallState

EVERYTHING = 1000


class Client:
    """Frontier client for tests that names requests by host and path: ``a/1`` is ``http://a.example/1``.

    After each step it checks two invariants: the counts sum to the number of requests ever added (``seen`` is shared by
    the clients of a job), and the job is reported as finished if and only if it is.
    """

    def __init__(self, frontier: Frontier, job: str, seen: set[int], settings: Mapping[str, Any] | None = None) -> None:
        self.frontier = frontier
        self._job = job
        self._seen = seen
        self._settings = dict(settings or {})
        self._fingerprinter: Fingerprinter | None = None
        self._calls: defaultdict[str, CallState] = defaultdict(CallState)

    # ---- the job

    def spec(
        self, seeds: Sequence[str] = (), arguments: Mapping[str, str] | None = None, spider: str = "", **settings: Any
    ) -> JobSpec:
        """Return the specification of a job, by default of one without robots.txt and delay."""
        return JobSpec(
            name=self._job,
            spider=spider,
            seeds=list(seeds),
            arguments=dict(arguments or {}),
            settings={"obey_robots": False, "delay_seconds": 0.0, "per_host": 8, **self._settings, **settings},
        )

    async def begin(
        self, spec: JobSpec | None = None, *, fresh: bool = False, sinks: Sequence[str] = (), **settings: Any
    ) -> Begun:
        begun = await self.frontier.begin(spec or self.spec(**settings), fresh=fresh, sinks=sinks)
        if begun is not Begun.RESUMED:
            self._seen.clear()
        await self.check()
        return begun

    async def seeded(self, *names: str, **settings: Any) -> None:
        """Begin a job and end its seeding with these requests."""
        await self.begin(**settings)
        (lease,) = await self.lease("seeder", 1)
        assert lease.work is Work.SEED
        assert await self.end(lease, links=names)

    async def state(self) -> State:
        return (await self.frontier.job()).state

    async def tell(self, command: Command) -> State:
        job = await self.frontier.command(command)
        await self.check()
        return job.state

    async def counts(self) -> Counts:
        return await self.frontier.counts()

    async def check(self) -> None:
        """Check the invariants of the counts."""
        counts, job = await self.frontier.counts(), await self.frontier.job()
        assert counts.seen == len(self._seen), "the counts sum to what was added"
        assert min(counts.queued, counts.delayed, counts.leased) >= 0
        is_open = any(not intake.closed for intake in await self.frontier.intakes())
        over = not job.seeding and not is_open and counts.unfinished == 0
        assert (job.state is State.FINISHED) == over, "finished if and only if it is true"

    # ---- requests

    async def entries(self, names: Iterable[str], **fields: Any) -> list[Entry]:
        if self._fingerprinter is None:
            self._fingerprinter = Fingerprinter((await self.frontier.job()).secret)
        return [self._fingerprinter.entry(Request(url_of(name), **fields)) for name in names]

    async def id(self, name: str) -> int:
        return (await self.entries([name]))[0].id

    async def add(self, *names: str, **fields: Any) -> int:
        """Add requests and return how many were new. ``fields`` are those of the Request: ``priority``, ``seed``, …"""
        return await self.add_entries(await self.entries(names, **fields))

    async def add_entries(self, entries: Sequence[Entry]) -> int:
        new = await self.frontier.add(entries)
        self.remember(entries)
        await self.check()
        return new

    def remember(self, entries: Iterable[Entry]) -> None:
        """Register entries that were added without this client."""
        self._seen.update(entry.id for entry in entries)

    async def trace(self, name: str) -> Trace:
        (entry,) = await self.entries([name])
        trace = await self.frontier.trace(entry.id, entry.host_key)
        assert trace is not None
        return trace

    # ---- leases

    def has_slots(self, worker: str, slots: int) -> None:
        """Make the worker report how many leases it processes at a time from now on."""
        self._calls[worker] = CallState(slots)

    def serves(self, worker: str, *needs: str) -> None:
        """Make the worker report that it can serve these needs from now on."""
        self._calls[worker].needs = needs

    def next_call(self, worker: str) -> Call:
        """Return the ``Call`` of its next call, for a test that calls the frontier directly."""
        return self._calls[worker].next()

    async def grant(self, worker: str = "w", limit: int = EVERYTHING) -> Grant:
        grant = await self.frontier.lease(worker, limit, self._calls[worker].next())
        self._calls[worker].learn(grant)
        assert len(grant.leases) <= limit
        await self.check()
        return grant

    async def lease(self, worker: str = "w", limit: int = EVERYTHING) -> list[Lease]:
        return (await self.grant(worker, limit)).leases

    async def names(self, worker: str = "w", limit: int = EVERYTHING) -> list[str]:
        """Lease requests and return their names."""
        return names_of(await self.lease(worker, limit))

    async def one(self, worker: str = "w") -> Lease:
        """Lease one request."""
        (lease,) = await self.lease(worker, 1)
        return lease

    async def release(self, *leases: Lease, late: bool = False, touched: bool = False) -> None:
        await self.frontier.release(leases, late=late, touched=touched)
        await self.check()

    async def lose(self, worker: str) -> int:
        """Release the leases of a dead worker."""
        lost = await self.frontier.release_worker(worker)
        await self.check()
        return lost

    async def relieve(self, worker: str, page: Lease, pause_seconds: float = 0.0) -> int:
        """Release the other leases of a worker that is blocked by a page."""
        back = await self.frontier.relieve_worker(worker, page, pause_seconds)
        await self.check()
        return back

    # ---- endings

    async def outcome(
        self,
        lease: Lease,
        ending: Ending = Ending.DONE,
        links: Sequence[str] = (),
        items: Sequence[bytes | NewItem] = (),
        **fields: Any,
    ) -> Outcome:
        """Return an outcome. Items given as bytes are records."""
        new_items = [item if isinstance(item, NewItem) else NewItem(item) for item in items]
        return Outcome(lease=lease, ending=ending, links=await self.entries(links), items=new_items, **fields)

    async def commit(self, *outcomes: Outcome, worker: str = "w", want: int = 0) -> Committed:
        committed = await self.frontier.commit(worker, outcomes, want, self._calls[worker].next())
        if committed.grant is not None:
            self._calls[worker].learn(committed.grant)
        for outcome, accepted in zip(outcomes, committed.accepted, strict=True):
            if accepted:
                self.remember(outcome.links)
        await self.check()
        return committed

    async def end(self, lease: Lease, ending: Ending = Ending.DONE, links: Sequence[str] = (), **fields: Any) -> bool:
        """Commit one outcome and return whether it was accepted."""
        committed = await self.commit(await self.outcome(lease, ending, links, **fields))
        return committed.accepted == [True]

    async def end_all(self, leases: Iterable[Lease], ending: Ending = Ending.DONE) -> None:
        """Commit outcomes and assert that all are accepted."""
        committed = await self.commit(*[Outcome(lease=lease, ending=ending) for lease in leases])
        assert all(committed.accepted)

    async def retry(self, lease: Lease, seconds: float = 0.0, error_class: str = "timeout") -> bool:
        return await self.end(lease, Ending.RETRY, retry_seconds=seconds, error_class=error_class, error="too slow")

    async def blocked(self, lease: Lease, retry_after_seconds: float | None = None) -> bool:
        """Commit an answer of 429."""
        news = HostNews(blocked=True, retry_after_seconds=retry_after_seconds)
        return await self.end(lease, Ending.RETRY, status=429, error_class="http_4xx", error="HTTP 429", news=news)

    async def unreachable(self, lease: Lease, error_class: str = "connect") -> bool:
        """Commit a failed connection."""
        news = HostNews(unreachable=True)
        return await self.end(lease, Ending.RETRY, error_class=error_class, error="refused", news=news)

    async def answered(
        self, lease: Lease, latency_seconds: float = 0.1, *, status: int = 200, address: str = ""
    ) -> bool:
        news = HostNews(answered=True, latency_seconds=latency_seconds, address=address)
        return await self.end(lease, status=status, news=news)

    async def open_gate(self, lease: Lease, text: bytes = b"", crawl_delay_seconds: float = 0.0) -> bool:
        """Commit a host's robots.txt."""
        assert lease.work is Work.ROBOTS
        record = RobotsRecord(text, crawl_delay_seconds)
        return await self.end(lease, news=HostNews(answered=True, robots=record))

    # ---- items

    async def records(self, target: str = "out", owner: str = "me") -> list[bytes]:
        """Return the undelivered records of the sink without recording progress."""
        return [item.record for item in await self.items(target, owner)]

    async def items(self, target: str = "out", owner: str = "me", limit: int = EVERYTHING) -> list[Item]:
        items = await self.frontier.items(target, owner, limit)
        assert items is not None, "the sink belongs to somebody else"
        return items


def url_of(name: str) -> str:
    """Return the URL of a short name; a URL stays as it is."""
    host, _, path = name.partition("/")
    return name if "://" in name else f"http://{host}.example/{path}"


def name_of(lease: Lease) -> str:
    """Return the short name: ``a/1`` for a page, ``robots:a`` for a gate, or ``seeding``."""
    if lease.work is Work.SEED:
        return "seeding"
    if lease.work is Work.ROBOTS:
        return "robots:" + lease.host_key.removeprefix("http://").removesuffix(".example")
    return lease.request.url.removeprefix("http://").replace(".example/", "/")


def names_of(leases: Iterable[Lease]) -> list[str]:
    return [name_of(lease) for lease in leases]
