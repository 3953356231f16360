"""An ensemble of three ZooKeeper servers: locks go on while one after the other is killed, and the contract holds."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from rig.servers.coordinators import ZookeeperEnsemble, ZookeeperNode
from skitter.cluster import Cluster, connect
from skitter.cluster.contract import Coordinator
from skitter.testing import CoordinatorContract, CoordinatorPlace

# The first test may have to install the server.
pytestmark = pytest.mark.timeout(900)

WAIT_SECONDS = 60.0


@pytest.fixture
def ensemble(own_server) -> ZookeeperEnsemble:
    return own_server(ZookeeperEnsemble)


class Entries:
    """Tasks of several sessions that enter one lock again and again."""

    def __init__(self, clusters: list[Cluster]) -> None:
        self.tokens: list[int] = []
        self._inside = 0
        self._entered = asyncio.Condition()
        self._tasks = [asyncio.create_task(self._enter(cluster)) for cluster in clusters for _ in range(2)]

    async def _enter(self, cluster: Cluster) -> None:
        while True:
            async with cluster.lock("lock", lifetime_seconds=30, retry_seconds=0.05) as held:
                assert self._inside == 0
                self._inside += 1
                await asyncio.sleep(0.005)
                held.check()
                self._inside -= 1
                assert held.token is not None
                async with self._entered:
                    self.tokens.append(held.token)
                    self._entered.notify_all()

    async def more(self) -> None:
        """Wait until the lock was entered some more times."""
        enough = len(self.tokens) + 10
        async with asyncio.timeout(WAIT_SECONDS), self._entered:
            await self._entered.wait_for(lambda: len(self.tokens) >= enough or any(t.done() for t in self._tasks))
        for task in self._tasks:
            assert not task.done(), task.exception()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def locks_while_killed(ensemble: ZookeeperEnsemble, nodes: list[ZookeeperNode]) -> None:
    url = f"{ensemble.url}/{uuid4().hex}"
    async with (
        connect(url, session_seconds=30) as one,
        connect(url, session_seconds=30) as other,
        one.lock("kept", lifetime_seconds=30) as kept,
    ):
        entries = Entries([one, other])
        await entries.more()
        for node in nodes:
            await asyncio.to_thread(node.kill)
            await entries.more()
            await asyncio.to_thread(node.start)
            await asyncio.to_thread(ensemble.wait)
            await entries.more()
        await entries.end()
        assert entries.tokens == sorted(set(entries.tokens))
        kept.check()


async def test_locks_go_on_while_the_leader_of_the_ensemble_is_killed(ensemble):
    await locks_while_killed(ensemble, [ensemble.leader()])


@pytest.mark.soak
async def test_locks_go_on_while_one_server_after_the_other_is_killed(ensemble):
    await locks_while_killed(ensemble, ensemble.nodes * 2)


@pytest.mark.soak
async def test_what_was_written_is_read_from_every_server(ensemble):
    async with connect(f"{ensemble.nodes[0].url}/x") as one, connect(f"{ensemble.nodes[2].url}/x") as other:
        for number in range(200):
            await one.put("key", str(number).encode())
            entry = await other.read("key")
            assert entry is not None
            assert entry.value == str(number).encode()


class EnsemblePlace(CoordinatorPlace):
    """A root node of its own."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}/{uuid4().hex}"

    def coordinator(self, session_seconds: float) -> Coordinator:
        return connect(self.url, session_seconds=session_seconds).coordinator


@pytest.fixture
def place(services) -> EnsemblePlace:
    return EnsemblePlace(services.need("zookeeper-ensemble")["url"])


@pytest.mark.soak
class TestEnsemble(CoordinatorContract): ...
