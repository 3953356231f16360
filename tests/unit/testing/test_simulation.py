"""A small simulated cluster: what the large ones of bench/bench_simulation.py show must hold here too."""

from __future__ import annotations

import pytest

from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.settings import Politeness
from skitter.testing.clock import FakeClock
from skitter.testing.simulation import Findings, Simulation, World


async def simulated(world: World) -> Findings:
    clock = FakeClock()
    frontier = memory_frontier("simulation", MemoryStore(clock.of_store()))
    return await Simulation(world, frontier, clock).run()


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_crawl_that_its_delay_limits_is_polite_and_as_fast_as_it_may_be(seed: int) -> None:
    world = World(workers=50, hosts=500, pages=3000, delay_seconds=1.0, seed=seed)
    found = await simulated(world)
    assert found.smallest_gap_seconds >= 1.0
    assert found.most_in_flight <= world.per_host
    # Each host may be asked once in a delay and a start window.
    assert found.pages_per_second > 0.85 * 500 / 1.05
    # Hosts that always have work are served in turn; a slow one may have two in flight and be full.
    assert found.most_pages - found.fewest_pages <= 6


async def test_a_crawl_that_its_workers_limit_is_fair() -> None:
    world = World(workers=20, concurrency=8, hosts=300, pages=6000, delay_seconds=0.0)
    found = await simulated(world)
    assert found.most_in_flight <= world.per_host
    assert found.fewest_pages >= 1
    # None is two bursts ahead of another.
    assert found.most_pages - found.fewest_pages <= 2 * Politeness().burst_pages


async def test_idle_workers_take_turns_in_asking() -> None:
    world = World(workers=200, hosts=400, pages=2000, delay_seconds=1.0)
    found = await simulated(world)
    assert len(found.us_per_page) == len(found.tenth_seconds) == 10
    assert found.tenth_seconds == sorted(found.tenth_seconds)
    # As many calls as pages, or fewer: not one for each worker whenever a host becomes ready.
    assert found.calls < 2 * found.pages
