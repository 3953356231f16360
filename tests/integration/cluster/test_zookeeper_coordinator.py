"""A ZooKeeper server keeps the coordinator contract, also when the network between fails."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from rig.relay import Relay
from skitter.cluster.contract import Coordinator
from skitter.cluster.zookeeper.coordinator import ZookeeperCoordinator
from skitter.testing import CoordinatorContract, CoordinatorPlace

# The first test may have to install the server.
pytestmark = pytest.mark.timeout(900)


class ZookeeperPlace(CoordinatorPlace):
    """A root node of its own, behind a network that can fail."""

    can_be_cut_off = True

    def __init__(self, network: Relay) -> None:
        self._network = network
        self.url = f"zookeeper://{network.address}/{uuid4().hex}"

    def coordinator(self, session_seconds: float) -> Coordinator:
        return ZookeeperCoordinator(self.url, session_seconds=session_seconds)

    def cut(self) -> None:
        self._network.black_hole(opens=True)
        self._network.cut()

    def mend(self) -> None:
        self._network.black_hole(opens=False)
        self._network.cut()


@pytest.fixture
def place(services) -> Iterator[ZookeeperPlace]:
    with Relay("127.0.0.1", services.need("zookeeper")["port"]) as network:
        yield ZookeeperPlace(network)


class TestZookeeper(CoordinatorContract): ...
