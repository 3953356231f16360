"""``skitter.cluster.connect_blocking``: the cluster for a program without an event loop. Threads are the holders."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

from skitter.cluster.cluster import Cluster
from skitter.cluster.contract import Entry, SessionState, Snapshot, Step
from skitter.cluster.coordinators import SESSION_SECONDS, connect
from skitter.cluster.lock import LIFETIME_SECONDS, RETRY_SECONDS, Held, Lock
from skitter.cluster.membership import MemberEvent, Membership
from skitter.cluster.rate_limit import RateLimit
from skitter.concurrency import LoopThread
from skitter.errors import LockLostError

T = TypeVar("T")


class BlockingHeld:
    """A lock that this thread holds, like ``Held``."""

    def __init__(self, held: Held, wait_for: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.name = held.name
        self.token = held.token
        self._held = held
        self._wait_for = wait_for

    @property
    def is_lost(self) -> bool:
        """Whether another process may have the lock by now."""

        async def look() -> bool:
            return self._held.lost.is_set()

        return bool(self._wait_for(look()))

    def wait_until_lost(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the lock is lost; False if it is not lost within this time."""

        async def wait() -> bool:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._held.lost.wait()
            except TimeoutError:
                return False
            return True

        return bool(self._wait_for(wait()))

    def check(self) -> None:
        """Raise LockLostError if the lock is lost or released."""

        async def check() -> None:
            self._held.check()

        self._wait_for(check())

    def extend(self, lifetime_seconds: float | None = None) -> None:
        """Restart the lifetime. Raises LockLostError if the lock is lost."""
        self._wait_for(self._held.extend(lifetime_seconds))


