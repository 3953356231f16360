"""Dead letters: messages that cannot become requests, as JSON with the reason.

A source without a place for them (a file, the standard input) has a file, which several processes may add to.
"""

from __future__ import annotations

import base64
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from skitter import private_files
from skitter.errors import IntakeError
from skitter.intakes.contract import DeadLetter

SUFFIX = ".dead-letters.jsonl"


class LetterRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dead letter as it is stored."""

    reason: str
    source: str
    id: str = ""
    """The id of the message; a letter that is repeated after a crash has the same. Empty: its source gives none."""
    body: str = ""
    body_base64: str = ""
    """Of a message that is not text."""


def encode_letter(source: str, letter: DeadLetter) -> bytes:
    """One line of JSON, without its end."""
    message = letter.message
    try:
        record = LetterRecord(letter.reason, source, message.id, body=message.body.decode())
    except UnicodeDecodeError:
        encoded = base64.b64encode(message.body).decode()
        record = LetterRecord(letter.reason, source, message.id, body_base64=encoded)
    return msgspec.json.encode(record)


class DeadLetterFile:
    """A file of dead letters, made with the first one."""

    def __init__(self, path: Path, source: str) -> None:
        self.path = path
        self._source = source

    def add(self, letters: Sequence[DeadLetter]) -> None:
        lines = b"".join(encode_letter(self._source, letter) + b"\n" for letter in letters)
        try:
            self._append(lines)
        except OSError as error:
            raise IntakeError(
                f"dead letters cannot be written: {self.path}: {error.strerror or error}",
                hint="free some space, or make the folder writable; the message waits",
            ) from error

    def _append(self, lines: bytes) -> None:
        # They may hold whatever somebody has sent, credentials too.
        if self.path.parent.name == private_files.FOLDER.name:
            private_files.make_folder(self.path.parent)
        is_new = not self.path.exists()
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, private_files.FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                lines = b"\n" + lines  # whoever wrote the last line was killed in the middle of it
            rest = memoryview(lines)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        if is_new:
            _sync_folder(self.path.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
