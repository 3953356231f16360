"""Test suite for the frontier contract, which every backend runs. Needs pytest and pytest-asyncio.

The test module of a backend provides a store for each test and subclasses the suite::

    class MyStore(ContractStore):
        def connect(self, job): return my_frontier(self.url, job)
        def advance(self, seconds): self.clock.advance(seconds)

    @pytest_asyncio.fixture
    async def store(tmp_path):
        store = MyStore(tmp_path)
        yield store
        await store.close()

    class TestMyFrontier(FrontierContract): ...

Every test is named after a promise; ``skitter.frontier.contract`` numbers the promises.
"""

from __future__ import annotations

import pytest

_MODULES = (
    "backoff bursts changed_settings client close_claims counters dedup delivered fencing gate given_up_hosts"
    " host_budgets host_commands intakes jars job_states lost_leases needs order outbox per_ip politeness proxies"
    " recrawl reports resent_calls retries seeding sessions sharing store workers"
).split()
# Registered before the import, so that a failed assert shows its values here as in any test.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from skitter.testing.contract import (  # noqa: E402 - see above
    backoff,
    bursts,
    changed_settings,
    close_claims,
    counters,
    dedup,
    delivered,
    fencing,
    gate,
    given_up_hosts,
    host_budgets,
    host_commands,
    intakes,
    jars,
    job_states,
    lost_leases,
    needs,
    order,
    outbox,
    per_ip,
    politeness,
    proxies,
    recrawl,
    reports,
    resent_calls,
    retries,
    seeding,
    sessions,
    sharing,
    workers,
)
from skitter.testing.contract.client import Client  # noqa: E402
from skitter.testing.contract.store import ContractStore  # noqa: E402

__all__ = ["Client", "ContractStore", "EveryCall", "FrontierContract"]


@pytest.mark.asyncio
class FrontierContract(
    dedup.Dedup,
    dedup.Permits,
    delivered.Delivered,
    order.Order,
    bursts.Bursts,
    bursts.Pacing,
    sharing.Sharing,
    needs.Needs,
    needs.NeedsOfOthers,
    needs.KeptNeeds,
    politeness.Politeness,
    politeness.DefaultPace,
    politeness.AdaptiveDelay,
    politeness.Slots,
    per_ip.AddressLimits,
    proxies.Pool,
    proxies.ProxyChoice,
    proxies.ProxyHealth,
    proxies.ProxyBans,
    retries.Retries,
    gate.Gate,
    gate.BrokenGate,
    gate.LastCopy,
    backoff.Blocks,
    backoff.Unreachable,
    given_up_hosts.BuriedQueues,
    given_up_hosts.InterruptedBurials,
    given_up_hosts.BurialsByOthers,
    host_budgets.HostBudgets,
    host_budgets.TrapBudgets,
    host_commands.PausedHosts,
    host_commands.HostsGivenUpByCommand,
    host_commands.HostLists,
    fencing.Commits,
    fencing.CommitAnswers,
    fencing.Parts,
    lost_leases.Expiry,
    lost_leases.DeadWorkers,
    lost_leases.HeldWorkers,
    lost_leases.PagesThatKill,
    seeding.Seeding,
    job_states.Begin,
    job_states.States,
    job_states.End,
    job_states.MaxPages,
    changed_settings.ChangedSettings,
    changed_settings.RememberedChanges,
    close_claims.CloseClaims,
    counters.Counters,
    outbox.Outbox,
    intakes.Intakes,
    intakes.IntakeReaders,
    jars.Jars,
    sessions.Sessions,
    reports.Traces,
    reports.Revival,
    reports.Reports,
    reports.NarrowReads,
    recrawl.Recrawl,
    resent_calls.ResentCalls,
    resent_calls.ForwardedCalls,
    workers.Workers,
    workers.DistinctUrls,
):
    """Test suite for the frontier contract. Each test uses the fixture ``store``, an empty ``ContractStore``."""


@pytest.mark.asyncio
class EveryCall(
    fencing.Commits,
    fencing.Parts,
    host_commands.PausedHosts,
    host_commands.HostsGivenUpByCommand,
    host_commands.HostLists,
    intakes.Intakes,
    jars.Jars,
    job_states.Begin,
    lost_leases.HeldWorkers,
    outbox.Outbox,
    proxies.Pool,
    proxies.ProxyHealth,
    recrawl.Recrawl,
    reports.NarrowReads,
    reports.Reports,
    reports.Revival,
    reports.Traces,
    resent_calls.ForwardedCalls,
    resent_calls.ResentCalls,
    seeding.Seeding,
    sessions.Sessions,
    workers.DistinctUrls,
    workers.Workers,
):
    """Parts of the suite that cover every call and every answer.

    For clients that reach a store by another way, if the store itself is tested with all of ``FrontierContract``.
    """
