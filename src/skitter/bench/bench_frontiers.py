"""Temporary jobs of the bench in the frontiers that are measured.

A Redis may hold jobs of others. Nothing but the bench's own job is touched there, under a name that nobody else has.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from skitter.app.frontiers import drop_job, is_redis, open_frontier
from skitter.errors import SkitterError, UsageError
from skitter.frontier.contract import Frontier
from skitter.model.secrets import shown_address

DEFAULTS = ("memory:", "sqlite:")
NEW_FILE = "sqlite:"
"""The address of a new file in the folder of the measurement."""


class Store(msgspec.Struct, frozen=True):
    """The frontier and the name of one temporary job."""

    address: str
    job: str

    @property
    def holds(self) -> str:
        """Return what URLs occupy there: ``memory`` or ``disk``."""
        return "disk" if self.address.startswith("sqlite:") else "memory"

    def open(self, *, create: bool = True) -> Frontier:
        return open_frontier(self.address, self.job, create=create)

    async def size(self) -> int | None:
        """Return the bytes that the whole store takes now; None if unknown.

        Of a file while nobody has it open: then nothing is left in its log.
        """
        if not is_redis(self.address):
            return self._size_here()
        from skitter.redis_driver.server_checks import parse_info

        # In a cluster one node would answer for itself.
        if "+cluster" in self.address:
            return None
        return int(parse_info(await redis_command(self.address, "INFO", "memory"))["used_memory"])

    def forget(self) -> None:
        """Remove the job, or what an interrupted measurement has left of it."""
        if is_redis(self.address):
            asyncio.run(drop_job(self.address, self.job))
        elif self.address.startswith("sqlite:"):
            for end in ("", "-wal", "-shm"):
                Path(self.address.partition(":")[2] + end).unlink(missing_ok=True)

    def _size_here(self) -> int:
        if self.address.startswith("memory:"):
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        path = Path(self.address.partition(":")[2])
        return path.stat().st_size if path.exists() else 0


async def redis_command(url: str, *words: object) -> Any:
    """Send one command to a Redis, and return its answer."""
    from skitter.frontier.redis.client import RedisServer
    from skitter.redis_driver.address import parse_address

    server = RedisServer(parse_address(url))
    try:
        return await server.command(*words)
    finally:
        await server.close()


@contextlib.contextmanager
def own_store(address: str, folder: Path) -> Iterator[Store]:
    """Make a new job at an address, and remove it at the end of the block."""
    if address.startswith("sqlite:"):
        # Absolute: who is measured stands in another folder.
        path = folder / "job.db" if address == NEW_FILE else Path(address.partition(":")[2]).absolute()
        address = f"sqlite:{path}"
    store = Store(address, f"bench-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        yield store
    except BaseException:
        # The first error matters, and not that a server which is unavailable keeps the job.
        with contextlib.suppress(SkitterError):
            store.forget()
        raise
    store.forget()


def names_of(addresses: Sequence[str]) -> dict[str, str]:
    """Return a short name for each address; raises for addresses that cannot be measured."""
    names: dict[str, str] = {}
    for address in dict.fromkeys(addresses):
        scheme = address.partition(":")[0]
        if address not in DEFAULTS:
            _check(address, scheme)
        names[address] = scheme if scheme not in names.values() else shown_address(address)
    return names


def _check(address: str, scheme: str) -> None:
    if scheme == "sqlite" and (path := Path(address.partition(":")[2])).exists():
        raise UsageError(f"the file already exists: {path}", hint="name a new file, which the bench removes at the end")
    if scheme not in ("memory", "sqlite") and not is_redis(address):
        # Opening raises the usual error for a bad address.
        open_frontier(address, "bench", create=False)
