"""Files and folders that only their owner may read: stores, spools, pages written ahead, logs, locks.

They are made with their mode, whatever the umask, and not changed to it afterwards: nobody can open them in between.
What is there already must belong to the user who runs skitter, and must not be a link. In a folder in which others may
write, they could otherwise have it written where they can read it. An older version left such files open to all; they
are closed when they are used. Results follow the umask, as the output of any program does.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

FOLDER = Path(".skitter")
"""Where jobs, spools and rejects are kept when the user names no place."""
FOLDER_MODE = 0o700
FILE_MODE = 0o600


class NotPrivateError(OSError):
    """A link, or something of another owner, where a private file or folder should be."""


def make_folder(folder: Path) -> None:
    """Make it, and what it lies in, for the owner alone. One that is there is left as it is, unless it is FOLDER."""
    if folder.name == FOLDER.name or not folder.is_dir():
        if not folder.parent.is_dir():
            make_folder(folder.parent)
        make_own_folder(folder)


def make_own_folder(folder: Path) -> None:
    """Make it for the owner alone; one that is there must be ours, and becomes so."""
    with suppress(FileExistsError):
        folder.mkdir(mode=FOLDER_MODE)
    close(folder, FOLDER_MODE)


def make_file(path: Path) -> None:
    """Make it, empty, for the owner alone; one that is there must be ours, and becomes so.

    An existing file is not opened: whoever closes a database that is in use in the same process unlocks it.
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    except FileExistsError:
        close(path)


def close(path: Path, mode: int = FILE_MODE) -> None:
    """Close it to everybody else, if it is there. NotPrivateError if it is a link or of another owner."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        check(path, found)
        # What is no file where a file should be is left to whoever opens it.
        expected = stat.S_IFDIR if mode == FOLDER_MODE else stat.S_IFREG
        if stat.S_IFMT(found.st_mode) == expected and stat.S_IMODE(found.st_mode) & ~mode:
            # A file system that is read-only can still be looked at.
            with suppress(OSError):
                path.chmod(mode)


def check(path: Path, found: os.stat_result) -> None:
    """NotPrivateError if what was found there is a link or belongs to another user."""
    if stat.S_ISLNK(found.st_mode):
        raise NotPrivateError(f"a link, where a private file or folder should be: {path}")
    if found.st_uid != os.geteuid():
        raise NotPrivateError(f"belongs to another user: {path}: user {found.st_uid}, and this is {os.geteuid()}")


def opener(path: str, flags: int) -> int:
    """For ``open(opener=…)``: a new file is for its owner alone, and one that is there stays as it is."""
    return os.open(path, flags, FILE_MODE)
