"""Files as sinks need them: one owner, durable appends that are cut back when they fail, replaced whole.

Every OSError becomes a SinkError here, with what the user can do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from skitter import private_files
from skitter.errors import SinkError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_NOT_A_PLACE = {errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP}


@contextmanager
def mapped(target: str) -> Iterator[None]:
    """Raise SinkError for every OSError inside."""
    try:
        yield
    except OSError as error:
        raise _sink_error(target, error) from error


def _sink_error(target: str, error: OSError) -> SinkError:
    if isinstance(error, private_files.NotPrivateError):
        return SinkError(f"cannot write results: {target}: {error}", hint="remove it, or work in another folder")
    if error.errno in _FULL:
        what = "the disk is full" if error.errno == errno.ENOSPC else error.strerror
        return SinkError(
            f"cannot write results: {target}: {what}",
            hint="nothing is lost: free some space and run the same command again",
        )
    hint = "nothing is lost: when the cause is gone, run the same command again"
    if error.errno in _FORBIDDEN:
        hint = "choose a file in a folder that you may write to"
    elif error.errno in _NOT_A_PLACE:
        hint = "choose the name of a file, in a folder"
    return SinkError(f"cannot write results: {target}: {error.strerror or error}", hint=hint)


def in_place(target: str) -> Path:
    """Where the target really is, links followed, in a folder that exists. Raises for what is not a file."""
    with mapped(target):
        _keep_private(Path(target).parent)
        path = Path(os.path.realpath(target))
        _make_folder(path.parent)
        if path.exists():
            if not stat.S_ISREG(path.stat().st_mode):
                raise SinkError(f"not a file: {target}", hint="choose the name of a file, new or with earlier results")
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return path


def made_folder(folder: Path, target: str, *, private: bool = False) -> Path:
    """Where a folder really is, links followed; made if there is none. ``private``: for its owner alone."""
    with mapped(target):
        _keep_private(folder)
        if private:
            _make_folder(folder.parent)
            private_files.make_own_folder(folder)
            sync_folder(folder.parent)
        path = Path(os.path.realpath(folder))
        _make_folder(path)
        return path


def _keep_private(folder: Path) -> None:
    """What lies in .skitter is private, whoever puts it there."""
    if folder.parts[:1] == private_files.FOLDER.parts:
        private_files.make_folder(private_files.FOLDER)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make names in the folder durable: a new file's, a renamed one's."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """All of it, also to a pipe that somebody has made non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            select.select([], [fd], [])


class AppendFile:
    """A file that one process appends to, under a lock that goes when the process does."""

    def __init__(self, path: Path, target: str, *, private: bool = False) -> None:
        """Open and lock the file; make it if there is none. Raises SinkError while another process has it.

        ``private``: for its owner alone; otherwise the umask says who may read it.
        """
        self.path = path
        self._private = private
        self.was_there = True
        self.end = 0
        """Where the next append goes: everything before is committed, or was there before."""
        self._target = target
        self._kept = False
        with mapped(target):
            self._fd = self._open_locked()
        self.end = self.size()

    def _open_locked(self) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        mode = private_files.FILE_MODE if self._private else 0o666
        while True:
            if self._private:
                private_files.close(self.path)
            try:
                fd, self.was_there = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, mode), False
            except FileExistsError:
                try:
                    fd, self.was_there = os.open(self.path, flags), True
                except FileNotFoundError:
                    continue  # removed in between
            try:
                if self._private:
                    private_files.check(self.path, os.fstat(fd))
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(fd)
                if isinstance(error, BlockingIOError):
                    raise SinkError(
                        f"in use by another process: {self._target}",
                        hint="wait until it ends, or give another file with -o",
                    ) from error
                raise
            # A former owner may have removed or replaced the file between our open and our lock; then
            # we hold the lock of a file that has no name.
            if _is_at(self.path, fd):
                return fd
            os.close(fd)

    def size(self) -> int:
        """Of the file, whatever stands behind ``end`` included."""
        return os.fstat(self._fd).st_size

    def read(self, start: int, length: int) -> bytes:
        """At most so many bytes from there."""
        with mapped(self._target):
            return os.pread(self._fd, length, start)

    def cut(self, end: int) -> None:
        """Forget everything from ``end`` on."""
        with mapped(self._target):
            os.ftruncate(self._fd, end)
        self.end = end

    def append(self, data: bytes | Iterable[bytes]) -> None:
        """Durable when it returns; when it raises, the file ends where it did. What is large comes in pieces."""
        size = 0
        with mapped(self._target):
            try:
                os.lseek(self._fd, self.end, os.SEEK_SET)
                for piece in (data,) if isinstance(data, bytes) else data:
                    write_all(self._fd, piece)
                    size += len(piece)
                os.fsync(self._fd)
            except BaseException:
                # If this fails too, the next open finds the tail and cuts it off.
                with suppress(OSError):
                    os.ftruncate(self._fd, self.end)
                raise
        self.end += size

    def keep(self) -> None:
        """Make the file's length and its name durable. Until then, a file that was made here goes when it is closed."""
        with mapped(self._target):
            os.fsync(self._fd)
            sync_folder(self.path.parent)
        self._kept = True

    def close(self, *, remove: bool = False) -> None:
        """Unlocks, too. What is removed is removed under the lock: nobody else has begun with it."""
        if self._fd >= 0:
            with suppress(OSError):
                if remove or not (self._kept or self.was_there):
                    self.path.unlink(missing_ok=True)
            with suppress(OSError):
                os.close(self._fd)
            self._fd = -1


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def replace(path: Path, target: str, render: Callable[[BinaryIO], None]) -> None:
    """The file with what ``render`` writes, or as it was: never half of it."""
    temporary = path.with_name(f".{path.name}.render")
    with mapped(target):
        temporary.unlink(missing_ok=True)
        try:
            # At no time may more people read it than the target: a new one is read by whom the umask lets.
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, 0o666 if mode is None else mode), "wb") as out:
                if mode is not None:
                    os.fchmod(out.fileno(), mode)
                render(out)
                out.flush()
                os.fsync(out.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
