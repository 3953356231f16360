"""Membership of a node in the group of its job at a coordinator (``--coordinator``), in a thread of its own.

Others see within ``coordinator_seconds`` that a node is gone, and return what its workers had leased. A node that lives
and cannot renew its membership lets its workers stop before that (``worker.start_permit``). In a thread, because
whatever else a node does must not cost its membership.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Coroutine
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from skitter.cluster import Cluster, SessionState
from skitter.cluster.clock import now_seconds
from skitter.cluster.coordinators import coordinator_of
from skitter.cluster.membership import MemberChange
from skitter.cluster.process_identity import worker_id
from skitter.errors import ClusterConflictError, ClusterError, UsageError
from skitter.observe import events
from skitter.settings import Run
from skitter.worker.start_permit import StartPermit, new_permit

PERMIT_PART = 2 / 3
"""Of the time after which a node counts as gone, its workers may have requests in flight for so much without a renewal:
the rest is for breaking them off, and for clocks that run unequally."""
MARKER = "crawl nodes"
"""A key that is never deleted. If it is, the coordinator has lost its data, and who is missing need not be gone."""
T = TypeVar("T")
OnEvent = Callable[[events.Event], None]


def node_cluster(run: Run) -> Cluster:
    """The coordinator of nodes, not opened yet. UsageError for one that has no groups."""
    coordinator = coordinator_of(run.coordinator, session_seconds=run.coordinator_seconds)
    if coordinator.members is None or coordinator.keys is None:
        raise UsageError(
            f"this coordinator does not support groups of nodes: {coordinator.address}",
            hint="use redis://, zookeeper:// or sqlite: as --coordinator",
        )
    return Cluster(coordinator)


class NodeMembership:
    """This node as a member, and who else is one."""

    def __init__(self, run: Run, job: str, on_event: OnEvent) -> None:
        self.name = f"{worker_id()}:{secrets.token_hex(4)}"
        """Never used again, also if another node begins in this process."""
        self.permit_descriptor = new_permit()
        """Of the permit that the workers of this node read."""
        self._permit = StartPermit(self.permit_descriptor)
        self._run = run
        self._group = f"nodes of {job}"
        self._on_event = on_event
        self._home = asyncio.get_running_loop()
        self._left = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._live, name="skitter-membership", daemon=True)
        self._cluster: Cluster | None = None
        self.address = ""
        """Where the coordinator is, without credentials; after ``join``."""
        self._watching: asyncio.Task[None] | None = None
        self._ignore_states: Callable[[], None] | None = None
        self._seen: set[str] = set()
        """Those who are there, as far as the watch has told: who is among them need not be asked for."""
        self._marker = b""
        self._judges_from = 0.0

    # ---- in the loop of the node

    async def join(self) -> None:
        """Join the group. ClusterUnavailableError: there is no coordinator."""
        self._thread.start()
        await self._in_thread(self._join())

    async def gone(self, members: AbstractSet[str]) -> AbstractSet[str]:
        """Those of these members that have left the group. ClusterError: it is not known.

        Workers have to be listed before: one that is listed later may be of a member that has joined meanwhile.
        """
        if not members - self._seen - {self.name}:
            return frozenset()
        return await self._in_thread(self._gone(members))

    async def wait_for_leave(self, seconds: float) -> None:
        """Return when a member has left, after ``seconds`` at the latest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._left.wait()
        self._left.clear()

    async def close(self) -> None:
        """Leave the group, after all workers of this node have ended."""
        try:
            if self._thread.is_alive():
                with contextlib.suppress(ClusterError):
                    await self._in_thread(self._leave())
        finally:
            # Also if it was cancelled: a thread that goes on would keep a node alive that is not there.
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._over.set)
                self._thread.join()
            os.close(self.permit_descriptor)

    async def _in_thread(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def _at_home(self, call: Callable[[], object]) -> None:
        # RuntimeError: the loop of the node has ended before.
        with contextlib.suppress(RuntimeError):
            self._home.call_soon_threadsafe(call)

    # ---- in the thread

    def _live(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._over.wait())

    async def _join(self) -> None:
        # Made here, in the loop that it is used in.
        cluster = node_cluster(self._run)
        self.address = cluster.coordinator.address
        await cluster.open()
        self._cluster = cluster
        await self._note_marker(cluster)
        membership = await cluster.join(self._group, self.name)
        membership.on_renewed(lambda sent_at, lasts: self._permit.extend(sent_at + PERMIT_PART * lasts))
        self._ignore_states = cluster.on_state(self._take_state)
        self._watching = asyncio.create_task(self._watch(cluster))

    async def _leave(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError, ClusterError):
                await self._watching
        if self._ignore_states is not None:
            # A connection that is closed counts as lost.
            self._ignore_states()
        if self._cluster is not None:
            await self._cluster.close()

    def _take_state(self, state: SessionState) -> None:
        if state == SessionState.SUSPENDED:
            self._permit.suspend()
        elif state == SessionState.LOST:
            self._permit.end()
        event = events.COORDINATOR_STATE(coordinator=self.address, state=str(state))
        self._at_home(lambda: self._on_event(event))

    async def _watch(self, cluster: Cluster) -> None:
        """Wake up who returns the leases of lost nodes."""
        try:
            async for event in cluster.watch_members(self._group):
                if event.change == MemberChange.LEFT:
                    self._seen.discard(event.name)
                    self._at_home(self._left.set)
                else:
                    self._seen.add(event.name)
        finally:
            self._seen.clear()

    async def _gone(self, members: AbstractSet[str]) -> AbstractSet[str]:
        cluster = self._cluster
        assert cluster is not None, "it has joined"
        present = await cluster.members(self._group)
        missing = members - present.keys()
        if not missing:
            return missing
        if self.name not in present or await self._has_lost_data(cluster):
            # Whoever lives joins again, or stops, within the time of a session.
            self._judges_from = now_seconds() + cluster.session_seconds
        return missing if now_seconds() >= self._judges_from else frozenset()

    async def _has_lost_data(self, cluster: Cluster) -> bool:
        known = self._marker
        await self._note_marker(cluster)
        return self._marker != known

    async def _note_marker(self, cluster: Cluster) -> None:
        while (found := await cluster.read(MARKER)) is None:
            with contextlib.suppress(ClusterConflictError):
                await cluster.put(MARKER, secrets.token_bytes(8), version=0)
        self._marker = found.value