class BlockingCluster:
    """A connection to a coordinator, made by ``connect_blocking``; ``Cluster`` describes each method.

    Threads may share it: a lock belongs to the thread that took it, and two threads exclude each other.
    """

    def __init__(self, url: str, *, session_seconds: float = SESSION_SECONDS) -> None:
        # The loop renews locks whatever the program does.
        self._thread = LoopThread("skitter-cluster")
        self._wait_for = self._thread.wait_for
        try:
            self._cluster: Cluster = self._wait_for(self._connect(url, session_seconds))
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all locks, leave all groups, and disconnect. May be called again."""
        if self._thread.is_stopped:
            return
        try:
            self._wait_for(self._cluster.close())
        finally:
            self._thread.stop()

    @property
    def state(self) -> SessionState:
        """State: CONNECTED, SUSPENDED or LOST."""

        async def look() -> SessionState:
            return self._cluster.state

        return self._wait_for(look())

    @contextmanager
    def lock(
        self,
        name: str,
        *,
        lifetime_seconds: float = LIFETIME_SECONDS,
        timeout_seconds: float | None = None,
        retry_seconds: float = RETRY_SECONDS,
        reentrant: bool = False,
    ) -> Iterator[BlockingHeld]:
        """Hold a lock: ``with cluster.lock(name) as held``. Raises LockLostError at the end if it was lost."""
        lock = self._cluster.lock(
            name,
            lifetime_seconds=lifetime_seconds,
            timeout_seconds=timeout_seconds,
            retry_seconds=retry_seconds,
            reentrant=reentrant,
        )
        with self._holding(lock) as held:
            yield held

    @contextmanager
    def locks(
        self,
        names: Iterable[str],
        *,
        stripes: int | None = None,
        lifetime_seconds: float = LIFETIME_SECONDS,
        timeout_seconds: float | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> Iterator[dict[str, int | None]]:
        """Hold several locks, taken in sorted order; returns the fencing token of each."""
        locks = self._cluster.locks(
            names,
            stripes=stripes,
            lifetime_seconds=lifetime_seconds,
            timeout_seconds=timeout_seconds,
            retry_seconds=retry_seconds,
        )
        held = self._wait_for(locks.acquire(holder=threading.get_ident()))
        try:
            yield held.tokens
        except BaseException:
            self._wait_for(locks.release(ignore_loss=True))
            raise
        self._wait_for(locks.release())

    @contextmanager
    def lead(self, name: str, *, lifetime_seconds: float = LIFETIME_SECONDS) -> Iterator[BlockingHeld]:
        """Wait to become the leader. A thread cannot be stopped, so check ``is_lost`` before every step."""
        with self._holding(self._cluster.lead(name, lifetime_seconds=lifetime_seconds)) as held:
            yield held

    def join(
        self, group: str, member: str = "", data: bytes = b"", *, timeout_seconds: float | None = 0.0
    ) -> BlockingMembership:
        """Join a group, until ``leave`` or the end of this process."""
        joined = self._wait_for(self._cluster.join(group, member, data, timeout_seconds=timeout_seconds))
        return BlockingMembership(joined, self._wait_for)

    def members(self, group: str) -> dict[str, bytes]:
        """Return the members of a group, with their data."""
        return self._wait_for(self._cluster.members(group))

    def watch_members(self, group: str) -> Iterator[MemberEvent]:
        """Yield the present members as joined, and then every join, leave and change of data."""
        return self._taken(self._cluster.watch_members(group))

    def read(self, path: str) -> Entry | None:
        """Return the value and version of a key; None if there is no such key."""
        return self._wait_for(self._cluster.read(path))

    def children(self, path: str = "") -> list[str]:
        """Return the names of the direct children of a key."""
        return self._wait_for(self._cluster.children(path))

    def put(self, path: str, value: bytes, *, version: int | None = None) -> int:
        """Write a value, and return its new version. Raises ClusterConflictError if the key has another version."""
        return self._wait_for(self._cluster.put(path, value, version=version))

    def delete(self, path: str, *, version: int | None = None, recursive: bool = False) -> bool:
        """Delete a key; False if there was none."""
        return self._wait_for(self._cluster.delete(path, version=version, recursive=recursive))

    def transaction(self, steps: Iterable[Step]) -> list[int]:
        """Apply several ``Put``, ``Delete`` and ``Check`` in one step; return the version after each."""
        return self._wait_for(self._cluster.transaction(steps))

    def watch(self, path: str) -> Iterator[Snapshot]:
        """Yield a key with its children, and again after every change."""
        return self._taken(self._cluster.watch(path))

    def rate(self, key: str, *, per_second: float, burst: int = 1) -> BlockingRateLimit:
        """Return a rate limit that all processes share: call ``rate.wait()`` before each event."""
        return BlockingRateLimit(self._cluster.rate(key, per_second=per_second, burst=burst), self._wait_for)

    @contextmanager
    def _holding(self, lock: Lock) -> Iterator[BlockingHeld]:
        held = self._wait_for(lock.acquire(holder=threading.get_ident()))
        try:
            yield BlockingHeld(held, self._wait_for)
        except BaseException:
            # The error of the body says more than that the lock was lost by then.
            with suppress(LockLostError):
                self._wait_for(held.leave())
            raise
        self._wait_for(held.leave())

    def _taken(self, stream: AsyncGenerator[T, None]) -> Iterator[T]:
        async def take() -> T:
            return await anext(stream)

        try:
            while True:
                yield self._wait_for(take())
        finally:
            if not self._thread.is_stopped:
                self._wait_for(stream.aclose())

    @staticmethod
    async def _connect(url: str, session_seconds: float) -> Cluster:
        cluster = connect(url, session_seconds=session_seconds)
        await cluster.open()
        return cluster


class BlockingMembership:
    """Membership in a group, like ``Membership``."""

    def __init__(self, membership: Membership, wait_for: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.name = membership.name
        self._membership = membership
        self._wait_for = wait_for

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def set_data(self, data: bytes) -> None:
        """Replace the data that others see."""
        self._wait_for(self._membership.set_data(data))

    def leave(self) -> None:
        """Leave the group at once; a second call does nothing."""
        self._wait_for(self._membership.leave())


class BlockingRateLimit:
    """A rate limit, like ``RateLimit``."""

    def __init__(self, limit: RateLimit, wait_for: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._limit = limit
        self._wait_for = wait_for

    def wait(self, *, timeout_seconds: float | None = None) -> None:
        """Wait until one event may happen. Raises TimeoutError if that would take longer than ``timeout_seconds``."""
        self._wait_for(self._limit.wait(timeout_seconds=timeout_seconds))

    def take(self) -> bool:
        """Return whether the event may happen now."""
        return bool(self._wait_for(self._limit.take()))


def connect_blocking(url: str, *, session_seconds: float = SESSION_SECONDS) -> BlockingCluster:
    """Connect to a coordinator, for a script: ``with skitter.cluster.connect_blocking(url) as cluster``."""
    return BlockingCluster(url, session_seconds=session_seconds)
