"""Recorder of a worker: wraps its frontier and its fetch engine, and writes an event for each call and request.

Production code has no hooks for it: a process installs the recorder before it creates its other parts.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skitter.frontier.contract import WorkSource
from skitter.model.lease import ONCE, Call, Grant, Lease, Work
from skitter.model.outcome import Committed, Outcome
from skitter.testing.history.events import Recorder, What

if TYPE_CHECKING:
    from skitter.fetch.contract import FetchRequest
    from skitter.model.page import Page


class Recorded:
    """Frontier whose grants, renewals, commits and releases are recorded."""

    def __init__(self, source: WorkSource, recorder: Recorder) -> None:
        self._source = source
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def lease(self, worker: str, limit: int, call: Call = ONCE) -> Grant:
        since = time.monotonic()
        self._recorder.add(What.ASKED)
        grant = await self._source.lease(worker, limit, call)
        self._granted(grant, since)
        return grant

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        since = time.monotonic()
        kept = await self._source.renew(worker, leases)
        for lease, is_kept in zip(leases, kept, strict=True):
            if not is_kept:
                self._record(What.LOST, lease, since)
        return kept

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0, call: Call = ONCE) -> Committed:
        since = time.monotonic()
        if want:
            self._recorder.add(What.ASKED)
        answer = await self._source.commit(worker, outcomes, want, call)
        for outcome, accepted in zip(outcomes, answer.accepted, strict=True):
            what = What.REFUSED if not accepted else What.PART if outcome.more else What.ACCEPTED
            self._record(what, outcome.lease, since, ending=outcome.ending.value, items=len(outcome.items))
        if answer.grant is not None:
            self._granted(answer.grant, since)
        return answer

    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        since = time.monotonic()
        await self._source.release(leases, late=late, touched=touched)
        for lease in leases:
            self._record(What.RELEASED, lease, since)

    def _granted(self, grant: Grant, since: float) -> None:
        for lease in grant.leases:
            self._record(What.LEASED, lease, since, url=_url_of(lease))

    def _record(
        self, what: What, lease: Lease, since: float, *, url: str = "", ending: str = "", items: int = 0
    ) -> None:
        work, name, epoch = lease.work.value, lease.id, lease.epoch
        self._recorder.add(what, since=since, work=work, id=name, epoch=epoch, url=url, ending=ending, items=items)


def record_fetches(recorder: Recorder) -> None:
    """Record every transfer of this process from now on, at the last instant before it is sent.

    This uses two callbacks of libcurl: one opens a socket if there is no connection yet, the other checks the
    connection. The second one is the last call before the request is written.
    """
    from skitter.fetch.engine import CurlFetcher
    from skitter.fetch.transfer import Transfer

    fetch, open_socket, check_connection = CurlFetcher.fetch, Transfer._open_socket, Transfer._check_connection  # noqa: SLF001

    async def fetch_recorded(self: CurlFetcher, request: FetchRequest) -> Page:
        try:
            return await fetch(self, request)
        finally:
            recorder.add(What.ANSWERED, url=request.url)

    def open_recorded(self: Transfer, *arguments: Any) -> Any:
        opened = open_socket(self, *arguments)
        if isinstance(opened, socket.socket):
            recorder.add(What.OPENED, url=self._request.url)
        return opened

    def check_recorded(self: Transfer, *arguments: Any) -> int:
        verdict = check_connection(self, *arguments)
        if verdict == 0:
            recorder.add(What.SENT, url=self._request.url)
        return verdict

    CurlFetcher.fetch = fetch_recorded  # type: ignore[method-assign]
    Transfer._open_socket = open_recorded  # type: ignore[assignment, method-assign]  # noqa: SLF001
    Transfer._check_connection = check_recorded  # type: ignore[assignment, method-assign]  # noqa: SLF001


def _url_of(lease: Lease) -> str:
    if lease.work is Work.PAGE:
        return lease.request.url
    return f"{lease.host_key}/robots.txt" if lease.work is Work.ROBOTS else ""
