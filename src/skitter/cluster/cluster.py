"""``skitter.cluster.connect``: locks, elections, groups, watched keys and rate limits that processes share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Self, TypeVar

from skitter.cluster.contract import Check, Coordinator, Delete, Entry, Put, SessionState, Snapshot, Step
from skitter.cluster.lock import LIFETIME_SECONDS, RETRY_SECONDS, HoldTable, Lock
from skitter.cluster.lock_set import LockSet, lock_names
from skitter.cluster.membership import AWAY_PAUSE_SECONDS, WATCH_SECONDS, MemberEvent, Membership, watch_members
from skitter.cluster.process_identity import worker_id
from skitter.cluster.rate_limit import RateLimit
from skitter.cluster.session import Session
from skitter.errors import ClusterConflictError, ClusterError, ClusterUnavailableError, UsageError

_MAX_NAME = 500
T = TypeVar("T")


class Cluster:
    """A connection to a coordinator. Used as ``async with skitter.cluster.connect(url) as cluster``."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self._session = Session(coordinator)
        self._table = HoldTable()
        self._memberships: list[Membership] = []

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect. Raises ClusterUnavailableError if there is no server."""
        await self._session.open()

    async def close(self) -> None:
        """Release all locks, leave all groups, and disconnect."""
        for held in self._table.all():
            with suppress(ClusterError):
                await held.release()
        for membership in self._memberships:
            with suppress(ClusterError):
                await membership.leave()
        await self._session.close()

    # ---- the session

    @property
    def state(self) -> SessionState:
        """State: CONNECTED, SUSPENDED (the server is unavailable) or LOST (unavailable for longer than a session)."""
        return self._session.state

    @property
    def session_seconds(self) -> float:
        """Time without a sign of life after which other processes consider this one dead."""
        return self.coordinator.session_seconds

    def states(self) -> AsyncIterator[SessionState]:
        """Yield the current state, and then every new state."""
        return self._session.states()

    def on_state(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        """Register a callback, called in the loop with each new state; return a function that unregisters it."""
        return self._session.on_state(callback)

    # ---- locks

    def lock(
        self,
        name: str,
        *,
        lifetime_seconds: float = LIFETIME_SECONDS,
        timeout_seconds: float | None = None,
        retry_seconds: float = RETRY_SECONDS,
        reentrant: bool = False,
        stop_on_loss: bool = False,
    ) -> Lock:
        """Return a lock: ``async with cluster.lock(name) as held``. The holder is the task that enters it.

        A killed holder blocks others for at most ``lifetime_seconds``; a live one renews the lock automatically.
        ``timeout_seconds`` limits the wait for the lock (TimeoutError). ``retry_seconds`` is the pause between two
        attempts if the server has no queue. With ``reentrant`` the task that holds the lock may enter it again. With
        ``stop_on_loss`` the body is cancelled when the lock is lost. If the lock was lost during the body,
        LockLostError is raised at its end.
        """
        return Lock(
            self._session,
            self._table,
            _name(name, "lock"),
            lifetime_seconds=lifetime_seconds,
            timeout_seconds=timeout_seconds,
            retry_seconds=retry_seconds,
            reentrant=reentrant,
            stop_on_loss=stop_on_loss,
        )

    def locks(
        self,
        names: Iterable[str],
        *,
        stripes: int | None = None,
        lifetime_seconds: float = LIFETIME_SECONDS,
        timeout_seconds: float | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> LockSet:
        """Return several locks that are taken in sorted order: ``async with cluster.locks(names) as held``.

        With ``stripes`` all names share that many locks, for cases with too many names.
        """
        named = lock_names((_name(name, "lock") for name in names), stripes)
        made = {
            lock: self.lock(lock, lifetime_seconds=lifetime_seconds, retry_seconds=retry_seconds)
            for lock in named.values()
        }
        return LockSet({name: made[lock] for name, lock in named.items()}, timeout_seconds=timeout_seconds)

    def lead(
        self,
        name: str,
        *,
        lifetime_seconds: float = LIFETIME_SECONDS,
        timeout_seconds: float | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> Lock:
        """Wait to become the leader: ``async with cluster.lead(name)``. The others wait until the leader has left.

        If the leader is cut off from the server, its body is cancelled before another leader can begin, and
        LockLostError is raised.
        """
        return self.lock(
            f"leader of {_name(name, 'election')}",
            lifetime_seconds=lifetime_seconds,
            timeout_seconds=timeout_seconds,
            retry_seconds=retry_seconds,
            stop_on_loss=True,
        )

    # ---- groups

    async def join(
        self, group: str, member: str = "", data: bytes = b"", *, timeout_seconds: float | None = 0.0
    ) -> Membership:
        """Join a group, by default as ``NODE:PID:STARTED``, until ``leave`` or the end of this process.

        Raises ClusterError if another member still has the name after ``timeout_seconds``.
        """
        members = self._part(self.coordinator.members, "groups")
        membership = Membership(
            self._session, members, _name(group, "group"), _name(member or worker_id(), "member"), data
        )
        await membership.join(timeout_seconds)
        self._memberships.append(membership)
        return membership

    async def members(self, group: str) -> dict[str, bytes]:
        """Return the members of a group, with their data."""
        members = self._part(self.coordinator.members, "groups")
        present = await self._session.call(members.present(_name(group, "group")))
        return {member.name: member.data for member in present}

    def watch_members(self, group: str) -> AsyncGenerator[MemberEvent, None]:
        """Yield the present members as joined, and then every join, leave and change of data, also across outages."""
        members = self._part(self.coordinator.members, "groups")
        return watch_members(self._session, members, _name(group, "group"))

    # ---- keys

    async def read(self, path: str) -> Entry | None:
        """Return the value and version of a key; None if there is no such key."""
        keys = self._part(self.coordinator.keys, "keys")
        return (await self._session.call(keys.snapshot(_path(path)))).entry

    async def children(self, path: str = "") -> list[str]:
        """Return the names of the direct children of a key; an empty list if there is no such key."""
        keys = self._part(self.coordinator.keys, "keys")
        return list((await self._session.call(keys.snapshot(_path(path)))).children)

    async def put(self, path: str, value: bytes, *, version: int | None = None) -> int:
        """Write a value, create missing parents, and return the new version.

        ``version`` is the version that the key must have now; 0 if it must not exist. Raises ClusterConflictError if it
        has another version.
        """
        return (await self.transaction([Put(path, value, version)]))[0]

    async def delete(self, path: str, *, version: int | None = None, recursive: bool = False) -> bool:
        """Delete a key; False if there was none. Raises ClusterConflictError if it has children or another version.

        With ``recursive`` everything below it is deleted too, whatever its version.
        """
        keys = self._part(self.coordinator.keys, "keys")
        if recursive:
            if version is not None:
                raise UsageError(f"version and recursive cannot be combined: {path}", hint="a tree has no version")
            return await self._session.call(keys.delete_tree(_path(path)))
        if version is None and await self.read(path) is None:
            return False
        try:
            await self.transaction([Delete(path, version)])
        except ClusterConflictError:
            if version is None and await self.read(path) is None:
                return False
            raise
        return True

    async def transaction(self, steps: Iterable[Step]) -> list[int]:
        """Apply several ``Put``, ``Delete`` and ``Check`` in one step; return the version after each (0: deleted).

        Raises ClusterConflictError, which names the key that is not as a step expects: nothing was changed. After
        ClusterUnavailableError it is unknown whether the transaction was applied.
        """
        keys = self._part(self.coordinator.keys, "keys")
        checked = [_with_path(step) for step in steps]
        paths = [step.path for step in checked]
        if len(set(paths)) < len(paths):
            raise UsageError("a transaction names a key twice", hint="change each key in one step only")
        return await self._session.call(keys.change(checked)) if checked else []

    async def watch(self, path: str) -> AsyncGenerator[Snapshot, None]:
        """Yield a key with its children, and again after every change of either, also across outages.

        Several changes in a short time yield only the last state. Changes below the children are not watched.
        """
        keys = self._part(self.coordinator.keys, "keys")
        path = _path(path)
        known: Snapshot | None = None
        while True:
            try:
                present = await self._session.call(keys.snapshot(path))
                if present != known:
                    known = present
                    yield present
                wait = keys.wait_for_change(path, known, wait_seconds=WATCH_SECONDS)
                await self._session.call(wait, WATCH_SECONDS * 2)
            except ClusterUnavailableError:
                await asyncio.sleep(AWAY_PAUSE_SECONDS)

    # ---- rate limits

    def rate(self, key: str, *, per_second: float, burst: int = 1) -> RateLimit:
        """Return a rate limit that all processes share: call ``await rate.wait()`` before each event."""
        rates = self._part(self.coordinator.rates, "rate limits")
        return RateLimit(self._session, rates, _name(key, "limit"), per_second=per_second, burst=burst)

    def _part(self, part: T | None, what: str) -> T:
        if part is None:
            raise UsageError(
                f"this coordinator has no {what}: {self.coordinator.address}",
                hint="use redis://, zookeeper:// or sqlite: for them; redlock:// has locks and elections",
            )
        return part


def _name(name: str, kind: str) -> str:
    if not 0 < len(name) <= _MAX_NAME or not name.isprintable():
        raise UsageError(f"invalid name of a {kind}: {name[:50]!r}", hint=f"give 1 to {_MAX_NAME} printable characters")
    return name


def _path(path: str) -> str:
    parts = path.strip("/").split("/") if path.strip("/") else []
    if any(part in ("", ".", "..") or not part.isprintable() for part in parts) or len(path) > _MAX_NAME:
        raise UsageError(f"invalid path of a key: {path[:50]!r}", hint="write it as a/b/c, in printable characters")
    return "/".join(parts)


def _with_path(step: Step) -> Step:
    path = _path(step.path)
    if not path:
        raise UsageError("the root of the keys has no value", hint="give a path such as a/b/c")
    match step:
        case Put():
            return Put(path, step.value, step.version)
        case Delete():
            return Delete(path, step.version)
        case Check():
            return Check(path, step.version)
