"""Files and the standard input as sources, one message a line: ``file:PATH`` and ``-``.

The mark of a file is the offset behind the last line that was acknowledged. Blank lines and lines that begin with ``#``
are left out.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from skitter import private_files
from skitter.errors import IntakeError, UsageError
from skitter.intakes.contract import Backlog, DeadLetter, Message
from skitter.intakes.dead_letters import SUFFIX, DeadLetterFile
from skitter.intakes.messages import MAX_BODY_BYTES
from skitter.intakes.sources import Source

_PIECE_BYTES = 1 << 18
_FOLLOW_SECONDS = 0.2
"""Between two looks at a file that is followed."""


def file_intake(source: Source) -> LineIntake:
    """The intake of ``file:PATH``; with ``?follow=yes`` it goes on where the file grows."""
    path = Path(source.path).absolute()
    follow = source.known_options("follow").get("follow", "no")
    if follow not in ("yes", "no"):
        raise UsageError(f"invalid value: follow={follow}: {source.name}", hint="use follow=yes or follow=no")
    letters = path.with_name(path.name + SUFFIX)
    intake = LineIntake(source.name, lambda mark: _open_file(path, source.name, mark), letters, follow=follow == "yes")
    intake.shared = False
    return intake


def stdin_intake(source: Source) -> LineIntake:
    """The intake of ``-``. What was read of it and not acknowledged is gone with its process."""
    letters = private_files.FOLDER / f"{source.job}{SUFFIX}"
    return LineIntake(source.name, lambda _: sys.stdin.fileno(), letters)


def _open_file(path: Path, source: str, mark: bytes) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise IntakeError(
            f"cannot be read: {source}: {error.strerror}", hint="check its path, owner and mode"
        ) from error
    try:
        _check_file(fd, path, source, int(mark or b"0"))
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_file(fd: int, path: Path, source: str, offset: int) -> None:
    """Lock a file and go to the offset."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise IntakeError(f"not a regular file: {source}", hint=f"to read a pipe: --intake - < {path}")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise IntakeError(
            f"another process is reading this file: {source}", hint="wait until it ends, or end it"
        ) from error
    if found.st_size < offset:
        raise IntakeError(
            f"the file is shorter than the part already read: {source}: {found.st_size} bytes, {offset} were read",
            hint="was it replaced? rename the new file, or start over with --fresh",
        )
    os.lseek(fd, offset, os.SEEK_SET)


class LineIntake:
    """An intake that reads lines from a descriptor."""

    shared = True

    def __init__(self, source: str, open_at: Callable[[bytes], int], letters: Path, *, follow: bool = False) -> None:
        """``open_at``: returns a descriptor that stands where the mark says."""
        self.source = source
        self.is_exhausted = False
        self._open_at = open_at
        self._follow = follow
        self._letters = DeadLetterFile(letters, source)
        self._fd = -1
        self._buffer = b""
        self._offset = 0
        """Of the first byte in the buffer."""
        self._cut_bytes = 0
        """Of a line that is longer than a message may be, what is not in the buffer."""
        self._at_end = False
        self._waiting: deque[Message] = deque()
        self._unacked: deque[Message] = deque()

    def open(self, mark: bytes) -> None:
        if self._fd < 0:
            self._fd = self._open_at(mark)
            if not self.shared:
                self._offset = int(mark or b"0")
        # A descriptor that is open goes on: a pipe cannot be read twice.
        self._waiting.extendleft(reversed(self._unacked))
        self._unacked.clear()

    def read(self, limit: int, timeout_seconds: float) -> list[Message]:
        if limit == 0:
            return []
        until = time.monotonic() + timeout_seconds
        while len(self._waiting) < limit and not self._at_end:
            left = 0.0 if self._waiting else until - time.monotonic()
            if left < 0 or not self._fill(left):
                break
        found = [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
        self._unacked.extend(found)
        self.is_exhausted = self._at_end and not self._waiting
        return found

    def _fill(self, timeout_seconds: float) -> bool:
        """Read a piece; False: nothing came."""
        if not select.select([self._fd], [], [], timeout_seconds)[0]:
            return False
        try:
            piece = os.read(self._fd, _PIECE_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            raise IntakeError(f"cannot be read: {self.source}: {error.strerror}", hint="check the disk") from error
        if piece:
            self._split(piece)
        elif not self._follow:
            self._at_end = True
            if self._buffer:
                # A last line without its end.
                self._add_line(self._buffer, self._offset + len(self._buffer))
        elif timeout_seconds:
            time.sleep(min(timeout_seconds, _FOLLOW_SECONDS))
        else:
            return False
        return True

    def _split(self, piece: bytes) -> None:
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = self._buffer + lines[0]
            self._buffer = b""
        for line in lines:
            self._add_line(line, self._offset + len(line) + 1)
        self._buffer += rest
        if (over := len(self._buffer) - MAX_BODY_BYTES - 1) > 0:
            # Enough of it to be refused: a file may be one line.
            self._buffer = self._buffer[:-over]
            self._cut_bytes += over

    def _add_line(self, line: bytes, end: int) -> None:
        end, self._cut_bytes = end + self._cut_bytes, 0
        body = line.strip()
        if body and not body.startswith(b"#"):
            self._waiting.append(Message(body, ref=end, id=str(self._offset)))
        self._offset = end

    def ack(self, messages: Sequence[Message]) -> bytes:
        for _ in messages:
            self._unacked.popleft()
        return b"%d" % messages[-1].ref if not self.shared else b""

    def dead_letter(self, letters: Sequence[DeadLetter]) -> None:
        self._letters.add(letters)

    def backlog(self) -> Backlog:
        is_read = not self._unacked and (self.is_exhausted or (self._follow and not self._waiting))
        return Backlog(0 if is_read else None)

    def close(self) -> None:
        if self._fd >= 0 and not self.shared:
            os.close(self._fd)
            # The next ``open`` begins at its mark; what was read of a pipe is kept, because it cannot be read again.
            self._waiting.clear()
            self._unacked.clear()
            self._buffer, self._cut_bytes, self._at_end = b"", 0, False
        self._fd = -1
