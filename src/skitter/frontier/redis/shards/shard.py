"""One shard of a job: a whole frontier of its hosts, which tells with every answer where it stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from skitter.errors import FrontierError
from skitter.frontier.books import require_job
from skitter.frontier.contract import FORGET_SECONDS
from skitter.frontier.redis import codec
from skitter.frontier.redis.client import RedisServer, flags
from skitter.frontier.redis.frontier import RedisFrontier
from skitter.frontier.redis.jobs import forget_runs, scan_keys
from skitter.model.lease import Grant, Lease
from skitter.model.outcome import Committed, Outcome
from skitter.model.request import Entry
from skitter.model.worker import WorkerCard

STANDING_FIELDS = 23
LEAD = 0
"""The shard whose record is the truth about the job as a whole."""
_NO_PERMITS = (0, 2**31)
"""Said to a shard that is asked for leases: permitted host keys are asked for apart, at the lead."""


class ShardStatus(msgspec.Struct, frozen=True, array_like=True):
    """Where a shard stands (6_shards.lua), in the order in which it is told."""

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
    """Of the whole job; -1: any number."""
    seeding: int
    """0: over, 1: nobody has it, 2: somebody has."""
    changes: int
    position: int
    """Of the newest item."""
    backlog: int
    """Items that some sink lacks."""
    max_outbox_items: int
    permits: int
    top: float | None
    """The highest priority of a host that is ready."""
    suspects: int
    of_worker: tuple[int, int, int] | None
    """Of the worker that asked: its leases here, whether it is alone with one, whether it seeds."""
    goes_first: int
    """Something here, to be leased alone, goes before everything in other shards."""
    short: int
    """More would have been granted if more were allotted."""
    due_seconds: float
    """Until a delayed request or a host that waits may be due; 0 while a host's queue is being buried."""
    sealed: int
    """The seal that is on it, or 0."""
    job: str
    """Tells jobs of the same name apart: the beginning of its secret."""

    @property
    def idle(self) -> bool:
        return not self.unfinished and not self.seeding


class ShardAbsentError(Exception):
    """The shard has no record: its job has begun at the lead, and nobody has told this shard yet."""


