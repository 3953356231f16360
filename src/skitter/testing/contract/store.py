"""Store of one test, which a backend implements for the contract suite: its clients and its clock."""

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
"""Maximum time that a test really waits if it does not control the clock."""


class ContractStore:
    """Empty store for each test. Subclass it and return an instance from the fixture ``store``.

    A backend that lacks a capability sets the matching attribute to False and gives a reason:

    - ``controls_time`` and ``time_reason``: the clock of a server decides. Short waits are then real, and tests that
      need longer ones are skipped with this reason.
    - ``keeps_history`` and ``history_reason``: of a done or redirected request the store keeps only the identity. The
      trace of such a request then has the state ``ended_state`` and no further details.
    - ``order_across_hosts`` and ``order_reason``: hosts are spread over several shards, each with its own order. Higher
      priorities still come first and every shard gets its turn, but the order of two equal hosts is promised only
      within a shard.
    - ``shares_work`` and ``sharing_reason``: the store grants a worker all available work, even if other workers have
      too little.
    - ``hands_out_sessions`` and ``sessions_reason``: the store does not hand out sessions.
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
    """Settings for every job of the suite, such as another ``dedup``."""

    def __init__(self) -> None:
        self._open: list[Frontier] = []
        self._seen: dict[str, set[int]] = {}

    def connect(self, job: str) -> Frontier:
        """Connect another client to the store, like another process."""
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        """Advance the clock of the store. Called only with ``controls_time``."""
        raise NotImplementedError

    def client(self, job: str = "job") -> Client:
        """Return another client, which is closed at the end of the test."""
        frontier = self.connect(job)
        self._open.append(frontier)
        return Client(frontier, job, self._seen.setdefault(job, set()), self.settings)

    async def elapse(self, seconds: float) -> None:
        """Advance the clock of the store or, without ``controls_time``, wait. Skip a test that would wait too long."""
        if self.controls_time:
            self.advance(seconds)
        elif seconds <= REAL_SECONDS:
            await asyncio.sleep(seconds)
        else:
            pytest.skip(self.time_reason)

    def needs_order_across_hosts(self) -> None:
        """Skip a test that depends on the order of equal hosts if the store does not keep that order."""
        if not self.order_across_hosts:
            pytest.skip(self.order_reason)

    def needs_sessions(self) -> None:
        """Skip a test of sessions if the store does not hand them out."""
        if not self.hands_out_sessions:
            pytest.skip(self.sessions_reason)

    def together(self, count: int) -> list[str]:
        """Return one-letter names of hosts that are in the same shard."""
        return list("abcdefgh"[:count])

    async def close(self) -> None:
        """Check that the stored data is consistent and close all clients, at the end of the test."""
        try:
            for job in self._seen:
                await self._check(job)
        finally:
            for frontier in self._open:
                await frontier.close()

    async def _check(self, job: str) -> None:
        frontier = self.connect(job)
        self._open.append(frontier)
        # The test may not have begun its job, or may have removed it.
        with contextlib.suppress(JobError, VanishedError):
            report = await frontier.check_consistency()
            assert not report.findings, report.findings
            assert not report.unchecked, report.unchecked
