"""Files and folders that only their owner may read: stores, spools, archived pages, logs, locks.

They are created with their mode, whatever the umask, so that nobody can open them before a chmod. An existing file must
belong to the user who runs skitter and must not be a link: in a folder that others can write to, a link could lead
to a file that they can read. An older version left such files readable; their mode is corrected when they are used.
Results follow the umask, as the output of any program does.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

FOLDER = Path(".skitter")
"""Default folder of jobs, spools and rejects."""
FOLDER_MODE = 0o700
FILE_MODE = 0o600


class NotPrivateError(OSError):
    """A private file or folder is a link or belongs to another user."""


def make_folder(folder: Path) -> None:
    """Make a private folder and its parents; leave an existing folder as it is, unless it is FOLDER."""
    if folder.name == FOLDER.name or not folder.is_dir():
        if not folder.parent.is_dir():
            make_folder(folder.parent)
        make_own_folder(folder)


def make_own_folder(folder: Path) -> None:
    """Make a private folder; an existing one must be ours, and is made private."""
    with suppress(FileExistsError):
        folder.mkdir(mode=FOLDER_MODE)
    close(folder, FOLDER_MODE)


def make_file(path: Path) -> None:
    """Make an empty private file; an existing one must be ours, and is made private.

    An existing file is not opened: closing any descriptor of an SQLite database drops the locks of the whole process.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    except FileExistsError:
        close(path)


def close(path: Path, mode: int = FILE_MODE) -> None:
    """Make an existing file private; raise NotPrivateError if it is a link or belongs to another user."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        check(path, found)
        # If it is not a regular file, the later open reports that.
        expected = stat.S_IFDIR if mode == FOLDER_MODE else stat.S_IFREG
        if stat.S_IFMT(found.st_mode) == expected and stat.S_IMODE(found.st_mode) & ~mode:
            # A read-only file system can still be read.
            with suppress(OSError):
                path.chmod(mode)


def check(path: Path, found: os.stat_result) -> None:
    """Raise NotPrivateError if a file is a link or belongs to another user."""
    if stat.S_ISLNK(found.st_mode):
        raise NotPrivateError(f"a symbolic link instead of a private file or folder: {path}")
    if found.st_uid != os.geteuid():
        raise NotPrivateError(
            f"belongs to another user: {path}: user {found.st_uid}, this process is user {os.geteuid()}"
        )


def read(path: Path) -> str:
    """Read a file with a secret; raise NotPrivateError if others may read it.

    What is looked at is what was opened: a link may lead to it, as in a folder of mounted secrets. What root has given
    to a group of this process may be read by that group: Kubernetes mounts secrets so for users that are not root.
    """
    with path.open(encoding="utf-8") as file:
        found = os.fstat(file.fileno())
        if found.st_uid not in (os.geteuid(), 0):
            raise NotPrivateError(
                f"belongs to another user: {path}: user {found.st_uid}, this process is user {os.geteuid()}"
            )
        is_given = found.st_uid == 0 != os.geteuid() and found.st_gid in (os.getegid(), *os.getgroups())
        if stat.S_IMODE(found.st_mode) & ~(FILE_MODE | (stat.S_IRGRP if is_given else 0)):
            raise NotPrivateError(f"others may read it: {path}: mode {stat.S_IMODE(found.st_mode):o} instead of 600")
        return file.read()


def opener(path: str, flags: int) -> int:
    """Open a file for ``open(opener=…)``: a new file is private, an existing one keeps its mode."""
    return os.open(path, flags, FILE_MODE)
