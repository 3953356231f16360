"""Several locks taken in sorted order, so that two holders of overlapping sets never deadlock."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping

from skitter.cluster.clock import now_seconds
from skitter.cluster.lock import Held, Lock
from skitter.cluster.loss import AnyLoss
from skitter.errors import LockLostError


class HeldSet:
    """The locks that ``async with cluster.locks(names) as held`` holds, with a signal of their loss."""

    def __init__(self, held: Mapping[str, Held]) -> None:
        self._held = held
        self.lost = AnyLoss([one.lost for one in held.values()])
        """Set before another process can take any of the locks."""

    def __getitem__(self, name: str) -> Held:
        return self._held[name]

    @property
    def tokens(self) -> dict[str, int | None]:
        """The fencing token of each name."""
        return {name: one.token for name, one in self._held.items()}

    def check(self) -> None:
        """Raise LockLostError if one of the locks is lost."""
        for one in self._held.values():
            one.check()


class LockSet:
    """Locks of several names, made by ``Cluster.locks``. Use an object for one ``async with`` at a time."""

    def __init__(self, locks: Mapping[str, Lock], *, timeout_seconds: float | None) -> None:
        """``locks``: the lock of each name; names that share a stripe have the same one."""
        self._locks = locks
        self._timeout_seconds = timeout_seconds
        self._held: dict[str, Held] = {}

    async def __aenter__(self) -> HeldSet:
        return await self.acquire()

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        # The error of the body says more than that a lock was lost by then.
        await self.release(ignore_loss=error is not None)

    async def acquire(self, *, holder: Hashable | None = None) -> HeldSet:
        """Take all locks, or none. Raises TimeoutError if another holder keeps one of them."""
        until = None if self._timeout_seconds is None else now_seconds() + self._timeout_seconds
        try:
            for lock in sorted(set(self._locks.values()), key=lambda lock: lock.name):
                rest = None if until is None else max(0.0, until - now_seconds())
                self._held[lock.name] = await lock.acquire(timeout_seconds=rest, holder=holder)
        except BaseException:
            await self.release(ignore_loss=True)
            raise
        return HeldSet({name: self._held[lock.name] for name, lock in self._locks.items()})

    async def release(self, *, ignore_loss: bool = False) -> None:
        """Release all locks, the last one first. Raises LockLostError if one was lost."""
        lost: LockLostError | None = None
        while self._held:
            _, held = self._held.popitem()
            try:
                await held.leave()
            except LockLostError as error:
                lost = error
        if lost is not None and not ignore_loss:
            raise lost


def stripe_of(name: str, stripes: int) -> str:
    """The lock that stands for a name when all names share this many."""
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest()
    return f"stripe {int.from_bytes(digest) % stripes} of {stripes}"


def lock_names(names: Iterable[str], stripes: int | None) -> dict[str, str]:
    """The name of the lock of each name."""
    return {name: stripe_of(name, stripes) if stripes else name for name in names}
