"""Several locks taken in sorted order, so that two who want the same ones never wait for each other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from skitter.cluster.clock import now_seconds
from skitter.cluster.lock import Held, Lock
from skitter.cluster.loss import AnyLoss
from skitter.errors import LockLostError


class HeldSet:
    """The locks that ``async with cluster.locks(names) as held`` holds, and what is lost of them."""

    def __init__(self, held: Mapping[str, Held]) -> None:
        self._held = held
        self.lost = AnyLoss([one.lost for one in held.values()])
        """Set before another can have any of the locks."""

    def __getitem__(self, name: str) -> Held:
        return self._held[name]

    @property
    def tokens(self) -> dict[str, int | None]:
        """The fencing token of each name."""
        return {name: one.token for name, one in self._held.items()}

    def check(self) -> None:
        """LockLostError if one of them is lost."""
        for one in self._held.values():
            one.check()


class LockSet:
    """Locks of several names. Made by ``Cluster.locks``; an object is for one ``async with`` at a time."""

    def __init__(self, locks: Mapping[str, Lock], *, timeout_seconds: float | None) -> None:
        """``locks``: the lock of each name; names that share a stripe have the same one."""
        self._locks = locks
        self._timeout_seconds = timeout_seconds
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> HeldSet:
        until = None if self._timeout_seconds is None else now_seconds() + self._timeout_seconds
        by_lock: dict[str, Held] = {}
        async with AsyncExitStack() as stack:
            for lock in sorted(set(self._locks.values()), key=lambda lock: lock.name):
                rest = None if until is None else max(0.0, until - now_seconds())
                held = by_lock[lock.name] = await lock.acquire(timeout_seconds=rest)
                stack.push_async_exit(_Release(held))
            self._stack = stack.pop_all()
        return HeldSet({name: by_lock[lock.name] for name, lock in self._locks.items()})

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)


class _Release:
    """Releases one of several holds; the error of the body is not replaced by that of a lost lock."""

    def __init__(self, held: Held) -> None:
        self._held = held

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            await self._held.leave()
        except LockLostError:
            if error is None:
                raise


def stripe_of(name: str, stripes: int) -> str:
    """The lock that stands for a name when all names share this many."""
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest()
    return f"stripe {int.from_bytes(digest) % stripes} of {stripes}"


def lock_names(names: Iterable[str], stripes: int | None) -> dict[str, str]:
    """The name of the lock of each name."""
    return {name: stripe_of(name, stripes) if stripes else name for name in names}
