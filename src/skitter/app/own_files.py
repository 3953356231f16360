"""Files of the job itself, which no output may be: ``-O`` would empty them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from skitter.app.frontiers import sqlite_file
from skitter.errors import UsageError
from skitter.sinks.file_targets import archive_of, is_part_folder
from skitter.sinks.targets import Target

Named = tuple[str, str]
"""A description of a file for the message, and the path of the file."""


def refuse_own_files(outputs: Sequence[Target], frontier: str = "", files: Iterable[Named] = ()) -> None:
    """UsageError for an output that is the frontier's file, one of ``files``, or another output by another name.

    Files that exist are compared by device and inode, so that links do not hide them.
    """
    taken = [*_files_of(frontier), *files]
    for target in outputs:
        path = _path_of(target)
        if not path:
            continue
        for what, other in taken:
            if _is_same(path, other):
                raise UsageError(f"this output is {what}: {target.name}", hint="choose another file with -o")
        taken.append((f"the same file as {target.name}", path))


def _files_of(frontier: str) -> Iterator[Named]:
    if frontier.startswith("sqlite:"):
        store = sqlite_file(frontier)[0]
        for suffix in ("", "-wal", "-shm", "-journal"):
            yield "a file of the frontier, which has the jobs", f"{store}{suffix}"


def _path_of(target: Target) -> str:
    """The file of a target; empty for standard output, a folder of parts and a server."""
    if target.scheme == "sqlite":
        return target.path
    if target.scheme or target.name == "-":
        return ""
    archive = archive_of(target.name)
    name = archive[0] if archive else target.name
    return "" if is_part_folder(name) else name


def _is_same(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
