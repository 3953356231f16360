"""Steps of the coordinator contract as operations of a ZooKeeper transaction. Pure: no connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, assert_never

from skitter.cluster.conflicts import parents_of
from skitter.cluster.contract import Check, Delete, Put, Step

ANY_VERSION = -1


class Operation(NamedTuple):
    """One operation on a key."""

    kind: Literal["create", "set", "delete", "check"]
    path: str
    """Of the key, as in the contract."""
    value: bytes = b""
    version: int = ANY_VERSION
    """ZooKeeper's: one less than that of the contract."""
    step: int = 0
    """The step that it is for."""
    is_condition: bool = False
    """Whether its failure means that the step's condition does not hold, and not that the plan was made too early."""

    def add_to(self, transaction: Any, node: str) -> None:
        """Add it to a transaction of kazoo's, as one on this node."""
        match self.kind:
            case "create":
                transaction.create(node, self.value)
            case "set":
                transaction.set_data(node, self.value, self.version)
            case "delete":
                transaction.delete(node, self.version)
            case "check":
                transaction.check(node, self.version)


def plan(steps: Sequence[Step], existing: set[str]) -> list[Operation]:
    """Return the operations for steps, given which of their paths, and of those above them, are there."""
    there = set(existing)
    operations: list[Operation] = []

    def create(number: int, path: str, value: bytes, *, is_condition: bool) -> list[str]:
        """Create a key and what is missing above it; return those that were missing."""
        missing = [parent for parent in parents_of(path) if parent not in there]
        operations.extend(Operation("create", parent, step=number) for parent in missing)
        operations.append(Operation("create", path, value, step=number, is_condition=is_condition))
        return missing

    for number, step in enumerate(steps):
        path = step.path
        match step:
            case Put(value=value, version=version):
                if version:
                    operations.append(Operation("set", path, value, version - 1, number, is_condition=True))
                elif version is None and path in there:
                    operations.append(Operation("set", path, value, step=number))
                else:
                    there |= {*create(number, path, value, is_condition=version == 0), path}
            case Delete(version=version):
                wanted = ANY_VERSION if version is None else version - 1
                operations.append(Operation("delete", path, b"", wanted, number, is_condition=True))
                there.discard(path)
            case Check(version=0):
                # ZooKeeper cannot ask whether a node is absent: it is made and deleted again, with its parents.
                missing = create(number, path, b"", is_condition=True)
                operations.extend(Operation("delete", made, step=number) for made in (path, *reversed(missing)))
            case Check(version=version):
                operations.append(Operation("check", path, b"", version - 1, number, is_condition=True))
            case _:
                assert_never(step)
    return operations


def versions_after(steps: Sequence[Step], operations: Sequence[Operation], answers: Sequence[Any]) -> list[int]:
    """Return the version after each step, from what the server has answered to its operations."""
    after: dict[str, int] = {}
    for operation, answer in zip(operations, answers, strict=True):
        match operation.kind:
            case "create":
                after[operation.path] = 1
            case "set":
                after[operation.path] = answer.version + 1
    return [
        after[step.path] if isinstance(step, Put) else step.version if isinstance(step, Check) else 0 for step in steps
    ]
