"""Lease: a request assigned to one worker until a deadline. Its ``epoch`` is a fencing token."""

from __future__ import annotations

import enum
import hashlib
from typing import Annotated

import msgspec

from skitter.model.job import State
from skitter.model.page_record import PageRecord
from skitter.model.request import Request, decode
from skitter.model.session import SessionLogin

MAX_ROUND_TRIP_SECONDS = 2.0
SEED_ID = 0
"""Lease id of the seeding."""


class Work(enum.IntEnum):
    """Kind of work of a lease."""

    PAGE = 0
    """Fetch a request and hand its page to the spider."""
    ROBOTS = 1
    """The host gate: read a host's robots.txt before its first page."""
    SEED = 2
    """Run the spider's ``start()`` and add what it yields."""


class Lease(msgspec.Struct, frozen=True):
    """The right to end one piece of work. Times are from the store's clock, never from the worker's.

    The first four fields are passed by position: with more than 15 keywords, Python builds a dict of the arguments of a
    call."""

    work: Work
    id: int
    """Request id; for a gate, ``gate_id`` of its host; for the seeding, ``SEED_ID``."""
    epoch: int
    """Fencing token: a number that grows with each lease of the job. A commit with an outdated epoch is refused."""
    host_key: str = ""
    payload: bytes = b""
    """The stored request; empty for gates and the seeding."""
    attempts: int = 0
    """Attempts already spent."""
    leased_at: float = 0.0
    deadline: float = 0.0
    start_seconds: float | None = None
    """Start window: the worker starts the request within this time after the grant, or releases it. None: no limit."""
    pace_seconds: float = 0.0
    """Delay that the worker keeps between its own starts for the host; 0: the store keeps the delay."""
    robots_version: int = 0
    """Version of the host's robots.txt; 0: everything is allowed."""
    trusted: bool = False
    """Whether the user typed the host key as a seed: the network guard then lets it through."""
    page: PageRecord | None = None
    """Record of the page, in a job that recrawls; None if it was not fetched before."""
    proxy: str = ""
    """Id of the proxy that must be used, in a job with a proxy pool."""
    jar: int = 0
    """Newest version of the cookie jars of the host's registrable domain, for all sessions; 0 if there is none."""
    session: str = ""
    """Session that the frontier has assigned: name and generation. If empty, that of the request is used."""

    @property
    def session_name(self) -> str:
        """Name of the assigned session; empty if there is none."""
        return self.session.rpartition(" ")[0]

    @property
    def request(self) -> Request:
        """Decode the request; every call decodes again."""
        return decode(self.payload)


def gate_id(host_key: str) -> int:
    """Return the lease id of a host's gate: the same in every process, and never stored as a request."""
    return int.from_bytes(hashlib.blake2b(host_key.encode(), digest_size=8).digest(), "big", signed=True)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a worker sends along with ``lease`` and ``commit``, so that no frontier has to keep it."""

    token: str = ""
    """Unique among the calls of the worker, and the same whenever a call is resent. Empty: the call is never resent."""
    run: int = 0
    permits: int = 0
    """Number of permits of ``run`` that the worker already has."""
    slots: int = 0
    """Number of requests that the worker processes at a time. 0: unknown; the worker takes no part in sharing."""
    needs: tuple[str, ...] = ()
    """The needs that the worker can serve now. Requests without a need are for every worker."""
    round_trip_seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_ROUND_TRIP_SECONDS)] = 0.0
    """Travel time of an answer to the worker, beyond the time of the store. It is added to the start window."""
    again: bool = False
    """Whether the call was sent before with the same token, and may have been received."""


ONCE = Call()
"""Call that is never resent, by a caller without permits."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a worker that asks for work. No leases means nothing to do now, not that the job is finished."""

    leases: list[Lease]
    state: State
    run: int
    ask_again_seconds: float
    """Time until something may become ready. The commit of another worker may make it sooner."""
    workers: int = 0
    """Number of workers of the job; they share what becomes ready and poll in turn."""
    blocked_by: str = ""
    """Why nothing was leased although requests are queued: ``sink`` (the outbox is full), ``proxy`` (none is free),
    ``paused hosts`` (nothing else is left) or empty."""
    recovered: list[tuple[str, int]] = []
    """Workers whose expired leases were returned to the queue, each with the number of leases."""
    permitted: list[str] = []
    """Host keys that joined the scope, without those that the worker already had."""
    permits: int = 0
    """Number of permits of ``run`` that the worker has with these; its next call sends it."""
    now: float = 0.0
    """Time of the store; in a job with shards, of the clock that is ahead."""
    logins: list[SessionLogin] = []
    """Sessions that this worker must log in (``log_in``)."""
    store: str = ""
    """Identity of the store since its last start. After a restart or failover it is another one, and the newest commits
    may be missing: the worker must discard what it remembered about them."""
