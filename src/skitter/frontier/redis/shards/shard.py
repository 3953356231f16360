"""One shard of a job: a whole frontier of its hosts, which sends its status with every answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from skitter.errors import FrontierError
from skitter.frontier.contract import FORGET_SECONDS
from skitter.frontier.redis import codec
from skitter.frontier.redis.client import RedisServer, flags
from skitter.frontier.redis.frontier import RedisFrontier
from skitter.frontier.redis.jobs import forget_runs, scan_keys
from skitter.model.lease import Call, Grant, Lease
from skitter.model.outcome import Committed, Outcome
from skitter.model.request import Entry
from skitter.model.worker import WorkerHeartbeat

LEAD = 0
"""The number of the lead, the shard whose record is the truth about the job as a whole."""
_WITH_STATUS = b"status"
"""The first word of an answer that has a status: ``[word, answer, status]`` (with_status in 6_shards.lua)."""
_NO_PERMITS = (0, 2**31)
"""Fills the place of the permits mark, which a shard does not look at: permits are asked of the lead, once a call."""


class ShardStatus(msgspec.Struct, frozen=True, array_like=True):
    """The status of a shard, in the order in which with_status sends it (6_shards.lua)."""

    version: int
    run: int
    state: str
    unfinished: int
    holds: int
    """Leases of every kind."""
    done: int
    leased: int
    allotted: int
    max_pages: int
    """The limit of the whole job; -1: none."""
    seeding: int
    """0: over, 1: nobody has it, 2: somebody has."""
    changes: int
    position: int
    """The position of the newest item."""
    backlog: int
    """Items that some sink lacks."""
    max_outbox_items: int
    permits: int
    top_priority: float | None
    """The highest priority of a host that is ready for requests without a need."""
    suspects: int
    worker_status: tuple[int, int, int] | None
    """Of the worker that asked: its leases here, whether it is alone with one, whether it seeds."""
    goes_first: int
    """Something here, to be leased alone, goes before everything in other shards."""
    short: int
    """More would have been granted if more were allotted."""
    due_seconds: float
    """Until a delayed request or a host that waits may be due; 0 while a host's queue is being buried."""
    sealed: int
    """The number of the seal that is on it, or 0."""
    job: str
    """The beginning of the job's secret, which tells jobs of the same name apart."""
    need_tops: str = ""
    """``NEED:PRIORITY``: the highest priority of a host that is ready for a need; with blanks between them."""
    intakes: int = 0
    """Intakes that are open; at the lead."""
    reigns: str = ""
    """The newest reigns of its server (list_reigns); empty where INFO is forbidden."""
    foreign: int = 0
    """How many links other shards have ever added to it."""

    def top_for(self, needs: Sequence[str]) -> float | None:
        """The highest priority of a host that is ready for a worker with these needs; None: there is none."""
        tops = [] if self.top_priority is None else [self.top_priority]
        for told in self.need_tops.split() if needs else ():
            need, _, top = told.rpartition(":")
            if need in needs:
                tops.append(float(top))
        return max(tops, default=None)

    @property
    def is_idle(self) -> bool:
        return not self.unfinished and not self.seeding and not self.intakes


class ShardAbsentError(Exception):
    """The shard has no record: the job has begun at the lead, and no client has made this shard yet."""


