"""Servers that take messages and objects, which a test may kill and start again: versitygw for S3, RabbitMQ.

As ``own_databases``: each keeps its port and its folder through all its lives.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from own_databases import PASSWORD, QUOTED, USER, OwnServer, built_program
from own_redis import free_port

VERSITYGW_VERSION = "1.8.0"
ACCESS_KEY, SECRET_KEY = "skitter", "pa55word"


def versitygw_program() -> Path:
    return built_program("versitygw", VERSITYGW_VERSION)


class OwnS3(OwnServer):
    """Objects are files in a folder: what was uploaded is there in its next life, and so are pieces of what was not."""

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

    accounts = ("rabbitmq", "nobody")
    program: ClassVar[str] = "/usr/lib/rabbitmq/bin/rabbitmq-server"
    """Not the one on the PATH, which is a wrapper for the node of the system."""
    max_message_bytes = 2_000_000

    def prepare(self) -> None:
        self._mapper_port, self._distribution_port = free_port(), free_port()
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\ndefault_user = {USER}\ndefault_pass = {PASSWORD}\n"
            f"max_message_size = {self.max_message_bytes}\nlog.console = true\nlog.file = false\n"
            "disk_free_limit.absolute = 50MB\nvm_memory_high_watermark.absolute = 400MB\n"
        )
        (self.folder / "plugins").write_text("[].")
        for name in ("rabbitmq.conf", "plugins"):
            (self.folder / name).chmod(0o644)

    def command(self) -> list[str]:
        settings = {
            "RABBITMQ_NODENAME": f"skitter{self.port}@localhost",
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
        # Its own port mapper, in the foreground: one that it started by itself would outlive it.
        words = [f"{name}='{value}'" for name, value in settings.items()]
        return ["sh", "-c", f"export {' '.join(words)}; epmd & exec {self.program}"]

    def answers(self) -> bool:
        with self._connection() as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            # The frame of connection.start. The listener is opened when all else is up.
            return connection.recv(1) == b"\x01"

    @property
    def url(self) -> str:
        return f"amqp://{USER}:{QUOTED}@127.0.0.1:{self.port}"

    @staticmethod
    def is_installed() -> bool:
        return os.access(OwnRabbitmq.program, os.X_OK)
