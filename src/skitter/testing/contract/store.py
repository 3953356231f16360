"""The store of one test, which a backend implements for the contract suite: its clients and its clock."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from skitter.errors import JobError, VanishedError
from skitter.frontier.contract import Frontier
from skitter.testing.contract.client import Client

REAL_SECONDS = 2.0
"""A test on a clock that it does not control really waits this long, and no longer."""


class ContractStore:
    """Subclass it, and give it to the suite as the fixture ``store``: an empty one for each test.

    A server whose own clock decides sets ``controls_time`` to False and says why in ``time_reason``:
    short waits are then real, and tests that need longer ones are skipped with that reason.

    A store that keeps nothing of a request that is done or redirected but its identity sets ``keeps_history``
    to False and says why in ``history_reason``: the trace of such a request is then ``ended_state`` and tells no more.

    A store whose hosts are in several places, each with an order of its own, sets ``order_across_hosts`` to False and
    says why in ``order_reason``: priorities still go before, and each place has its turn, but which of two equal hosts
    is served first is promised only for hosts in the same place.

    A store that grants a worker all there is, whoever else is short, sets ``shares_work`` to False and says why in
    ``sharing_reason``; one that refuses to hand out sessions, ``hands_out_sessions`` and ``sessions_reason``.
    """

    controls_time = True
    time_reason = ""
    keeps_history = True
    history_reason = ""
    ended_state = "ended"
    order_across_hosts = True
    order_reason = ""
    shares_work = True
    sharing_reason = ""
    hands_out_sessions = True
    sessions_reason = ""
    settings: Mapping[str, Any] = {}
    """Settings of every job of the suite, such as another ``dedup``."""

    def __init__(self) -> None:
        self._open: list[Frontier] = []
        self._seen: dict[str, set[int]] = {}

    def connect(self, job: str) -> Frontier:
        """Connect another client to the store, as another process would."""
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        """Move the store's clock. Only with ``controls_time``."""
        raise NotImplementedError

    def client(self, job: str = "job") -> Client:
        """One more client, closed at the end of the test."""
        frontier = self.connect(job)
        self._open.append(frontier)
        return Client(frontier, job, self._seen.setdefault(job, set()), self.settings)

    async def elapse(self, seconds: float) -> None:
        """Let time pass."""
        if self.controls_time:
            self.advance(seconds)
        elif seconds <= REAL_SECONDS:
            await asyncio.sleep(seconds)
        else:
            pytest.skip(self.time_reason)

    def needs_order_across_hosts(self) -> None:
        """Skip a test that depends on the order of equal hosts, where the store does not keep it."""
        if not self.order_across_hosts:
            pytest.skip(self.order_reason)

    def needs_sessions(self) -> None:
        """Skip a test of sessions that are handed out, where the store does not."""
        if not self.hands_out_sessions:
            pytest.skip(self.sessions_reason)

    def together(self, count: int) -> list[str]:
        """Return names of hosts, one letter each, that are in the same shard."""
        return list("abcdefgh"[:count])

    async def close(self) -> None:
        """Check that everything stored agrees, and close all clients, at the end of the test."""
        try:
            for job in self._seen:
                await self._check(job)
        finally:
            for frontier in self._open:
                await frontier.close()

    async def _check(self, job: str) -> None:
        frontier = self.connect(job)
        self._open.append(frontier)
        # A test may not have begun its job, or have removed it.
        with contextlib.suppress(JobError, VanishedError):
            report = await frontier.check_consistency()
            assert not report.findings, report.findings
            assert not report.unchecked, report.unchecked
