"""ZooKeeper servers that a test may kill and start again: one alone, and an ensemble of three.

Each keeps its port and its folder through all its lives.
"""

from __future__ import annotations

import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from rig.servers.own_server import START_SECONDS, OwnServer, built_program, free_port

ZOOKEEPER_VERSION = "3.9.5"
TICK_SECONDS = 0.5
"""Sessions end at a multiple of it, so at most so much late."""
SHORTEST_SESSION_SECONDS = 1.0
ENSEMBLE_NODES = 3


def zookeeper_jars() -> Path:
    """Where ``scripts/services`` keeps what Maven has brought."""
    return built_program("zookeeper", ZOOKEEPER_VERSION).with_name("jars")


class OwnZookeeper(OwnServer):
    """A server alone. Everybody may read and write where no ACL forbids it; digest authentication is always on."""

    service = "zookeeper"
    accounts = ()

    def __init__(
        self,
        certificate: tuple[Path, Path] | None = None,
        client_authority: Path | None = None,
        needs_digest: bool = False,
    ) -> None:
        """``client_authority``: who has no certificate of it is refused. ``needs_digest``: so is who gives no name."""
        self._client_authority = client_authority
        self._needs_digest = needs_digest
        super().__init__(certificate)

    def prepare(self) -> None:
        (self.folder / "data").mkdir()
        settings = self.settings() | self._entrance()
        (self.folder / "zoo.cfg").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def settings(self) -> dict[str, object]:
        return {
            "dataDir": self.folder / "data",
            "tickTime": int(TICK_SECONDS * 1_000),
            "minSessionTimeout": int(SHORTEST_SESSION_SECONDS * 1_000),
            "maxSessionTimeout": 120_000,
            # Tests have more than sixty clients at one address.
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "srvr,cons",
        }

    def _entrance(self) -> dict[str, object]:
        """Where clients are let in, and who."""
        settings: dict[str, object] = {}
        if self._needs_digest:
            settings |= {"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest"}
        if not self._certificate:
            return settings | {"clientPort": self.port, "clientPortAddress": "127.0.0.1"}
        certificate, key = self._certificate
        store = self.folder / "store.pem"
        store.write_text(key.read_text() + certificate.read_text())
        store.chmod(0o600)
        settings |= {
            "secureClientPort": self.port,
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": store,
            "ssl.clientAuth": "need" if self._client_authority else "none",
        }
        if self._client_authority:
            settings |= {"ssl.trustStore.location": self._client_authority, "ssl.hostnameVerification": "false"}
        return settings

    def command(self) -> list[str]:
        quick = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        # A kill of the process leaves what the kernel has: waiting for the disk would only slow the tests.
        quick += ["-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=1024", "-Dzookeeper.jmx.log4j.disable=true"]
        # Nodes that are to be removed when they are empty: a minute by default.
        quick += ["-Dznode.container.checkIntervalMs=500"]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return ["java", *quick, "-cp", f"{zookeeper_jars()}/*", main, str(self.folder / "zoo.cfg")]

    def answers(self) -> bool:
        if self._client_authority:
            # It would want a certificate for a question, too. The port is opened when all else is up.
            with self._connection():
                return True
        return self.is_serving()

    def is_serving(self) -> bool:
        """Whether it takes requests: it is alone, leads, or follows a leader. Raises OSError if it is not there."""
        return b"Mode: " in self.said("srvr")

    def leads(self) -> bool:
        return b"Mode: leader" in self.said("srvr")

    def said(self, word: str) -> bytes:
        """Its answer to one of the commands of four letters."""
        with self._connection() as plain, self._secured(plain) if self._certificate else plain as connection:
            connection.sendall(word.encode())
            answer = b""
            while more := connection.recv(65536):
                answer += more
            return answer

    @staticmethod
    def _secured(plain: socket.socket) -> socket.socket:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(plain)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"zookeeper{'+ssl' if self._certificate else ''}://{self.address}"


class ZookeeperNode(OwnZookeeper):
    """One of an ensemble. It is up before it serves: that needs a majority."""

    def __init__(self, number: int, peer_ports: list[tuple[int, int]]) -> None:
        self._number, self._peer_ports = number, peer_ports
        super().__init__()

    def prepare(self) -> None:
        super().prepare()
        (self.folder / "data" / "myid").write_text(str(self._number))

    def settings(self) -> dict[str, object]:
        peers = {
            f"server.{number}": f"127.0.0.1:{peer}:{election}"
            for number, (peer, election) in enumerate(self._peer_ports, start=1)
        }
        return super().settings() | {"initLimit": 20, "syncLimit": 4} | peers

    def answers(self) -> bool:
        return bool(self.said("srvr"))


class ZookeeperEnsemble:
    """Three nodes, each of which can be killed and started again."""

    service: ClassVar[str] = "zookeeper"

    def __init__(self) -> None:
        self.nodes: list[ZookeeperNode] = []
        peer_ports = [(free_port(), free_port()) for _ in range(ENSEMBLE_NODES)]
        try:
            with ThreadPoolExecutor() as threads:
                starts = [threads.submit(ZookeeperNode, number + 1, peer_ports) for number in range(ENSEMBLE_NODES)]
            for start in starts:
                self.nodes.append(start.result())
            self.wait()
        except BaseException:
            self.remove()
            raise

    def wait(self) -> None:
        """Wait until every node serves."""
        deadline = time.monotonic() + START_SECONDS
        while not all(self._is_serving(node) for node in self.nodes):
            if time.monotonic() > deadline:
                raise OSError(f"not every node serves after {START_SECONDS:.0f} s")
            time.sleep(0.05)

    @staticmethod
    def _is_serving(node: ZookeeperNode) -> bool:
        try:
            return node.is_serving()
        except OSError:
            return False

    def leader(self) -> ZookeeperNode:
        return next(node for node in self.nodes if node.leads())

    @property
    def url(self) -> str:
        return "zookeeper://" + ",".join(node.address for node in self.nodes)

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()
