"""The coordinator contract: the few steps that a backend of ``skitter.cluster`` implements, each of them atomic.

The facade (``cluster.cluster``) owns everything else: renewal, waiting, time-outs, loss, re-entrance, the state of the
session, events. A backend is used by one event loop. Every call waits for its server without blocking the loop, may be
cancelled at any point, and raises ``ClusterAwayError`` when the server is away (whether the step happened is then not
known) and ``ClusterError`` when asking again does not help.

Lifetimes are counted by the facade from the moment *before* a call was sent, and by the server from when it runs it.
So the facade always knows first that a hold is over, as long as the clocks run equally fast; its margin covers drift.

Names of locks, groups, members and keys of limits are any text of 1 to 500 characters without control characters; a
backend quotes what its server does not take. Paths are normalised: ``a/b/c``, without a slash at either end; the
root, which has children and no value, is the empty path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec


class SessionState(StrEnum):
    """What a process may believe of its coordinator."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The server does not answer. What is held is still held, until its lifetime is over."""
    LOST = "lost"
    """It has not answered for ``session_seconds``: others may take this process for gone."""


class Hold(msgspec.Struct, frozen=True):
    """A lock that an owner has."""

    token: int | None
    """The fencing token: greater than that of every earlier holder of this lock. None: the backend has no safe one."""
    lifetime_seconds: float
    """How long it lasts without renewal, counted from before the call: at most what was asked for.

    Where holds end with a session (ZooKeeper), the time of the session. Where several clocks take part (redlock), less
    what they may drift.
    """


class Entry(msgspec.Struct, frozen=True):
    """A key with its value."""

    path: str
    value: bytes
    version: int
    """At least 1, and greater after each put. An entry that is deleted and made again may begin anew."""


class Snapshot(msgspec.Struct, frozen=True):
    """A key and its children, read in one step."""

    entry: Entry | None
    """None: there is no such key (the root never has an entry)."""
    children: tuple[str, ...]
    """Names of the direct children, without the path, sorted."""


class Put(msgspec.Struct, frozen=True, tag="put"):
    """Write a value. Missing parents are made, with empty values."""

    path: str
    value: bytes
    version: int | None = None
    """The version it must have now; 0: it must not be there; None: whatever it is."""


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    """Delete a key that is there and has no children."""

    path: str
    version: int | None = None
    """The version it must have now; None: whatever it is."""


class Check(msgspec.Struct, frozen=True, tag="check"):
    """Change nothing, and let the transaction fail unless the key has this version; 0: unless it is not there."""

    path: str
    version: int


Step = Put | Delete | Check


class Member(msgspec.Struct, frozen=True):
    """One who is in a group."""

    name: str
    data: bytes


class Locks(Protocol):
    """Locks with owners. An owner is a text that is never used again after its release."""

    async def acquire(
        self, name: str, owner: str, *, lifetime_seconds: float, wait_seconds: float | None
    ) -> Hold | None:
        """Take a lock if it is free; an owner that has it already gets the same token, and a whole lifetime again.

        None: another has it. A backend that keeps a queue waits for its turn, up to ``wait_seconds`` (None: for ever).
        Others answer at once, and are asked again. When it raises or is cancelled, ``release`` follows: it also ends a
        place in the queue, and what was taken by a call whose answer was lost.
        """
        ...

    async def renew(self, name: str, owner: str, *, lifetime_seconds: float) -> Hold | None:
        """Begin the lifetime anew; None: this owner does not have the lock (any more)."""
        ...

    async def release(self, name: str, owner: str) -> bool:
        """Give a lock back, or leave its queue. False: this owner did not have it; nothing has changed then."""
        ...


class Members(Protocol):
    """Groups of those who are alive. A member is of the coordinator object that it joined with."""

    async def join(self, group: str, member: str, data: bytes, *, lifetime_seconds: float) -> float | None:
        """Join, or renew; return how long it lasts without renewal, as ``Hold.lifetime_seconds``.

        Called again by the same object it begins the lifetime anew and writes the data, also if the member has
        vanished meanwhile. None: another object that may live has a member of this name.
        """
        ...

    async def leave(self, group: str, member: str) -> None:
        """Leave at once. Not an error if it is not there, or is another's."""
        ...

    async def present(self, group: str) -> list[Member]:
        """Those who are there, sorted by name."""
        ...

    async def wait_for_change(self, group: str, known: Sequence[Member], *, wait_seconds: float) -> None:
        """Return when ``present(group)`` may differ from ``known``, after ``wait_seconds`` at the latest.

        May return early. A backend that is not told of changes sleeps for a moment.
        """
        ...


class Keys(Protocol):
    """A tree of keys that outlive the processes that wrote them."""

    async def snapshot(self, path: str) -> Snapshot: ...

    async def change(self, steps: Sequence[Step]) -> list[int]:
        """Do all of it or nothing, and return the version after each step (0 after Delete).

        ``ClusterConflictError``, which names the path, if a version does not fit, a key to delete is not there or has
        children. Steps see the ones before them; a path stands in at most one of them.
        """
        ...

    async def delete_tree(self, path: str) -> bool:
        """Delete a key and all below it; the root stays. False: there was nothing.

        Where a server cannot do it in one step, leaves go first, and a key that is made meanwhile may stay, with its
        parents.
        """
        ...

    async def wait_for_change(self, path: str, known: Snapshot, *, wait_seconds: float) -> None:
        """Return when ``snapshot(path)`` may differ from ``known``, after ``wait_seconds`` at the latest.

        As ``Members.wait_for_change``. A change between the reading of ``known`` and this call counts.
        """
        ...


class Rates(Protocol):
    """Limits of speed that all processes share."""

    async def reserve(self, key: str, *, per_second: float, burst: int, wait_seconds: float | None) -> float | None:
        """Reserve one event, and return in how many seconds it may happen: 0 if at once (GCRA, in one step).

        Of ``burst`` events the last may follow the first at once; in the long run there are ``per_second``. None: it
        would be more than ``wait_seconds``, and nothing is reserved.
        """
        ...


class Coordinator(Protocol):
    """One connection of a process to a coordination service. None for a part says that the backend does not have it."""

    address: str
    """Where it is, for messages: without credentials."""
    session_seconds: float
    """After so long without an answer others may take this process for gone. Final after ``open``."""
    locks: Locks
    members: Members | None
    keys: Keys | None
    rates: Rates | None

    async def open(self) -> None:
        """Connect, once. ClusterAwayError: there is no server."""
        ...

    async def close(self) -> None:
        """Disconnect; what this object still holds ends now, or with its lifetime. The facade has released it before.

        Also called after ``open`` has failed.
        """
        ...

    async def ping(self) -> None:
        """Ask the server for any answer: this keeps the session, where there is one. ClusterAwayError: there is none.

        SessionExpiredError, once, where the server has ended the session since the last ping and there is a new one.
        Called at least four times in ``session_seconds``.
        """
        ...

    def on_connection_change(self, callback: Callable[[], None]) -> None:
        """Have this called, in the loop, when the connection breaks or comes back: the facade pings at once.

        A backend that learns of it only by calls that fail does nothing.
        """
        ...