class Shard(RedisFrontier):
    """What the methods of the contract do for the hosts of one shard, and the steps between shards."""

    def __init__(
        self, server: RedisServer, job_name: str, clock: Callable[[], float] | None, prefix: str, number: int
    ) -> None:
        super().__init__(server, job_name, clock, prefix)
        self.number = number
        self.standing: ShardStatus | None = None
        self._stood_at = 0.0
        self.visited_at = 0.0
        """When it was last asked for leases, by this process's clock."""
        self.held_by: dict[str, int] = {}
        """How many leases each worker of this client holds here, as far as it is known."""
        self.alone: set[str] = set()
        self._seeders: set[str] = set()
        self._shards_and_items = (1, 0)

    @property
    def present(self) -> ShardStatus:
        """Where it stood when it last answered."""
        assert self.standing is not None, "every shard is asked before it is judged"
        return self.standing

    @property
    def is_due(self) -> bool:
        """Something may have become ready there since it was last asked."""
        return self._stood_at + self.present.due_seconds <= time.monotonic()

    def is_seeded_by(self, worker: str) -> bool:
        """As far as it is known."""
        return self.present.seeding == 2 and worker in self._seeders

    @property
    def life(self) -> str:
        return self._server.life

    async def _split(self) -> tuple[int, int]:
        return self._shards_and_items

    def is_to_be(self, shards: int, items: int) -> None:
        """What ``begin`` will tell the lead."""
        self._shards_and_items = (shards, items)

    async def _run(self, name: str, *arguments: Any) -> Any:
        answer = await self._call(name, *arguments)
        if answer is None:
            if self.number != LEAD:
                raise ShardAbsentError
            require_job(None, self._name)
        return answer

    async def _call(self, name: str, *arguments: Any) -> Any:
        answer = await super()._call(name, *arguments)
        if isinstance(answer, list) and len(answer) == 2 and isinstance(answer[1], list):
            told, fields = answer
            if len(fields) == STANDING_FIELDS:
                self.standing = msgspec.convert(
                    [field.decode() if isinstance(field, bytes) else field for field in fields],
                    ShardStatus,
                    strict=False,
                )
                self._stood_at = time.monotonic()
                return told
        return answer

    def _note(self, worker: str) -> None:
        """What the worker that asked holds here."""
        if (of_worker := self.present.of_worker) is None:
            return
        held, alone, seeds = of_worker
        self.held_by[worker] = held
        (self.alone.add if alone else self.alone.discard)(worker)
        (self._seeders.add if seeds else self._seeders.discard)(worker)

    # ---- asking

    async def stand(self, worker: str = "") -> ShardStatus:
        await self._run("standing", worker)
        if worker:
            self._note(worker)
        return self.present

    async def check(self) -> None:
        """Refuse a server that would lose parts of the job."""
        await self._server.check()

    async def record(self) -> codec.JobRecord:
        found = await self._row()
        if found is None:
            if self.number != LEAD:
                raise ShardAbsentError
            require_job(None, self._name)
            raise AssertionError("as_job raises for a job that does not exist")
        return codec.decode_record(found[0])

    async def count_items(self) -> int:
        """All that it ever had."""
        found = await self._row()
        return codec.decode_record(found[0]).position if found else 0

    async def report_answer(self) -> tuple[Sequence[Any], int]:
        """What ``reading.report`` reads, and the changes so far."""
        answer: Sequence[Any] = await self._run("report")
        return answer, self.present.changes

    async def count_dead(self, error_class: str) -> int:
        run = (await self.stand()).run
        name = f"dead:{error_class}" if error_class else "dead"
        count: int = await self._server.command("ZCARD", f"{self._prefix}{run}:{name}")
        return count

    # ---- work

    async def visit(
        self, worker: str, limit: int, *, version: int, elsewhere: int, seeds: bool, floor: float | None
    ) -> Grant:
        """Lease, for a worker that also works for other shards."""
        others = (version, elsewhere, *flags([seeds]), "" if floor is None else f"{floor:.0f}")
        async with self._turn:
            answer = await self._run("lease", worker, limit, *_NO_PERMITS, self._token(), *others)
        self._note(worker)
        grant = codec.read_grant(answer, "")
        self.visited_at = time.monotonic()
        return grant

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0) -> Committed:
        committed = await super().commit(worker, outcomes, want)
        self._note(worker)
        return committed

    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        await super().release(leases, late=late, touched=touched)
        # Whose they were is not told.
        self.held_by.clear()

    async def fence(self, leases: Sequence[Lease]) -> tuple[str, int]:
        """Which leases are current, as a text of 1 and 0, and the run in which they are."""
        arguments: list[Any] = []
        codec.pack_leases(arguments, leases)
        answer: bytes = await self._run("fence", *arguments)
        return answer.decode(), self.present.run

    async def add_links(self, run: int, permits: int, entries: Sequence[Entry]) -> str:
        """Which were new, as a text of 1 and 0; or why nothing was added (links.lua)."""
        arguments: list[Any] = [run, permits]
        codec.pack_entries(arguments, entries)
        answer: bytes = await self._run("links", *arguments)
        return answer.decode()

    async def hear_of(self, worker: str, card: WorkerCard | None) -> list[bytes]:
        """A worker has told something; the lead keeps its card. Answers those who have been silent for long here."""
        told = msgspec.msgpack.encode(card) if card is not None and self.number == LEAD else b""
        silent: list[bytes] = await self._run("tell", worker, FORGET_SECONDS, *flags([card is None]), told)
        return silent

    async def silent(self, workers: Iterable[bytes], *, forget: bool = False) -> list[bytes]:
        """Those of them who have been silent for long here too, and hold nothing; ``forget`` forgets them."""
        silent: list[bytes] = await self._run("forget", "forget" if forget else "ask", FORGET_SECONDS, *workers)
        return silent

    def forget_worker(self, worker: str) -> None:
        self.held_by.pop(worker, None)
        self.alone.discard(worker)
        self._seeders.discard(worker)

    # ---- steps between shards

    async def told_to_others(self, version: int) -> bytes:
        """Of the lead: what the others are to follow."""
        told: bytes = await self._run("lead", version)
        return told

    async def follow(self, told: bytes) -> None:
        """Take over what the lead has told."""
        left = await self._call("follow", self.number, told, *flags([False]))
        while left == -1:
            await self._sweep()
            left = await self._call("follow", self.number, told, *flags([True]))
        if left == -2:
            raise FrontierError(
                f"a part of job {self._name} is gone: shard {self.number}, on {self._server.address}",
                hint="its server has lost it; --fresh begins a new run, skitter drop removes the job",
            )
        if left:
            await forget_runs(self._server, self._prefix, keep=self.present.run)

    async def _sweep(self) -> None:
        async for keys in scan_keys(self._server, self._prefix):
            await self._call("sweep", *keys)

    async def step(self, name: str, *arguments: Any) -> int:
        """A step that is answered by a number."""
        answer: int = await self._run(name, *arguments)
        return answer

    async def ask(self, name: str, *arguments: Any) -> Any:
        """Any other step."""
        return await self._run(name, *arguments)
