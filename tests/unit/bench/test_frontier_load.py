"""What a frontier is offered when it is measured alone, and that a wrong answer is no figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from skitter.bench import frontier_bench
from skitter.bench.bench_frontiers import Store
from skitter.bench.frontier_load import BATCH, Load
from skitter.errors import SkitterError
from skitter.frontier.memory import memory_frontier
from skitter.model.outcome import Committed
from skitter.model.request import Entry


class Watched:
    """A frontier that remembers what it was given, and can be made to lie."""

    def __init__(self) -> None:
        self._frontier = memory_frontier("bench")
        self.added: list[Entry] = []
        self.links: list[int] = []
        self.loses = self.refuses = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frontier, name)

    async def add(self, entries: Sequence[Entry]) -> int:
        self.added += entries
        return await self._frontier.add(entries[self.loses :])

    async def commit(self, worker: str, outcomes: Sequence[Any], want: int = 0, **call: Any) -> Committed:
        self.links += [len(outcome.links) for outcome in outcomes]
        answer = await self._frontier.commit(worker, outcomes, want, **call)
        return Committed([False] * len(outcomes), answer.grant) if self.refuses else answer


async def begun(frontier: Any, duplicates: int = 0, hosts: int = 10) -> Load:
    load = Load(frontier, hosts, duplicates=duplicates)
    await load.begin("bench")
    return load


@pytest.mark.parametrize(("duplicates", "new"), [(0, 1000), (50, 500), (99, 10)])
async def test_the_share_of_known_urls_is_as_asked(duplicates: int, new: int) -> None:
    frontier = Watched()
    load = await begun(frontier, duplicates)
    times = [await load.fill(300), await load.fill(700)]
    assert [each.urls for each in times] == [300, 700]
    counts = Counter(entry.id for entry in frontier.added)
    assert (counts.total(), len(counts), load.queued) == (1000, new, new)
    assert (await frontier.counts()).queued == new


@pytest.mark.parametrize(("duplicates", "links"), [(0, 1), (50, 2), (99, 100)])
async def test_a_worker_keeps_the_queue_at_its_length(duplicates: int, links: int) -> None:
    frontier = Watched()
    load = await begun(frontier, duplicates)
    await load.fill(20_000)
    before = await frontier.counts()
    # The first lease is the seeding, which stays leased.
    assert (await load.cycle(1)).urls == BATCH - 1
    times = await load.cycle(3 * BATCH)
    leased, committed = await load.lease_and_commit(2 * BATCH)
    after = await frontier.counts()
    assert (times.urls, leased.urls, committed.urls) == (3 * BATCH, 2 * BATCH, 2 * BATCH)
    assert (after.done, after.queued) == (6 * BATCH - 1, before.queued)
    assert Counter(frontier.links) == {links: 4 * BATCH - 1, 0: 2 * BATCH}


async def test_urls_are_spread_over_the_hosts() -> None:
    frontier = Watched()
    await (await begun(frontier, hosts=7)).fill(70)
    assert set(Counter(entry.host_key for entry in frontier.added).values()) == {10}


async def test_a_frontier_that_loses_or_refuses_has_no_figure() -> None:
    frontier = Watched()
    load = await begun(frontier)
    await load.fill(100)
    frontier.refuses = True
    with pytest.raises(SkitterError, match="a commit was refused"):
        await load.cycle(1)
    frontier.loses = True
    with pytest.raises(SkitterError, match="63 of 64 new URLs were added"):
        await load.fill(BATCH)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_rung_is_measured(kind: str, tmp_path) -> None:
    store = Store("memory:" if kind == "memory" else f"sqlite:{tmp_path / 'job.db'}", "bench")
    case = frontier_bench.BenchCase(store=store, requests=1000, hosts=3, duplicates=0, rounds=2)
    row = await frontier_bench.measure_case(case)
    assert (row.queued, row.holds) == (1000, "memory" if kind == "memory" else "disk")
    for figure in (row.adds_per_second, row.leases_per_second, row.commits_per_second, row.urls_per_second):
        assert 0 < figure.low <= figure.median <= figure.high
    # The slowest round gives both, in four digits. The medians of two rounds that differ much are no inverses.
    assert row.urls_per_second.low == pytest.approx(1e6 / row.microseconds_per_url.high, rel=0.002)
    if kind == "sqlite":
        assert row.bytes_per_url is not None
        assert 50 < row.bytes_per_url < 1000


def test_a_ladder_has_every_combination_that_there_can_be() -> None:
    cases = frontier_bench.bench_cases([10, 1000], [1, 100], [0, 50])
    assert cases == [(10, 1, 0), (10, 1, 50), (1000, 1, 0), (1000, 1, 50), (1000, 100, 0), (1000, 100, 50)]
