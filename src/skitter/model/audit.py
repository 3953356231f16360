"""Audit values: who acts, and a mutation as the trail tells of it."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_ACTOR_CHARS = 200


class Actor(msgspec.Struct, frozen=True):
    """Who makes a mutation: ``cli:USER@HOST``, ``program:USER@HOST``, ``user:NAME``, ``token:NAME``, ``schedule:NAME``,
    ``alert:NAME``.

    Of a command it is what the operating system says; of a master's client, the name of its credential.
    """

    name: str
    claim: str = ""
    """Who a master's client says it is. Nothing depends on it."""


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """A mutation of an operator. Times are seconds since 1970."""

    id: str
    """Identifier of the entry, for paging."""
    store: str
    """Location of the chain: a file or a server."""
    seq: int
    at: float
    actor: str
    claim: str = ""
    action: str
    job: str = ""
    details: dict[str, Any] = {}
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    outcome: str
    """``done``, ``refused: REASON``, ``failed: REASON``; ``unknown``: the result was not recorded."""
    ended_at: float | None = None
    hash: str
