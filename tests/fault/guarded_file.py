"""A counter in a file that checks fencing tokens, and a process that counts in it under a lock.

``python guarded_file.py URL FILE TARGET LIFETIME_SECONDS`` counts until the target is reached. The file is a resource
as a lock needs it: whoever begins shows its token, and from then on smaller ones are refused.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from skitter.cluster import connect
from skitter.errors import ClusterError, ClusterUnavailableError


class RefusedError(Exception):
    """A smaller token than one that was shown, or a second write with the same one."""


class State(NamedTuple):
    """One line of the file. The last one counts."""

    token: int = 0
    """The highest token shown."""
    count: int = 0
    written: int = 0
    """The token of the last write."""
    pid: int = 0
    """The process that has shown its token last."""
    act: str = "create"


class GuardedFile:
    """A file of states. Each is one append, so that a process that is killed has changed all of it or nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self) -> None:
        self._append(State())

    def begin(self, token: int) -> int:
        """Show a token, and read the count."""
        with self.exclusive():
            state = self.look()
            if token < state.token:
                raise RefusedError(f"{token} after {state.token}")
            self._append(state._replace(token=token, pid=os.getpid(), act="begin"))
            return state.count

    def write(self, token: int, count: int) -> None:
        with self.exclusive():
            state = self.look()
            if token < state.token or token == state.written:
                raise RefusedError(f"{token} after {state.token}")
            self._append(state._replace(count=count, written=token, act="write"))

    def look(self) -> State:
        """The present state, also while a stopped process is in the file."""
        with self._path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 500))
            return _parse(file.read().splitlines()[-1])

    def is_free(self) -> bool:
        """Whether no process is in it."""
        with self._path.with_suffix(".guard").open("w") as guard, suppress(BlockingIOError):
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def writes(self) -> list[tuple[int, int]]:
        """Token and count of each write, in their order."""
        states = map(_parse, self._path.read_bytes().splitlines())
        return [(state.token, state.count) for state in states if state.act == "write"]

    def _append(self, state: State) -> None:
        with self._path.open("ab", buffering=0) as file:
            file.write(" ".join(map(str, state)).encode() + b"\n")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep every other process from changing it."""
        with self._path.with_suffix(".guard").open("w") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            yield


def _parse(line: bytes) -> State:
    *numbers, act = line.decode().split()
    return State(*map(int, numbers), act=act)


async def count(url: str, file: GuardedFile, target: int, lifetime_seconds: float) -> None:
    async with connect(url, session_seconds=max(2.0, lifetime_seconds)) as cluster:
        lock = cluster.lock("file", lifetime_seconds=lifetime_seconds, retry_seconds=0.01)
        while True:
            try:
                async with lock as held:
                    assert held.token is not None
                    number = file.begin(held.token)
                    if number >= target:
                        return
                    # The others would read the same count now, if nothing kept them out.
                    await asyncio.sleep(random.uniform(0, 0.002))
                    file.write(held.token, number + 1)
            except (RefusedError, ClusterError) as error:
                sys.stderr.write(f"{os.getpid()}: {type(error).__name__}: {error}\n")


async def main(url: str, path: str, target: str, lifetime_seconds: str) -> None:
    while True:
        try:
            await count(url, GuardedFile(Path(path)), int(target), float(lifetime_seconds))
        except ClusterUnavailableError:
            # The server was unavailable when this process began.
            await asyncio.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
