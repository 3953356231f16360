"""Recording of an operator's mutations in the transaction that makes them: both are there, or neither is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import msgspec

from skitter.audit.entry import DONE, Draft
from skitter.audit.mutations import MUTATIONS, Mutation
from skitter.errors import UsageError
from skitter.frontier.contract import Frontier
from skitter.frontier.damage_errors import settings_of
from skitter.frontier.recorded_frontier import NOT_THERE, recording_method
from skitter.frontier.rules import report
from skitter.frontier.rules.transaction import Transaction
from skitter.frontier.tables import Tables, counts_of, public_job, sessions_seen, state_of
from skitter.frontier.transactional import Store, TransactionalFrontier
from skitter.model.audit import Actor
from skitter.model.store_capacity import StoreCapacity

T = TypeVar("T")
_READS: Mapping[str, Callable[[Transaction], Any]] = {
    "job": lambda transaction: public_job(transaction.record),
    "state": lambda transaction: state_of(transaction.record),
    "counts": lambda transaction: counts_of(transaction.record),
    "proxies": lambda transaction: transaction.proxies().seen(),
    "sessions": lambda transaction: sessions_seen(transaction.tables.all_jars(), transaction.tables.all_sessions()),
    "sinks": report.sinks,
    "intakes": lambda transaction: transaction.intakes.seen(),
}


@runtime_checkable
class KeepsTrail(Protocol):
    """A Store whose transactions may append to its trail."""

    def append_to_trail(self, draft: Draft) -> int: ...


def recorded_transactions(frontier: TransactionalFrontier, store: Store, job_name: str, actor: Actor) -> Frontier:
    """A view that records; the frontier itself if its store keeps no trail (memory)."""
    if not isinstance(store, KeepsTrail):
        return frontier
    return cast("Frontier", RecordedTransactions(frontier, store, job_name, actor))


class RecordedTransactions:
    """A Frontier; what it does not record, it passes on. Its mutations come from ``audit.mutations``."""

    def __init__(self, frontier: TransactionalFrontier, store: Store, job_name: str, actor: Actor) -> None:
        self._frontier = frontier
        self._store = store
        self._name = job_name
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frontier, name)

    async def _record(self, name: str, mutation: Mutation, arguments: Mapping[str, Any]) -> Any:
        action = mutation.action(arguments)
        if not action:
            return await getattr(self._frontier, name)(**arguments)
        details = mutation.details(arguments)
        draft = Draft(actor=self._actor, action=action, job=self._name, details=details)
        store = _RecordingStore(self._store, mutation, arguments, draft)
        try:
            answer = await getattr(TransactionalFrontier(store, self._name), name)(**arguments)
        except UsageError as error:
            await store.append(msgspec.structs.replace(draft, outcome=f"refused: {error}", of=store.intended))
            raise
        if store.intended:
            await store.append_outcome(answer)
        return answer


class _RecordingStore:
    """The store of a frontier, for one mutation: its first transaction that writes has an entry."""

    def __init__(self, store: Store, mutation: Mutation, arguments: Mapping[str, Any], draft: Draft) -> None:
        self._store = store
        self._mutation = mutation
        self._arguments = arguments
        self._draft = draft
        self._is_recorded = False
        self.intended = 0
        """The entry of a mutation of several transactions, whose outcome is told after the last one."""

    async def run(self, call: Callable[[Tables], T], *, write: bool = True, brief: bool = False) -> T:
        if not write or self._is_recorded:
            return await self._store.run(call, write=write, brief=brief)
        is_first_of_several = self._mutation.in_steps(self._arguments)
        seq = 0

        def recorded(tables: Tables) -> T:
            nonlocal seq
            before = self._seen(tables)
            answer = call(tables)
            if is_first_of_several:
                seq = self._append(before=before)
            else:
                outcome = DONE if self._mutation.is_done(answer) else NOT_THERE
                self._append(before=before, after=self._after(tables, answer), outcome=outcome)
            return answer

        answer = await self._store.run(recorded, brief=brief)
        self._is_recorded, self.intended = True, seq
        return answer

    async def append(self, draft: Draft) -> None:
        """Append an entry in a transaction of its own."""

        def append(_: Tables) -> None:
            _trail(self._store).append_to_trail(draft)

        await self._store.run(append)

    async def append_outcome(self, answer: Any) -> None:
        """Tell how a mutation of several transactions has ended."""

        def append(tables: Tables) -> None:
            after = self._after(tables, answer)
            self._append(details={}, after=after, outcome=DONE, of=self.intended)

        await self._store.run(append)

    def _append(self, **changes: Any) -> int:
        return _trail(self._store).append_to_trail(msgspec.structs.replace(self._draft, **changes))

    def _after(self, tables: Tables, answer: Any) -> dict[str, Any]:
        return self._seen(tables) | self._mutation.answer(answer)

    def _seen(self, tables: Tables) -> dict[str, Any]:
        record = tables.load_job()
        if record is None:
            return self._mutation.seen(self._arguments, {})
        # Nothing is written back: it is never closed.
        transaction = Transaction(tables, record, settings_of(record.spec))
        values = {name: _READS[name](transaction) for name in self._mutation.reads}
        return self._mutation.seen(self._arguments, values)

    # ---- the rest of a Store

    async def wait_for_turn(self) -> None:
        await self._store.wait_for_turn()

    def use_open_file(self) -> bool:
        return self._store.use_open_file()

    async def capacity(self) -> list[StoreCapacity]:
        return await self._store.capacity()

    async def close(self) -> None:
        await self._store.close()


def _trail(store: Store) -> KeepsTrail:
    assert isinstance(store, KeepsTrail), "only such stores are recorded"
    return store


for _name, _mutation in MUTATIONS.items():
    setattr(RecordedTransactions, _name, recording_method(_name, _mutation))
