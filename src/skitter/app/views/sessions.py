"""The sessions of a job, without their cookies: what ``skitter sessions --json`` shows."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from skitter.model.session import SessionSeen


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session. Of one that is handed out without a record, the figures of its use are not set."""

    name: str
    """Name; empty for the job's own session."""
    cookies: int
    domains: list[str]
    changed_at: float
    state: str = "ready"
    uses: int | UnsetType = UNSET
    in_flight: int | UnsetType = UNSET
    logins: int | UnsetType = UNSET
    failed_logins: int | UnsetType = UNSET
    since: float | UnsetType = UNSET


def session_view(seen: SessionSeen) -> SessionView:
    """A session for people."""
    view = SessionView(name=seen.name, cookies=seen.cookies, domains=seen.domains, changed_at=seen.changed_at)
    if (record := seen.record) is None:
        return view
    return msgspec.structs.replace(
        view,
        state=record.state.name.lower(),
        uses=record.uses,
        in_flight=record.in_flight,
        logins=record.generation,
        failed_logins=record.failures,
        since=record.born_at,
    )
