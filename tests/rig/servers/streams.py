"""Servers that take messages and objects, which a test may kill and start again: versitygw for S3, RabbitMQ, Kafka.

Each keeps its port and its folder through all its lives.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import ClassVar

from rig.servers.databases import PASSWORD, QUOTED, USER
from rig.servers.own_server import OwnServer, built_program, free_port

VERSITYGW_VERSION = "1.8.0"
ACCESS_KEY, SECRET_KEY = "skitter", "pa55word"


def versitygw_program() -> Path:
    return built_program("versitygw", VERSITYGW_VERSION)


class OwnS3(OwnServer):
    """Objects are files in a folder: what was uploaded is there in its next life, and so are pieces of what was not."""

    service = "s3"
    accounts = ()
    bucket = "results"

    def prepare(self) -> None:
        # A folder is a bucket.
        (self.folder / "buckets" / self.bucket).mkdir(parents=True)
        (self.folder / "notes").mkdir()

    def command(self) -> list[str]:
        keys = ["--access", ACCESS_KEY, "--secret", SECRET_KEY]
        # The notes of objects in files of their own: not every file system has attributes for them.
        backend = ["posix", "--sidecar", str(self.folder / "notes"), str(self.folder / "buckets")]
        return [str(versitygw_program()), "--port", f"127.0.0.1:{self.port}", *keys, "--quiet", *backend]

    def answers(self) -> bool:
        with self._connection() as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            return connection.recv(5) == b"HTTP/"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Of the bucket, with the key; a target has a prefix and ``&format=`` in it."""
        return f"s3://{ACCESS_KEY}:{SECRET_KEY}@{self.bucket}"


class OwnRabbitmq(OwnServer):
    """A node with a name, a port mapper and a folder of its own. It is up after some seconds."""

    service = "rabbitmq"
    accounts = ("rabbitmq", "nobody")
    program: ClassVar[str] = "/usr/lib/rabbitmq/bin/rabbitmq-server"
    """Not the one on the PATH, which is a wrapper for the node of the system."""
    max_message_bytes = 2_000_000

    def prepare(self) -> None:
        self._mapper_port, self._distribution_port = free_port(), free_port()
        self._node = f"skitter{self.port}@localhost"
        (self.folder / "rabbitmq.conf").write_text(
            f"{self._listener()}\ndefault_user = {USER}\ndefault_pass = {PASSWORD}\n"
            f"max_message_size = {self.max_message_bytes}\nlog.console = true\nlog.file = false\n"
            "disk_free_limit.absolute = 50MB\nvm_memory_high_watermark.absolute = 400MB\n"
        )
        (self.folder / "plugins").write_text("[].")
        for name in ("rabbitmq.conf", "plugins"):
            (self.folder / name).chmod(0o644)

    def _listener(self) -> str:
        if not self._certificate:
            return f"listeners.tcp.1 = 127.0.0.1:{self.port}"
        certificate, key = self._certificate
        files = f"ssl_options.certfile = {certificate}\nssl_options.keyfile = {key}"
        return f"listeners.tcp = none\nlisteners.ssl.1 = 127.0.0.1:{self.port}\n{files}"

    def command(self) -> list[str]:
        settings = {
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            # Fewer threads: it is one of many servers on a small machine.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1",
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        words = [f"{name}='{value}'" for name, value in settings.items()]
        return ["sh", "-c", f"export {' '.join(words)}; {self._mapper()} exec {self.program}"]

    def _mapper(self) -> str:
        # Its own port mapper, in the foreground: one that it started by itself would outlive it.
        return "epmd &"

    def answers(self) -> bool:
        with self._connection() as connection:
            if self._certificate:
                return True  # the listener is opened when all else is up
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            # The frame of connection.start.
            return connection.recv(1) == b"\x01"

    @property
    def url(self) -> str:
        return f"amqp{'s' if self._certificate else ''}://{USER}:{QUOTED}@127.0.0.1:{self.port}"

    @staticmethod
    def is_installed() -> bool:
        return os.access(OwnRabbitmq.program, os.X_OK)


class RabbitmqNode(OwnRabbitmq):
    """One node of a cluster: it finds the others by their names, through a port mapper that they share."""

    def __init__(self, number: int, mapper_port: int) -> None:
        self._number, self._shared_mapper_port = number, mapper_port
        super().__init__()

    def prepare(self) -> None:
        super().prepare()
        self._mapper_port, self._node = self._shared_mapper_port, _node_name(self._number)
        with (self.folder / "rabbitmq.conf").open("a") as file:
            file.write("cluster_formation.peer_discovery_backend = classic_config\n")
            # The first one has nobody to join.
            file.write("cluster_formation.discovery_retry_limit = 2\ncluster_partition_handling = pause_minority\n")
            for number in range(CLUSTER_NODES):
                file.write(f"cluster_formation.classic_config.nodes.{number + 1} = {_node_name(number)}\n")
        cookie = self.folder / ".erlang.cookie"
        cookie.write_text("SKITTERTESTS")
        cookie.chmod(0o400)
        if self._account:
            shutil.chown(cookie, self._account)

    def _mapper(self) -> str:
        return ""


class RabbitmqCluster:
    """Three nodes, each of which can be killed and started again."""

    service: ClassVar[str] = "rabbitmq"

    def __init__(self) -> None:
        port = free_port()
        environment = {**os.environ, "ERL_EPMD_PORT": str(port), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        # Not of a node's process group: it has to outlive each of them.
        self._mapper = subprocess.Popen(["epmd"], env=environment, stdin=subprocess.DEVNULL)
        self.nodes: list[RabbitmqNode] = []
        try:
            for number in range(CLUSTER_NODES):
                self.nodes.append(RabbitmqNode(number, port))
        except BaseException:
            self.remove()
            raise

    @property
    def url(self) -> str:
        return f"amqp://{USER}:{QUOTED}@" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()
        self._mapper.kill()
        self._mapper.wait()


CLUSTER_NODES = 3


def _node_name(number: int) -> str:
    return f"skitter{number}@localhost"


KAFKA_VERSION = "4.1.2"


def kafka_jars() -> Path:
    """Where ``scripts/services`` keeps what Maven has brought."""
    return built_program("kafka", KAFKA_VERSION).with_name("jars")


class OwnKafka(OwnServer):
    """One node that is broker and controller. Each of its internal topics has one partition, so that it starts soon."""

    service = "kafka"
    accounts = ()

    def prepare(self) -> None:
        self._controller_port = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # After a kill the node waits until its former life is believed to be over.
            "broker.session.timeout.ms": "3000",
        }
        (self.folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.run(*self._java("kafka.tools.StorageTool"), "format", "-t", _CLUSTER, "-c", self._settings_file())

    def command(self) -> list[str]:
        return [*self._java("kafka.Kafka"), self._settings_file()]

    def answers(self) -> bool:
        with self._connection() as connection:
            # Which versions do you speak? It is answered when the node is up.
            connection.sendall(struct.pack("!ihhih", 10, 18, 0, 1, -1))
            return len(connection.recv(4)) == 4

    @property
    def url(self) -> str:
        return f"kafka://127.0.0.1:{self.port}"

    def _settings_file(self) -> str:
        return str(self.folder / "server.properties")

    @staticmethod
    def _java(main: str) -> list[str]:
        quick = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        return ["java", *quick, "-cp", f"{kafka_jars()}/*", main]


_CLUSTER = "c2tpdHRlci10ZXN0cy0wMQ"
"""The id of a cluster: 16 bytes in base64."""
