"""Pair of frontiers that get the same calls, and a model of both: the leases held, and checks of a grant."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis.stateful import RuleBasedStateMachine

from skitter.frontier.contract import Frontier
from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.model.host import Host, Phase
from skitter.model.job import Trace
from skitter.model.lease import Grant, Lease, Work
from skitter.policy import host_budgets
from skitter.policy.politeness import default_pace
from skitter.settings import Settings
from skitter.testing.agreement.grants import Ready, Rooms, by_host, check_order, comparable, rest_of
from skitter.testing.agreement.strategies import (
    ADDRESSES,
    HOST_OF,
    LEASE_SECONDS,
)
from skitter.testing.clock import FakeClock

NO_LIMIT = Rooms()
T = TypeVar("T")
Key = tuple[Work, int]


class Pair(RuleBasedStateMachine):
    """The oracle and the other frontier. Leases are kept in pairs, because each frontier has its own."""

    same_choice = True
    """Whether the other backend breaks ties among equally ready hosts as the oracle does."""
    same_limit = True
    """Whether a grant of the other backend ends at the same lease where ``max_pages`` cuts it short."""
    same_rate_samples = True
    """Whether the other backend takes its samples for the current rate at the same commits as the oracle."""
    same_pieces = True
    """Whether one call of the other backend fails as many requests of given-up hosts as one of the oracle. If False, it
    may fail more: ``reap`` is then called on both until none are left before they are compared."""
    order_across_hosts = True
    """Whether the other backend knows which of all its hosts was served least recently, and which of all its items and
    failed requests came first. If False, the machine also avoids lost leases: the order of two suspects would
    differ."""

    adds_seeds = True
    """Whether requests are also added as seeds. A Bloom filter is not checked for seeds: done ones would be new."""
    more_settings: Mapping[str, Any] = {}
    """Settings that every job of the machine has, such as another ``dedup``."""
    settings: dict[str, Any]
    """Settings of the job, set when it begins."""

    def make_other(self, folder: Path) -> Frontier:
        """Return an empty frontier for the job ``job`` that uses ``self.clock``; nothing else uses the folder."""
        raise NotImplementedError

    def comparable_trace(self, trace: Trace) -> Trace:
        """Return the part of a trace to compare, for a backend that keeps less of a request than the oracle does."""
        return trace

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="skitter-"))
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock.of_store())
        self.oracle: Frontier = memory_frontier("job", self.store)
        self.patch = pytest.MonkeyPatch()
        self.other = self.make_other(self.folder)
        self.held: dict[Key, tuple[Lease, Lease]] = {}
        self.holder: dict[Key, str] = {}
        self.deadline: dict[Key, float] = {}
        self.stale: list[tuple[Lease, Lease]] = []
        self.known: set[int] = set()
        self.due_at: dict[int, float] = {}
        """Time at which each page with a record is due."""
        self.last_epoch = 0
        self.calls = 0
        self.has_other_budget = False
        self.run = 1
        self.served: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.in_burst: set[str] = set()

    def oracle_time(self) -> float:
        """Return the time as the oracle reads it: two clocks that add up the same steps differ in the last digit."""
        return self.store.tables.clock()

    def teardown(self) -> None:
        self.patch.undo()
        self.loop.run_until_complete(self.other.close())
        self.loop.close()
        shutil.rmtree(self.folder)

    # ---- calls of both frontiers

    def each(self, call: Callable[[Frontier, int], Awaitable[T]]) -> tuple[T, T]:
        async def run() -> tuple[T, T]:
            return await call(self.oracle, 0), await call(self.other, 1)

        return self.loop.run_until_complete(run())

    def agreed(self, call: Callable[[Frontier, int], Awaitable[T]]) -> T:
        oracle, other = self.each(call)
        assert oracle == other
        return oracle

    # ---- time and leases

    def advance(self, seconds: float) -> None:
        while not self.order_across_hosts and seconds > LEASE_SECONDS / 2:
            self.forget_lost()
            self.clock.advance(LEASE_SECONDS / 2)
            seconds -= LEASE_SECONDS / 2
        if not self.order_across_hosts:
            self.forget_lost()
        self.clock.advance(seconds)

    def reap(self) -> None:
        self.agreed(lambda frontier, _: frontier.reap())
        self.forget_lost()
        self.dig()

    def dig(self) -> None:
        while not self.same_pieces and any(host.given_up is not None for host in self.hosts()):
            self.agreed(lambda frontier, _: frontier.reap())
            self.forget_lost()

    def room_of(self, host: Host) -> int:
        """Return how many more pages of a host may be in flight.

        A host that was full before its budget grew gets more only when one of its requests in flight has ended.
        """
        if host.phase is Phase.FULL or (host.halt and host.run == self.run):
            return 0
        of_job = self.budgets
        budget = None if of_job is None else of_job.of(host)
        # If the delay follows the latency, the first page is fetched alone to measure it.
        alone = self.settings["target_concurrency"] is not None and not host.latency_seconds
        politeness = Settings.from_layers([("the job", self.settings)]).politeness
        room = 1 if alone else politeness.per_host or default_pace(host, politeness)[1]
        return (room if budget is None else min(room, budget - host.pages)) - host.in_flight

    @property
    def budgets(self) -> host_budgets.Budgets | None:
        return host_budgets.of_job(Settings.from_layers([("the job", self.settings)]))

    def rooms(self) -> Rooms:
        """Return the free slots of each address, as the oracle has them."""
        per_ip = self.settings["per_ip"]
        if per_ip is None:
            return NO_LIMIT
        loads = self.store.tables.loads(ADDRESSES)
        left = {address: per_ip - loads.get(address, 0) for address in ADDRESSES}
        return Rooms({host.key: host.address for host in self.hosts()}, left)

    def hosts(self) -> list[Host]:
        """Return the hosts as the oracle has them."""
        return list(self.store.tables.hosts(sorted(set(HOST_OF.values()))).values())

    def forget_lost(self) -> None:
        """Renew all leases to find out which are lost; renewing none would not show it."""
        self.renew(list(self.held))

    def renew(self, keys: Sequence[Key]) -> None:
        """Renew each lease as its worker, and forget those that are lost."""
        for worker in sorted({self.holder[key] for key in keys}):
            self.renew_for(worker, [key for key in keys if self.holder[key] == worker])

    def renew_for(self, worker: str, keys: Sequence[Key]) -> None:
        pairs = [self.held[key] for key in keys]
        kept = self.agreed(lambda frontier, which: frontier.renew(worker, [pair[which] for pair in pairs]))
        for key, is_kept in zip(keys, kept, strict=True):
            if is_kept:
                self.deadline[key] = self.clock() + LEASE_SECONDS
            else:
                self.ends(key)

    def ends(self, key: Key) -> None:
        if key in self.held:
            self.stale.append(self.held.pop(key))

    # ---- checks of a grant

    def take(
        self,
        worker: str,
        grants: tuple[Grant, Grant],
        limit: int,
        ready: Ready,
        rooms: Rooms = NO_LIMIT,
        *,
        shares: bool = False,
    ) -> None:
        oracle, other = grants
        rest, others = rest_of(oracle), rest_of(other)
        if not self.same_pieces:
            # A shard lists only the workers that have asked it.
            assert 0 <= others.workers <= rest.workers
            others = msgspec.structs.replace(others, workers=rest.workers)
        if not self.same_pieces and not oracle.ask_again_seconds:
            # The other backend may have failed more requests of given-up hosts by now.
            others = msgspec.structs.replace(
                others, ask_again_seconds=0.0, state=rest.state, blocked_by=rest.blocked_by
            )
        if not self.same_pieces and len(oracle.leases) == limit:
            # A worker with a full grant has not asked every shard, and need not know when to ask again.
            others = msgspec.structs.replace(
                others, ask_again_seconds=rest.ask_again_seconds, blocked_by=rest.blocked_by
            )
        assert rest == others
        assert by_host(oracle) == by_host(other)
        if self.same_choice:
            assert list(map(comparable, oracle.leases)) == list(map(comparable, other.leases))
        for grant, served in zip(grants, self.served, strict=True):
            assert len(grant.leases) <= limit
            in_order = self.order_across_hosts or grant is oracle
            check_order(grant, ready, rooms, served if in_order else None, self.in_burst, shares=shares)
        for one, two in zip(oracle.leases, sorted(other.leases, key=self.position_in(oracle)), strict=True):
            key = (one.work, one.id)
            if key in self.held:
                assert self.deadline[key] <= self.clock(), "granted while it was held"
                self.ends(key)
            assert one.epoch > self.last_epoch
            self.last_epoch = one.epoch
            self.held[key], self.holder[key] = (one, two), worker
            self.deadline[key] = one.deadline
        maximum = self.settings["max_pages"]
        if maximum is not None and any(lease.work is Work.PAGE for lease in oracle.leases):
            counts = self.agreed(lambda frontier, _: frontier.counts())
            assert counts.done + counts.leased <= maximum

    @staticmethod
    def position_in(grant: Grant) -> Callable[[Lease], int]:
        keys = [(lease.work, lease.id) for lease in grant.leases]
        return lambda lease: keys.index((lease.work, lease.id))
