"""Groups of live processes: memberships are renewed, and joins and leaves are reported as events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from enum import StrEnum
from typing import Self

import msgspec

from skitter.cluster.clock import now_seconds
from skitter.cluster.contract import Member, Members, SessionState
from skitter.cluster.session import ANSWER_SECONDS, Session
from skitter.errors import ClusterError, ClusterUnavailableError

WATCH_SECONDS = 30.0
"""How long one wait for a change lasts before the present state is read anyway."""
AWAY_PAUSE_SECONDS = 0.5
_RENEWALS = 6
"""Renewals in the time of a session: one who stops early (``node.membership``) is to outlast a short outage."""
_RETRY_SECONDS = 0.2
_log = logging.getLogger("skitter.cluster")


class MemberChange(StrEnum):
    """Kind of a change of a member."""

    JOINED = "joined"
    LEFT = "left"
    CHANGED = "changed"
    """The data of the member changed."""


class MemberEvent(msgspec.Struct, frozen=True):
    """A change in a group."""

    change: MemberChange
    name: str
    data: bytes
    """Data of the member; the last known data if it has left."""


class Membership:
    """Membership in a group until ``leave`` or the end of the process. Made by ``Cluster.join``.

    If the server was unavailable for longer than a session and has forgotten the member, it rejoins automatically.
    """

    def __init__(self, session: Session, members: Members, group: str, name: str, data: bytes) -> None:
        self.group = group
        self.name = name
        self._session = session
        self._members = members
        self._data = data
        self._renewal: asyncio.Task[None] | None = None
        self._renewed: tuple[float, float] | None = None
        self._on_renewed: list[Callable[[float, float], None]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def join(self, timeout_seconds: float | None) -> None:
        """Join the group, and wait up to ``timeout_seconds`` for the name (None: forever).

        Raises ClusterError if another member, which may be alive, still has the name.
        """
        until = None if timeout_seconds is None else now_seconds() + timeout_seconds
        while (lifetime := await self._join()) is None:
            if until is not None and now_seconds() >= until:
                raise ClusterError(
                    f"the group {self.group} already has a member of this name: {self.name}",
                    hint="choose another name; a killed member leaves after session_seconds",
                )
            await asyncio.sleep(_RETRY_SECONDS)
        self._renewal = asyncio.create_task(self._keep(lifetime), name=f"skitter-member-{self.name}")

    def on_renewed(self, callback: Callable[[float, float], None]) -> None:
        """Register a callback, called in the loop at each renewal with the time before it was sent and its duration."""
        self._on_renewed.append(callback)
        if self._renewed is not None:
            callback(*self._renewed)

    async def set_data(self, data: bytes) -> None:
        """Replace the data that others see."""
        self._data = data
        await self._join()

    async def leave(self) -> None:
        """Leave the group at once. A second call does nothing.

        If the server is unavailable, the membership ends with the session.
        """
        renewal, self._renewal = self._renewal, None
        if renewal is None:
            return
        renewal.cancel()
        with suppress(asyncio.CancelledError):
            await renewal
        if self._session.state != SessionState.CONNECTED:
            return
        try:
            await self._session.call(self._members.leave(self.group, self.name))
        except ClusterUnavailableError as error:
            _log.info("cannot leave the group %s: %s", self.group, error)

    async def _join(self, seconds: float = ANSWER_SECONDS) -> float | None:
        lifetime = self._session.coordinator.session_seconds
        sent_at = now_seconds()
        joined = self._members.join(self.group, self.name, self._data, lifetime_seconds=lifetime)
        lasts = await self._session.call(joined, seconds)
        if lasts is not None:
            self._renewed = sent_at, lasts
            for callback in self._on_renewed:
                callback(sent_at, lasts)
        return lasts

    async def _keep(self, lifetime: float) -> None:
        pause = lifetime / _RENEWALS
        while True:
            await self._session.pause(pause)
            try:
                # A connection that was swallowed is not waited for: the next call has another.
                is_there = await self._join(max(0.5, lifetime / 3)) is not None
            except ClusterError:
                is_there = False
            # Away, or its name was taken meanwhile by another who will leave one day.
            pause = lifetime / _RENEWALS if is_there else min(AWAY_PAUSE_SECONDS, lifetime / 10)


async def watch_members(session: Session, members: Members, group: str) -> AsyncGenerator[MemberEvent, None]:
    """Yield the present members as joined, and then every change, also across outages."""
    known: list[Member] = []
    while True:
        try:
            present = await session.call(members.present(group))
            for event in changes(known, present):
                yield event
            known = present
            wait = members.wait_for_change(group, known, wait_seconds=WATCH_SECONDS)
            await session.call(wait, WATCH_SECONDS * 2)
        except ClusterUnavailableError:
            await asyncio.sleep(AWAY_PAUSE_SECONDS)


def changes(before: list[Member], after: list[Member]) -> list[MemberEvent]:
    """The events between two states of a group: first those who left."""
    old, new = ({member.name: member.data for member in members} for members in (before, after))
    left = [MemberEvent(MemberChange.LEFT, name, data) for name, data in old.items() if name not in new]
    joined = [MemberEvent(MemberChange.JOINED, name, data) for name, data in new.items() if name not in old]
    changed = [
        MemberEvent(MemberChange.CHANGED, name, data) for name, data in new.items() if name in old and old[name] != data
    ]
    return [*left, *joined, *changed]
