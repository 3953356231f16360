"""Watched keys on ZooKeeper: a node for each key, several changed in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)

from skitter.cluster.conflicts import Conflict, conflict_error, parents_of
from skitter.cluster.contract import Entry, Put, Snapshot, Step
from skitter.cluster.zookeeper.address import quoted, unquoted
from skitter.cluster.zookeeper.connection import Connection
from skitter.cluster.zookeeper.errors import ANSWERS, explained
from skitter.cluster.zookeeper.request import Watch, children, exists, get
from skitter.cluster.zookeeper.transaction import Operation, plan, versions_after
from skitter.errors import ClusterError, ClusterUnavailableError

MAX_BYTES = 1_000_000
"""Of one transaction: servers cut a connection that sends more (``jute.maxbuffer``)."""
_ATTEMPTS = 20
_DELETED_AT_ONCE = 200
_CONFLICTS = {
    BadVersionError: Conflict.VERSION,
    NodeExistsError: Conflict.EXISTS,
    NoNodeError: Conflict.MISSING,
    NotEmptyError: Conflict.CHILDREN,
}


class ZookeeperKeys:
    """The part ``keys`` of the coordinator."""

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path

    async def snapshot(self, path: str) -> Snapshot:
        return await self._read(path, None)

    async def change(self, steps: Sequence[Step]) -> list[int]:
        if sum(len(step.value) + len(step.path) for step in steps if isinstance(step, Put)) > MAX_BYTES:
            raise ClusterError(
                f"too large for ZooKeeper: {steps[0].path}", hint=f"a transaction has at most {MAX_BYTES:,} bytes"
            )
        for _ in range(_ATTEMPTS):
            operations = plan(steps, await self._existing(steps))
            answers = await self._commit(operations)
            failed = next((number for number, answer in enumerate(answers) if _is_cause(answer)), None)
            if failed is None:
                return versions_after(steps, operations, answers)
            operation, error = operations[failed], answers[failed]
            if not isinstance(error, ANSWERS):
                raise explained(error, self._connection.ensemble)
            if operation.is_condition and not (operation.kind == "create" and isinstance(error, NoNodeError)):
                raise conflict_error(steps[operation.step].path, _CONFLICTS[type(error)])
            # Parents, and whether a key is there, have changed since they were looked at.
        raise ClusterUnavailableError(f"other clients keep changing the key: {steps[0].path}", hint="try again")

    async def delete_tree(self, path: str) -> bool:
        has_deleted = False
        for _ in range(_ATTEMPTS):
            paths = [found for found in reversed(await self._tree(path)) if found]
            if not paths:
                break
            for start in range(0, len(paths), _DELETED_AT_ONCE):
                operations = [Operation("delete", found) for found in paths[start : start + _DELETED_AT_ONCE]]
                answers = await self._commit(operations)
                refusal = next((answer for answer in answers if _is_cause(answer)), None)
                if refusal is not None:
                    if not isinstance(refusal, ANSWERS):
                        raise explained(refusal, self._connection.ensemble)
                    break
                has_deleted = True
        return has_deleted

    async def wait_for_change(self, path: str, known: Snapshot, *, wait_seconds: float) -> None:
        with self._connection.watching(self._node(path)) as changed:
            if await self._read(path, self._connection.watch) == known:
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_seconds):
                        await changed.wait()

    async def _read(self, path: str, watch: Watch | None) -> Snapshot:
        node = self._node(path)
        while True:
            try:
                # Two requests; whether they belong together is seen by the stat that both have.
                (value, stat), (names, names_stat) = await self._connection.read_all(
                    get(node, watch), children(node, watch)
                )
            except NoNodeError:
                if watch is None:
                    return Snapshot(None, ())
                stat = await self._connection.call(exists(node, watch), again=True)
                if stat is None:
                    return Snapshot(None, ())
                continue
            if (stat.mzxid, stat.pzxid) == (names_stat.mzxid, names_stat.pzxid):
                entry = Entry(path, value, stat.version + 1) if path else None
                return Snapshot(entry, tuple(sorted(unquoted(name) for name in names)))

    async def _existing(self, steps: Sequence[Step]) -> set[str]:
        """Return those nodes of the steps and above them that are there."""
        paths = {path for step in steps for path in (*parents_of(step.path), step.path)}
        await self._connection.sync()

        async def look(path: str) -> str | None:
            node = self._node(path)
            stat = await self._connection.call(exists(node), again=True)
            return path if stat is not None else None

        return {path for path in await asyncio.gather(*map(look, paths)) if path is not None}

    async def _commit(self, operations: Sequence[Operation]) -> list[Any]:
        def request(client: KazooClient) -> Any:
            transaction = client.transaction()
            for operation in operations:
                operation.add_to(transaction, self._node(operation.path))
            return transaction.commit_async()

        answers: list[Any] = await self._connection.call(request)
        return answers

    async def _tree(self, path: str) -> list[str]:
        """Return a key and all below it, parents first."""
        found, level = [], [path]
        while level:
            snapshots = await asyncio.gather(*map(self._children, level))
            there = [(parent, names) for parent, names in zip(level, snapshots, strict=True) if names is not None]
            found += [parent for parent, _ in there]
            level = [f"{parent}/{name}" if parent else name for parent, names in there for name in names]
        return found

    async def _children(self, path: str) -> list[str] | None:
        node = self._node(path)
        try:
            names, _ = await self._connection.read(children(node))
        except NoNodeError:
            return None
        return [unquoted(name) for name in names]

    def _node(self, path: str) -> str:
        return "/".join([self._path, *(quoted(part) for part in path.split("/") if part)])


def _is_cause(answer: Any) -> bool:
    """Return whether this answer is why a transaction has failed: the others say that they were not done."""
    return isinstance(answer, KazooException) and not isinstance(answer, (RolledBackError, RuntimeInconsistency))
