"""The trail of one store, as a Protocol; and mutations that are recorded by two entries: intended, and how it ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec

from skitter.audit.entry import DONE, Draft, Stored
from skitter.errors import BackendError, UsageError
from skitter.observe import events


class Trail(Protocol):
    """One chain. Methods raise AuditError when the store fails."""

    @property
    def store(self) -> str:
        """Where it is, for people."""
        ...

    async def append(self, draft: Draft) -> int:
        """Append an entry to the end of the chain, whoever else does at the same time; its number."""
        ...

    async def entries(self, after: int, limit: int) -> list[Stored]:
        """The entries that follow this number, the oldest first."""
        ...

    async def entries_before(self, before: int | None, limit: int) -> list[Stored]:
        """The entries before this number, the newest first; None: from the end."""
        ...

    async def prune(self, through: int, draft: Draft) -> None:
        """Append an entry, and remove those up to this number, in one step."""
        ...

    async def close(self) -> None: ...


class OpenMutation:
    """A mutation under way; ``after`` is told when it has ended."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.after: dict[str, Any] = {}
        self.outcome = DONE


@asynccontextmanager
async def recorded(trail: Trail, draft: Draft) -> AsyncIterator[OpenMutation]:
    """Record a mutation that is made inside: before it that it is intended, and after it how it ended.

    If the first entry cannot be written, nothing is made. If the store fails meanwhile, it is not known whether it was
    made, and no entry says so.
    """
    mutation = OpenMutation(await trail.append(draft))
    try:
        yield mutation
    except UsageError as error:
        mutation.outcome = f"refused: {error}"
        await _end(trail, draft, mutation)
        raise
    except BackendError:
        raise
    except Exception as error:
        mutation.outcome = f"failed: {type(error).__name__}: {error}"
        await _end(trail, draft, mutation)
        raise
    else:
        await _end(trail, draft, mutation)


async def _end(trail: Trail, draft: Draft, mutation: OpenMutation) -> None:
    told = msgspec.structs.replace(
        draft, details={}, before={}, after=mutation.after, outcome=mutation.outcome, of=mutation.seq
    )
    try:
        await trail.append(told)
    except BackendError as error:
        # It was made, and must not look as if it were not.
        events.emit(events.AUDIT_UNFINISHED(action=draft.action, error=str(error)))