class Shard(RedisFrontier):
    """The methods of the contract for the hosts of one shard, and the steps between shards."""

    def __init__(
        self, server: RedisServer, job_name: str, clock: Callable[[], float] | None, prefix: str, number: int
    ) -> None:
        super().__init__(server, job_name, clock, prefix)
        self.number = number
        self._status: ShardStatus | None = None
        self._status_at = 0.0
        self.visited_at = 0.0
        """When it was last asked for leases, by this process's clock."""
        self.held_by: dict[str, int] = {}
        """How many leases each worker of this client holds here, as far as it is known."""
        self.alone: set[str] = set()
        """Workers that hold a lease here which nothing may be leased beside, as far as it is known."""
        self._seeders: set[str] = set()

    # ---- the status

    @property
    def status(self) -> ShardStatus:
        """The status that came with the last answer."""
        assert self._status is not None, "every shard is asked for its status before it is used"
        return self._status

    @property
    def has_status(self) -> bool:
        return self._status is not None

    @property
    def is_due(self) -> bool:
        """Whether something may have become ready since the last answer."""
        return self._status_at + self.status.due_seconds <= time.monotonic()

    def is_seeded_by(self, worker: str) -> bool:
        """Whether the worker has the seeding, as far as it is known."""
        return self.status.seeding == 2 and worker in self._seeders

    @property
    def life(self) -> str:
        """The run id of its server."""
        return self._server.life

    @property
    def reigns(self) -> str:
        """The newest reigns of its server; where INFO is forbidden, each connection is to another one."""
        return self.status.reigns or self._server.life

    async def refresh_status(self, worker: str = "") -> ShardStatus:
        """Ask for the status; with a worker, also for what it holds here."""
        await self._run("shard_status", worker)
        if worker:
            self._note_worker(worker)
        return self.status

    def _note_worker(self, worker: str) -> None:
        """Note what the worker that asked holds here."""
        if (found := self.status.worker_status) is None:
            return
        held, alone, seeds = found
        self.held_by[worker] = held
        (self.alone.add if alone else self.alone.discard)(worker)
        (self._seeders.add if seeds else self._seeders.discard)(worker)

    def _absent(self) -> Exception:
        return super()._absent() if self.number == LEAD else ShardAbsentError()

    async def _call(self, name: str, *arguments: Any) -> Any:
        answer = await super()._call(name, *arguments)
        if isinstance(answer, list) and answer and answer[0] == _WITH_STATUS:
            _, answer, fields = answer
            self._status = msgspec.convert(
                [field.decode() if isinstance(field, bytes) else field for field in fields], ShardStatus, strict=False
            )
            self._status_at = time.monotonic()
        return answer

    # ---- reading

    async def check(self) -> None:
        """Refuse a server that would lose parts of the job."""
        await self._server.check()

    async def count_items(self) -> int:
        """The number of all items that the shard ever had."""
        found = await self._record()
        return found.position if found else 0

    async def report_and_changes(self, hosts: int, queues: int) -> tuple[Sequence[Any], int]:
        """The answer that ``report`` decodes, and the number of changes so far."""
        answer = await self.report_answer(hosts, queues)
        return answer, self.status.changes

    async def stored_record(self) -> dict[str, Any]:
        """The record as it is stored, with what only scripts read."""
        record: dict[str, Any] = msgspec.msgpack.decode(await self._server.command("GET", self._key))
        return record

    async def stored_sinks(self) -> dict[str, int]:
        """The position up to which each target's items may be forgotten here."""
        name = f"{self._prefix}{self.status.run}:sinks"
        flat = await self._server.command("HGETALL", name)
        return {
            target.decode(): codec.decode_sink(sink).position
            for target, sink in zip(flat[::2], flat[1::2], strict=True)
        }

    async def stored_targets(self) -> dict[str, list[int] | None]:
        """The positions of each target in all shards, None before they are known; asked of the lead."""
        _, targets = await self._run("targets")
        return {target[0].decode(): target[1] for target in targets}

    # ---- work

    async def visit(
        self, worker: str, limit: int, call: Call, *, version: int, elsewhere: int, seeds: bool, floor: float | None
    ) -> tuple[Grant, bool]:
        """Lease, for a worker that also holds leases of other shards. A limit of 0 reaps and wakes requests only.

        Answers the grant, and whether it is that of an earlier visit in the same call.
        """
        others = (version, elsewhere, *flags([seeds]), "" if floor is None else f"{floor:.0f}", *flags([call.again]))
        async with self._token_of(call) as token:
            state = (*_NO_PERMITS, token, 0, " ".join(call.needs), call.round_trip_seconds)
            answer = await self._run("lease", worker, limit, *state, *others)
        self._note_worker(worker)
        grant = codec.read_grant(answer, "", call)
        self.visited_at = time.monotonic()
        return grant, answer[-1] == 1

    async def commit_relying(
        self, worker: str, outcomes: Sequence[Outcome], want: int, call: Call, relied: bytes
    ) -> Committed:
        committed = await super().commit_relying(worker, outcomes, want, call, relied)
        self._note_worker(worker)
        return committed

    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        await super().release(leases, late=late, touched=touched)
        # The answer does not say whose they were.
        self.held_by.clear()

    async def fence(self, leases: Sequence[Lease]) -> tuple[str, int]:
        """Which leases are current, as a text of 1 and 0, and their run."""
        arguments: list[Any] = []
        codec.pack_leases(arguments, leases)
        answer: bytes = await self._run("check_leases", *arguments)
        return answer.decode(), self.status.run

    async def add_links(self, run: int, permits: int, entries: Sequence[Entry]) -> str:
        """Which were new, as a text of 1 and 0; or why nothing was added (add_links.lua)."""
        arguments: list[Any] = [run, permits]
        codec.pack_entries(arguments, entries)
        answer: bytes = await self._run("add_links", *arguments)
        return answer.decode()

    async def record_worker(self, worker: str, heartbeat: WorkerHeartbeat | None) -> list[bytes]:
        """Record that a worker was heard from; the lead keeps its heartbeat. Answers those who are long silent here."""
        packed = msgspec.msgpack.encode(heartbeat) if heartbeat is not None and self.number == LEAD else b""
        silent: list[bytes] = await self._run(
            "record_worker", worker, FORGET_SECONDS, *flags([heartbeat is None]), packed
        )
        return silent

    async def silent_workers(self, workers: Iterable[bytes], *, forget: bool = False) -> list[bytes]:
        """Those of the workers who have long been silent here too, and hold nothing; ``forget`` forgets them."""
        silent: list[bytes] = await self._run("forget_workers", "forget" if forget else "ask", FORGET_SECONDS, *workers)
        return silent

    def forget_worker(self, worker: str) -> None:
        self.held_by.pop(worker, None)
        self.alone.discard(worker)
        self._seeders.discard(worker)

    # ---- steps between shards

    async def read_lead_state(self, version: int) -> bytes:
        """The run, state and settings that the others shall follow; asked of the lead."""
        lead_state: bytes = await self._run("read_lead", version)
        return lead_state

    async def follow(self, lead_state: bytes) -> None:
        """Take over the lead's run, state and settings."""
        left = await self._call("follow", self.number, lead_state, *flags([False]))
        while left == -1:
            await self._sweep()
            left = await self._call("follow", self.number, lead_state, *flags([True]))
        if left == -2:
            raise FrontierError(
                f"a part of job {self._name} is missing: shard {self.number}, on {self._server.address}",
                hint="its server has lost it; --fresh starts a new run, skitter drop removes the job",
            )
        if left:
            await forget_runs(self._server, self._prefix, keep=self.status.run)

    async def _sweep(self) -> None:
        """Remove what an earlier job of the same name has left."""
        async for keys in scan_keys(self._server, self._prefix):
            await self._call("remove_leftovers", *keys)

    async def step(self, name: str, *arguments: Any) -> int:
        """Run a script that answers a number."""
        answer: int = await self._run(name, *arguments)
        return answer

    async def ask(self, name: str, *arguments: Any) -> Any:
        """Run any other script."""
        return await self._run(name, *arguments)
