"""Servers that take messages and objects, which a test may kill and start again: versitygw for S3.

As ``own_databases``: each keeps its port and its folder through all its lives.
"""

from __future__ import annotations

from pathlib import Path

from own_databases import OwnServer, built_program

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
