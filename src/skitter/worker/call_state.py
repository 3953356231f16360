"""The state that the calls of one worker carry: their tokens, the mark of the permits that it knows, its needs."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from skitter.model.lease import MAX_ROUND_TRIP_SECONDS, Call, Grant
from skitter.model.request import is_need


class CallState:
    """Makes the calls of one worker, and learns from their answers. One call is under way at a time."""

    def __init__(self, slots: int = 0) -> None:
        self._slots = slots
        # A worker that is started again under the same name must not be taken for the one before.
        self._prefix = secrets.token_hex(8)
        self._calls = 0
        self._run = self._permits = 0
        self._store: str | None = None
        self._needs: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """What the worker can serve now, besides requests without a need."""
        return self._needs

    @needs.setter
    def needs(self, needs: Iterable[str]) -> None:
        needs = tuple(sorted(set(needs)))
        if wrong := [need for need in needs if not is_need(need)]:
            raise ValueError(f"invalid name of a need: {wrong[0]!r:.100}")
        self._needs = needs

    def next(self, round_trip_seconds: float = 0.0) -> Call:
        """A call that was not made before. ``round_trip_seconds``: how long its answer will be on its way."""
        self._calls += 1
        return Call(
            token=f"{self._prefix}-{self._calls}",
            run=self._run,
            permits=self._permits,
            slots=self._slots,
            needs=self._needs,
            round_trip_seconds=min(round_trip_seconds, MAX_ROUND_TRIP_SECONDS),
        )

    def learn(self, grant: Grant) -> None:
        """Take over the mark of the permits that the worker knows with this answer."""
        self._run, self._permits = grant.run, grant.permits
        if self._store not in (None, grant.store):
            # A store that lost its newest writes may have fewer permits than were told: count from the start.
            self._run = self._permits = 0
        self._store = grant.store
