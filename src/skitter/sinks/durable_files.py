"""Durable files for sinks: locked by one owner, appended to with rollback, or replaced atomically.

Every OSError becomes a SinkError with a hint here.
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
from skitter.errors import MissingFolderError, SinkError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_NOT_A_FILE = {errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP}


@contextmanager
def sink_errors(target: str) -> Iterator[None]:
    """Raise SinkError for every OSError in the block."""
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
    hint = "nothing is lost: correct the cause and run the same command again"
    if error.errno in _FORBIDDEN:
        hint = "choose a file in a folder that you may write to"
    elif error.errno in _NOT_A_FILE:
        hint = "choose the name of a file in an existing folder"
    return SinkError(f"cannot write results: {target}: {error.strerror or error}", hint=hint)


def resolve_file(target: str) -> Path:
    """Return the path of a target with links followed, and make its folder. Raises SinkError if it is no file."""
    with sink_errors(target):
        _keep_private(Path(target).parent)
        path = Path(os.path.realpath(target))
        _make_folder(path.parent, target)
        if path.exists():
            if not stat.S_ISREG(path.stat().st_mode):
                raise SinkError(
                    f"not a regular file: {target}",
                    hint="choose the name of a new file, or of one with earlier results",
                )
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return path


def resolve_folder(folder: Path, target: str, *, private: bool = False, parents: bool = False) -> Path:
    """Return the path of a folder with links followed, and make it, with all ``parents`` if it is no output's folder.

    ``private``: only its owner can read it.
    """
    with sink_errors(target):
        _keep_private(folder)
        if private:
            _make_folder(folder.parent, target)
            private_files.make_own_folder(folder)
            sync_folder(folder.parent)
        path = Path(os.path.realpath(folder))
        _make_folder(path, "" if parents else target)
        return path


def _keep_private(folder: Path) -> None:
    """Make the .skitter folder private: only its owner can read it."""
    if folder.parts[:1] == private_files.FOLDER.parts:
        private_files.make_folder(private_files.FOLDER)


def _make_folder(folder: Path, output: str = "") -> None:
    """Make a folder; that of an output only if it alone is missing, below the working directory: it may be a volume."""
    if not folder.is_dir():
        here = Path.cwd()
        if output and not folder.exists() and not (folder.parent.exists() and folder.is_relative_to(here)):
            missing = next(each for each in (folder, *folder.parents) if each.parent.exists())
            shown = missing.relative_to(here) if missing.is_relative_to(here) else missing
            raise MissingFolderError(
                f"the folder of the output {output} does not exist: {shown}",
                hint="create it, or mount its volume; only a single missing folder below the working directory is made",
            )
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names of new and renamed files in the folder durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all data, also to a non-blocking pipe."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            select.select([], [fd], [])


class AppendFile:
    """A file that one process appends to, under a lock that ends with the process."""

    def __init__(self, path: Path, target: str, *, private: bool = False) -> None:
        """Open and lock the file; make it if there is none. Raises SinkError while another process has it.

        ``private``: for its owner alone; otherwise the umask says who may read it.
        """
        self.path = path
        self._private = private
        self.was_there = True
        self.end = 0
        """The offset of the next append: everything before is committed or existed earlier."""
        self._target = target
        self._kept = False
        with sink_errors(target):
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
                        hint="wait until it ends, or choose another file with -o",
                    ) from error
                raise
            # A former owner may have removed or replaced the file between our open and our lock; then
            # we hold the lock of a file that has no name.
            if _is_at(self.path, fd):
                return fd
            os.close(fd)

    def size(self) -> int:
        """Return the size of the file, including bytes after ``end``."""
        return os.fstat(self._fd).st_size

    def read(self, start: int, length: int) -> bytes:
        """Read at most ``length`` bytes from ``start``."""
        with sink_errors(self._target):
            return os.pread(self._fd, length, start)

    def cut(self, end: int) -> None:
        """Truncate the file to ``end``."""
        with sink_errors(self._target):
            os.ftruncate(self._fd, end)
        self.end = end

    def append(self, data: bytes | Iterable[bytes]) -> None:
        """Append durably; when it raises, the file ends where it did. Large data is passed as an iterable of pieces."""
        size = 0
        with sink_errors(self._target):
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

    def persist(self) -> None:
        """Make the file's length and name durable. Until then, ``close`` removes a file that was made here."""
        with sink_errors(self._target):
            os.fsync(self._fd)
            sync_folder(self.path.parent)
        self._kept = True

    def close(self, *, remove: bool = False) -> None:
        """Close and unlock the file. It is removed under the lock, so that no other process has begun to use it."""
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
    """Replace the file atomically by the output of ``render``."""
    temporary = path.with_name(f".{path.name}.render")
    with sink_errors(target):
        temporary.unlink(missing_ok=True)
        try:
            # The new file must never be readable by more users than the target; the umask decides for a new target.
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
