"""Lease: a request assigned to one worker until a deadline, with an epoch number that fences it."""

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
"""The lease id of the seeding."""


class Work(enum.IntEnum):
    """Kind of work of a lease."""

    PAGE = 0
    """Fetch a request and hand its page to the spider."""
    ROBOTS = 1
    """The host gate: read a host's robots.txt before its first page."""
    SEED = 2
    """Run the spider's ``start()`` and add what it yields."""


class Lease(msgspec.Struct, frozen=True):
    """The right to end one piece of work. Times are the store's clock, never the worker's.

    The first four fields are passed by position: with more than 15 keywords, Python makes a dict of a call's arguments.
    """

    work: Work
    id: int
    """The request id; for a gate, ``gate_id`` of its host; for the seeding, ``SEED_ID``."""
    epoch: int
    """Fencing number, unique within the job: a commit with an older one is refused."""
    host_key: str = ""
    payload: bytes = b""
    """The stored request; empty for gates and the seeding."""
    attempts: int = 0
    """Attempts already spent."""
    leased_at: float = 0.0
    deadline: float = 0.0
    start_seconds: float | None = None
    """The worker promises to be at the socket this soon after the grant, or to release; None: no hurry."""
    pace_seconds: float = 0.0
    """The worker keeps this distance between its own starts for the host; 0: the store does."""
    robots_version: int = 0
    """Which robots.txt governs the host; 0: nothing forbids anything."""
    trusted: bool = False
    """The host key was typed as a seed: the network guard lets it through."""
    page: PageRecord | None = None
    """The record of the page, in a job that recrawls; None: it was not fetched before."""
    proxy: str = ""
    """Id of the proxy that it must go through, in a job with a pool of proxies."""
    jar: int = 0
    """The newest version of the jars of the host's registrable domain, of all sessions; 0: there is none."""
    session: str = ""
    """The session that the frontier has taken for it: name and generation; empty: it is that of the request."""

    @property
    def session_name(self) -> str:
        """The name of the session that was taken for it; empty: none was."""
        return self.session.rpartition(" ")[0]

    @property
    def request(self) -> Request:
        """Decode the request; every call decodes again."""
        return decode(self.payload)


def gate_id(host_key: str) -> int:
    """The lease id of a host's gate: the same in every process, and never stored as a request."""
    return int.from_bytes(hashlib.blake2b(host_key.encode(), digest_size=8).digest(), "big", signed=True)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a worker sends along with ``lease`` and ``commit``, so that no frontier has to keep it."""

    token: str = ""
    """Unique among the calls of the worker, and the same each time a call is sent. Empty: the call is sent once."""
    run: int = 0
    permits: int = 0
    """The permits that the worker knows: the first so many of ``run``."""
    slots: int = 0
    """How many requests the worker works on at a time; 0: it does not say, and takes no part in the sharing."""
    needs: tuple[str, ...] = ()
    """The needs that the worker can serve now. Requests without a need are for every worker."""
    round_trip_seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_ROUND_TRIP_SECONDS)] = 0.0
    """How long an answer is on its way to the worker, beyond what a store takes. It is added to the start window."""
    again: bool = False
    """It was sent before, with the same token, and may have been heard."""


ONCE = Call()
"""A call that its caller never sends again, of a caller that knows no permits."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a worker that asks for work. No leases means nothing to do now, not that the job is finished."""

    leases: list[Lease]
    state: State
    run: int
    ask_again_seconds: float
    """When something may have become ready; another worker's commit may make it sooner."""
    workers: int = 0
    """Number of workers of the job; they share what becomes ready and poll in turn."""
    blocked_by: str = ""
    """Why nothing was leased though something is queued: ``sink`` (the outbox is full), ``proxy`` (none is free) or
    empty."""
    recovered: list[tuple[str, int]] = []
    """Workers whose leases had expired and were returned to the queue, each with their number."""
    permitted: list[str] = []
    """Host keys that joined the scope, without those that the call said are known."""
    permits: int = 0
    """How many of ``run`` the worker knows with these: what its next call says."""
    now: float = 0.0
    """The store's time; of a job in shards, that of the clock that is ahead."""
    logins: list[SessionLogin] = []
    """Sessions that this worker is asked to log in (``log_in``)."""
    store: str = ""
    """Which life of the store answered. In another one (a restart, a failover) the newest commits may be missing:
    what was remembered of them is worth nothing."""
