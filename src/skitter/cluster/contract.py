"""Coordinator contract: the few atomic steps that a backend of ``skitter.cluster`` implements.

The facade (``cluster.cluster``) does everything else: renewal, waiting, time-outs, loss, re-entrance, the state of the
session, events. A backend is used by one event loop. Every call waits for its server without blocking the loop and may
be cancelled at any point. It raises ``ClusterUnavailableError`` if the server is unavailable (it is then unknown
whether the step happened), and ``ClusterError`` if a repetition cannot help.

The facade counts lifetimes from the moment *before* a call was sent, and the server from the moment it executes the
call. So the facade always knows first that a hold has ended, as long as the clocks run equally fast; its margin covers
drift.

Names of locks, groups, members and rate limits are any text of 1 to 500 characters without control characters; a
backend escapes characters that its server does not accept. Paths are normalised: ``a/b/c``, without a slash at either
end. The root, which has children but no value, is the empty path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec


class SessionState(StrEnum):
    """State of the connection between a process and its coordinator."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The server does not answer. Held locks remain held until their lifetime is over."""
    LOST = "lost"
    """The server has not answered for ``session_seconds``: others may consider this process dead."""


class Hold(msgspec.Struct, frozen=True):
    """A lock that an owner holds."""

    token: int | None
    """Fencing token, greater than that of every earlier holder of this lock. None if the backend has no safe token."""
    lifetime_seconds: float
    """How long the hold lasts without renewal, counted from before the call: at most the requested time.

    If holds end with a session (ZooKeeper), this is the time of the session. If several clocks take part (redlock), the
    possible drift is subtracted.
    """


class Entry(msgspec.Struct, frozen=True):
    """A key with its value."""

    path: str
    value: bytes
    version: int
    """Version: at least 1, and greater after each put. If an entry is deleted and created again, it may start over."""


class Snapshot(msgspec.Struct, frozen=True):
    """A key and its children, read in one step."""

    entry: Entry | None
    """None if there is no such key (the root never has an entry)."""
    children: tuple[str, ...]
    """Names of the direct children, without the path, sorted."""


class Put(msgspec.Struct, frozen=True, tag="put"):
    """Write a value. Missing parents are created with empty values."""

    path: str
    value: bytes
    version: int | None = None
    """Version that the key must have now. 0: the key must not exist. None: any."""


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    """Delete a key, which must exist and have no children."""

    path: str
    version: int | None = None
    """Version that the key must have now. None: any."""


class Check(msgspec.Struct, frozen=True, tag="check"):
    """Change nothing, but fail the transaction unless the key has this version. 0: unless the key does not exist."""

    path: str
    version: int


Step = Put | Delete | Check


class Member(msgspec.Struct, frozen=True):
    """Member of a group."""

    name: str
    data: bytes


class Locks(Protocol):
    """Locks with owners. An owner is a text that is never reused after its release."""

    async def acquire(
        self, name: str, owner: str, *, lifetime_seconds: float, wait_seconds: float | None
    ) -> Hold | None:
        """Take a lock if it is free. An owner that already has it gets the same token, and a full lifetime again.

        Returns None if another owner has it. A backend with a queue waits for its turn, up to ``wait_seconds`` (None:
        forever). Other backends answer at once, and are called again. If the call raises or is cancelled, ``release``
        follows: it also gives up a place in the queue, and a lock that was taken by a call whose answer was lost.
        """
        ...

    async def renew(self, name: str, owner: str, *, lifetime_seconds: float) -> Hold | None:
        """Restart the lifetime; None if this owner does not have the lock, or no longer."""
        ...

    async def release(self, name: str, owner: str) -> bool:
        """Release a lock, or leave its queue. Returns False, without a change, if this owner did not have it."""
        ...


class Members(Protocol):
    """Groups of live members. A member belongs to the coordinator object with which it joined."""

    async def join(self, group: str, member: str, data: bytes, *, lifetime_seconds: float) -> float | None:
        """Join or renew; return how long the membership lasts without renewal, like ``Hold.lifetime_seconds``.

        When the same object calls it again, it restarts the lifetime and writes the data, even if the member has
        vanished meanwhile. Returns None if another object, which may be alive, has a member of this name.
        """
        ...

    async def leave(self, group: str, member: str) -> None:
        """Leave at once. It is no error if the member does not exist, or belongs to another object."""
        ...

    async def present(self, group: str) -> list[Member]:
        """Return the present members, sorted by name."""
        ...

    async def wait_for_change(self, group: str, known: Sequence[Member], *, wait_seconds: float) -> None:
        """Return when ``present(group)`` may differ from ``known``, after ``wait_seconds`` at the latest.

        May return early. A backend that is not notified of changes sleeps for a moment.
        """
        ...


class Keys(Protocol):
    """A tree of keys, which outlive the processes that wrote them."""

    async def snapshot(self, path: str) -> Snapshot: ...

    async def change(self, steps: Sequence[Step]) -> list[int]:
        """Apply all steps or none, and return the version after each step (0 after Delete).

        Raises ``ClusterConflictError``, which names the path, if a version does not match, or if a key to delete does
        not exist or has children. Each step sees the effects of the steps before it; a path occurs in at most one step.
        """
        ...

    async def delete_tree(self, path: str) -> bool:
        """Delete a key and everything below it; the root itself stays. False if there was nothing.

        If the server cannot do this in one step, leaves are deleted first, and a key that is created meanwhile may
        remain, with its parents.
        """
        ...

    async def wait_for_change(self, path: str, known: Snapshot, *, wait_seconds: float) -> None:
        """Return when ``snapshot(path)`` may differ from ``known``, after ``wait_seconds`` at the latest.

        As ``Members.wait_for_change``. A change between the reading of ``known`` and this call is noticed.
        """
        ...


class Rates(Protocol):
    """Rate limits that all processes share."""

    async def reserve(self, key: str, *, per_second: float, burst: int, wait_seconds: float | None) -> float | None:
        """Reserve one event, and return in how many seconds it may happen; 0 means now (GCRA, in one step).

        Up to ``burst`` events may follow each other at once; the long-term rate is ``per_second``. Returns None, and
        reserves nothing, if the wait would be longer than ``wait_seconds``.
        """
        ...


class Coordinator(Protocol):
    """One connection of a process to a coordination service. A part that the backend does not support is None."""

    address: str
    """Address for messages, without credentials."""
    session_seconds: float
    """Time without an answer after which others may consider this process dead. Final after ``open``."""
    locks: Locks
    members: Members | None
    keys: Keys | None
    rates: Rates | None

    async def open(self) -> None:
        """Connect; called once. Raises ClusterUnavailableError if there is no server."""
        ...

    async def close(self) -> None:
        """Disconnect. The facade has released locks and memberships; any that remain end now, or with their lifetime.

        Also called after ``open`` has failed.
        """
        ...

    async def ping(self) -> None:
        """Request any answer from the server, which keeps the session alive if there is one.

        Raises ClusterUnavailableError if there is no answer. Raises SessionExpiredError once if the server has ended
        the session since the last ping and there is a new one. Called at least four times in ``session_seconds``.
        """
        ...

    def on_connection_change(self, callback: Callable[[], None]) -> None:
        """Register a callback, called in the loop when the connection breaks or returns: the facade then pings at once.

        A backend that notices this only by failed calls does nothing.
        """
        ...
