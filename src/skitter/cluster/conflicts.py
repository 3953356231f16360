"""Conflicts of a change of keys: why a step does not fit what is stored, in one place for all coordinators."""

from __future__ import annotations

from enum import StrEnum

from skitter.cluster.contract import Delete, Step
from skitter.errors import ClusterConflictError


class Conflict(StrEnum):
    """Why a step cannot be done."""

    VERSION = "it has another version"
    MISSING = "there is no such key"
    EXISTS = "the key already exists"
    CHILDREN = "there are keys below it"


def conflict_of(step: Step, version: int, *, has_children: bool) -> Conflict | None:
    """Return why a step does not fit a key of this version (0: there is none); None: it does."""
    if isinstance(step, Delete):
        if version == 0:
            return Conflict.MISSING
        if has_children:
            return Conflict.CHILDREN
    if step.version is None or step.version == version:
        return None
    if step.version == 0:
        return Conflict.EXISTS
    return Conflict.VERSION if version else Conflict.MISSING


def conflict_error(path: str, conflict: Conflict) -> ClusterConflictError:
    hint = "delete it with recursive=True" if conflict is Conflict.CHILDREN else "read the key again, then retry"
    return ClusterConflictError(path, f"the key is not as expected: {conflict}: {path}", hint=hint)


def parents_of(path: str) -> list[str]:
    """Return the keys above a key, the topmost first, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(1, len(parts))]
