"""Rules of the outbox: what a commit puts there, when it is full, and which sink is whose.

*Ownership*: a sink has one owner at a time, who keeps it by reading and delivering. When its owner was not heard from
for ``SINK_OWNER_SECONDS``, ``open`` gives it to another one; whoever lost it is refused by ``items`` and ``done``.
"""

from __future__ import annotations

from skitter.frontier.contract import SINK_OWNER_SECONDS
from skitter.frontier.tables import JobRow, LeaseRow, SinkRow, Tables
from skitter.model.item import COUNTERS, Item, ItemKind
from skitter.model.job import SinkProgress
from skitter.model.outcome import Ending, Outcome


class OutboxRules:
    """The items that sinks lack, and the progress of each sink, in one transaction."""

    def __init__(
        self, tables: Tables, record: JobRow, now: float, max_items: int, *, remembers_delivered: bool = False
    ) -> None:
        """``remembers_delivered``: the ids of pages are kept when every sink has their items."""
        self._remembers_delivered = remembers_delivered
        self._tables = tables
        self._record = record
        self._now = now
        self._max_items = max_items
        self._new_items: list[Item] = []

    def is_full(self) -> bool:
        """A sink lacks as many items as the outbox may hold: nothing is leased until it has caught up."""
        position, most = self._record.position, self._max_items
        return any(position - sink.progress.position >= most for sink in self._tables.sinks())

    # ---- from a commit

    def stage(self, outcome: Outcome, lease: LeaseRow) -> bool:
        """Keep the items of a part until the page's last part shows them; False: it has none."""
        if not outcome.items:
            return False
        self._tables.stage(lease.id, lease.epoch, outcome.items, outcome.after)
        lease.staged = True
        return True

    def publish(self, outcome: Outcome, lease: LeaseRow, tally: dict[str, int], *, keep: bool) -> None:
        """The items of a page that has ended join the outbox, and each is counted under its kind.

        Without ``keep`` they are only counted.
        """
        staged: list[ItemKind] = []
        if lease.staged:
            # A page that fails in its last part takes the items of the earlier ones with it.
            shown = outcome.ending is Ending.DONE
            found = self._tables.publish(lease.id, lease.epoch, self._record.position, keep=keep and shown)
            staged = found if shown else []
            lease.staged = False
        if not staged and not outcome.items:
            return
        for kind in staged:
            tally[COUNTERS[kind]] += 1
        for item in outcome.items:
            tally[COUNTERS[item.kind]] += 1
        if keep:
            position = self._record.position
            for place, item in enumerate(outcome.items, len(staged)):
                self._new_items.append(Item(position + place + 1, lease.id, place, item.record, item.kind))
            self._record.position += len(staged) + len(outcome.items)

    def drop_staged(self, lease: LeaseRow) -> None:
        """What a lost or released lease has staged was never seen by anyone."""
        self._tables.publish(lease.id, lease.epoch, 0, keep=False)

    def flush(self) -> None:
        """Write the items that were published."""
        self._tables.save_items(self._new_items)
        self._new_items = []

    # ---- to a sink

    def open(self, target: str, owner: str) -> SinkProgress | None:
        """Become the owner of a sink; None while it has another one."""
        found = [sink for sink in self._tables.sinks() if sink.target == target]
        sink = found[0] if found else SinkRow(target, SinkProgress(position=self._record.position))
        if sink.owner not in ("", owner) and sink.owned_until > self._now:
            return None
        sink.owner, sink.owned_until = owner, self._now + SINK_OWNER_SECONDS
        self._tables.save_sink(sink)
        return sink.progress

    def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        """The next items that the sink lacks; None: it has another owner."""
        sink = self._owned(target, owner)
        if sink is None:
            return None
        sink.owned_until = self._now + SINK_OWNER_SECONDS
        self._tables.save_sink(sink)
        return self._tables.items(sink.progress.position, limit)

    def done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        """The sink holds everything up to ``progress.position``; False: it has another owner."""
        sink = self._owned(target, owner)
        if sink is None:
            return False
        sink.progress, sink.owned_until = progress, self._now + SINK_OWNER_SECONDS
        self._tables.save_sink(sink)
        self._drop_items()
        return True

    def close(self, target: str, owner: str, *, forget: bool) -> None:
        """Give the ownership up. ``forget``: keep nothing for this sink any more."""
        sink = self._owned(target, owner)
        if sink is not None and forget:
            self._tables.drop_sink(target)
            self._drop_items()
        elif sink is not None:
            sink.owner, sink.owned_until = "", 0.0
            self._tables.save_sink(sink)

    def _drop_items(self) -> None:
        """Forget the items that every sink holds; all of them when there is no sink."""
        held = [sink.progress.position for sink in self._tables.sinks()]
        # Without a sink they went nowhere.
        delivered = self._remembers_delivered and bool(held)
        self._tables.drop_items(min(held, default=self._record.position), delivered=delivered)

    def _owned(self, target: str, owner: str) -> SinkRow | None:
        for sink in self._tables.sinks():
            if sink.target == target and sink.owner == owner:
                return sink
        return None
