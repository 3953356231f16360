"""The frontier contract as tests: one suite that every backend runs. Needs pytest and pytest-asyncio.

A backend's test module gives a store for each test and subclasses the suite::

    class MyStore(ContractStore):
        def connect(self, job): return my_frontier(self.url, job)
        def advance(self, seconds): self.clock.advance(seconds)

    @pytest_asyncio.fixture
    async def store(tmp_path):
        store = MyStore(tmp_path)
        yield store
        await store.close()

    class TestMyFrontier(FrontierContract): ...

Every test is named after what is promised; ``skitter.frontier.contract`` numbers the promises.
"""

from __future__ import annotations

import pytest

_ROOMS = (
    "client store adding order bursts politeness retries gate backoff giving_up budgets fencing losses seeding life"
    " outbox reading resent workers"
).split()
# Before they are imported, so that a failed assert shows its values here as in any test.
pytest.register_assert_rewrite(*(f"{__name__}.{room}" for room in _ROOMS))

from skitter.testing.contract import (  # noqa: E402 - see above
    adding,
    addresses,
    backoff,
    budgets,
    bursts,
    fencing,
    gate,
    giving_up,
    life,
    losses,
    order,
    outbox,
    politeness,
    reading,
    resent,
    retries,
    seeding,
    workers,
)
from skitter.testing.contract.client import Client  # noqa: E402
from skitter.testing.contract.store import ContractStore  # noqa: E402

__all__ = ["Client", "ContractStore", "FrontierContract"]


@pytest.mark.asyncio
class FrontierContract(
    adding.Adding,
    adding.Permits,
    order.Order,
    bursts.Bursts,
    bursts.Pacing,
    politeness.Politeness,
    politeness.AdaptiveDelay,
    politeness.Slots,
    addresses.Addresses,
    retries.Retries,
    gate.Gate,
    gate.BrokenGate,
    gate.LastCopy,
    backoff.Blocks,
    backoff.Unreachable,
    giving_up.GivingUp,
    giving_up.Forgiven,
    giving_up.Unhurried,
    budgets.HostBudgets,
    budgets.TrapBudgets,
    fencing.Commits,
    fencing.Told,
    fencing.Parts,
    losses.Expiry,
    losses.DeadWorkers,
    losses.HeldWorkers,
    losses.Killers,
    seeding.Seeding,
    life.Beginning,
    life.States,
    life.End,
    life.MaxPages,
    outbox.Outbox,
    reading.Tracing,
    reading.Reviving,
    reading.Reporting,
    reading.Polling,
    resent.Resent,
    resent.PassedOn,
    workers.Workers,
):
    """All promises. Each test gets the fixture ``store``, an empty ``ContractStore``."""
