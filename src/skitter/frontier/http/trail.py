"""The audit trail of a master's store, read over HTTP: entries come as they are stored, for the client to verify."""

from __future__ import annotations

import msgspec

from skitter.audit.entry import Draft, Stored
from skitter.errors import UsageError
from skitter.frontier.http import wire
from skitter.frontier.http.address import parse_address
from skitter.frontier.http.client import MasterClient

CHAINS = 2
"""The most that one store has: of its jobs, and of its schedules."""


class AskedEntries(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of ``wire.AUDIT_PATH``."""

    chain: int
    after: int = 0
    """Those that follow this number, the oldest first."""
    before: int | None = None
    """With ``newest_first``: those before this number; None: from the end."""
    newest_first: bool = False
    limit: int = 1000


class FoundEntries(msgspec.Struct):
    """The answer to it."""

    store: str
    entries: list[tuple[int, bytes, str]]


read_asked = msgspec.msgpack.Decoder(AskedEntries).decode
_read_found = msgspec.msgpack.Decoder(FoundEntries).decode


def http_trails(url: str) -> list[HttpTrail]:
    """The chains of the store behind a master."""
    return [HttpTrail(url, number) for number in range(CHAINS)]


class HttpTrail:
    """One chain. A master records what it is asked to do, and nothing else may be appended through it."""

    def __init__(self, url: str, chain: int) -> None:
        self._address = parse_address(url)
        self._client = MasterClient(self._address)
        self._chain = chain
        self._store = ""

    @property
    def store(self) -> str:
        return f"{self._address.url} {self._store}".rstrip()

    async def entries(self, after: int, limit: int) -> list[Stored]:
        return await self._ask(AskedEntries(self._chain, after=after, limit=limit))

    async def entries_before(self, before: int | None, limit: int) -> list[Stored]:
        return await self._ask(AskedEntries(self._chain, before=before, limit=limit, newest_first=True))

    async def append(self, draft: Draft) -> int:
        raise _not_here(draft.action)

    async def prune(self, through: int, draft: Draft) -> None:  # noqa: ARG002  nothing is pruned through a master
        raise _not_here(draft.action)

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, asked: AskedEntries) -> list[Stored]:
        found = _read_found(await self._client.call(wire.AUDIT_PATH, wire.encode(asked), wire.CALL_SECONDS))
        self._store = found.store
        return [Stored(*entry) for entry in found.entries]


def _not_here(action: str) -> UsageError:
    return UsageError(
        f"clients cannot change the audit trail of a master: {action}",
        hint="run the command on the store itself: --frontier sqlite:…",
    )
