"""Stores of downloaded files: a folder, or a prefix of a bucket.

A file has the name of its content, so it is written once, whoever else downloads it: a name that is there with the same
size is left as it is. A file appears as a whole.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from skitter.errors import ExtraMissingError, SinkError, UsageError
from skitter.sinks.contract import FileStore
from skitter.sinks.durable_files import resolve_folder, sink_errors, sync_folder, write_all
from skitter.sinks.s3 import S3Client
from skitter.sinks.targets import Target, parse_target

PARTIAL = ".partial"
"""The folder of files that are being written. What a killed process has left there is completed by the next one that
downloads the same file."""
_OPTIONS = ("endpoint", "region", "profile")


def open_file_store(text: str) -> FileStore:
    """Return the store that the setting ``file_target`` names, without connecting. Raises SinkError."""
    if not text.startswith("s3:"):
        return FolderStore(Path(text))
    try:
        target = parse_target(text)
        _check_place(target)
        prefix = target.path.strip("/")
        return S3FileStore(target, target.hosts, f"{prefix}/" if prefix else "")
    except ModuleNotFoundError as error:
        missing = ExtraMissingError("files in S3", "s3")
        raise SinkError(str(missing), hint=missing.hint) from error
    except UsageError as error:
        raise SinkError(str(error), hint=error.hint) from error


def _check_place(target: Target) -> None:
    if not target.hosts or not set(_OPTIONS).issuperset(target.options):
        raise UsageError(
            f"not a location for files: {target.name}",
            hint="write s3://BUCKET/PREFIX/?endpoint=URL; region and profile are options too",
        )


class FolderStore:
    """Files in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready: set[Path] = set()

    def put(self, name: str, content: bytes, content_type: str) -> None:  # noqa: ARG002  a file has none
        target = str(self._folder)
        with sink_errors(target):
            path, part = self._folder / name, self._folder / PARTIAL / Path(name).name
            for folder in (path.parent, part.parent):
                if folder not in self._ready:
                    resolve_folder(folder, target, parents=True)
                    self._ready.add(folder)
            while not _is_there(path, content) and not self._write(part, path, content):
                pass

    def _write(self, part: Path, path: Path, content: bytes) -> bool:
        """Write and rename the file; False: another process has done so meanwhile, or removed it."""
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            # Whoever writes the same file is waited for: the lock ends with that process. What it has written then has
            # its name, and what is locked here may be that file: it must not be touched.
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not _is_at(part, fd):
                return False
            if _is_there(path, content):
                # A new one, made by the open above when the other process had renamed its own.
                part.unlink()
                return False
            os.ftruncate(fd, 0)
            write_all(fd, content)
            os.fsync(fd)
            part.replace(path)
            sync_folder(path.parent)
            return True
        finally:
            os.close(fd)


def _is_there(path: Path, content: bytes) -> bool:
    with suppress(FileNotFoundError):
        return path.stat().st_size == len(content)
    return False


def _is_at(path: Path, fd: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), path.stat())
    return False


class S3FileStore(S3Client):
    """Files in a bucket. An upload that is cut short leaves nothing."""

    def __init__(self, target: Target, bucket: str, prefix: str) -> None:
        super().__init__(target, bucket, prefix)

    def put(self, name: str, content: bytes, content_type: str) -> None:
        with self._sink_errors():
            self._client = self._client or self._connected()
            key = self._prefix + name
            if self._size_of(key) == len(content):
                return
            kind = {"ContentType": content_type} if content_type else {}
            self._client.put_object(Bucket=self._bucket, Key=key, Body=content, **kind)

    def _size_of(self, key: str) -> Any:
        from botocore.exceptions import ClientError

        try:
            return self._client.head_object(Bucket=self._bucket, Key=key)["ContentLength"]
        except ClientError as error:
            # Whoever may not list a bucket is told 403 of a name that is not there.
            if error.response["ResponseMetadata"]["HTTPStatusCode"] in (403, 404):
                return None
            raise
