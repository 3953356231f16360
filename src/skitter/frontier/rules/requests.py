"""Rules of requests: dedup (promise 3), their states and counters, and what becomes of the queue of a host given up.

*Burying*: a host that is down, or whose budget is spent, takes what waits for it along. The call that gives it up ends
a first piece (``give_up``, ``stop``), and each ``lease`` and ``reap`` after it one more (``bury``), so that no call is
long. What waits for a host that is down dies; what waits for one whose budget is spent is excluded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from skitter.frontier import contract
from skitter.frontier.rules.hosts import HostRules
from skitter.frontier.tables import DELIVERED_EARLIER, JobRow, RequestState, Row, Tables
from skitter.model.host import Host
from skitter.model.page_record import KnownPage
from skitter.model.request import Entry
from skitter.policy import host_budgets, lost_leases, politeness
from skitter.settings import Recrawl

COUNTER = {
    RequestState.QUEUED: "queued",
    RequestState.SUSPECT: "queued",
    RequestState.DELAYED: "delayed",
    RequestState.LEASED: "leased",
    RequestState.DONE: "done",
    RequestState.REDIRECTED: "redirected",
    RequestState.FAILED: "failed",
    RequestState.EXCLUDED: "excluded",
}


class RequestRules:
    """Requests go from one state to another, in one transaction."""

    def __init__(
        self,
        tables: Tables,
        record: JobRow,
        now: float,
        hosts: HostRules,
        *,
        recrawl: Recrawl,
        skips_delivered: bool = False,
    ) -> None:
        """``skips_delivered``: what an earlier run has delivered is not queued again."""
        self._skips_delivered = skips_delivered
        self._tables = tables
        self._record = record
        self._now = now
        self._hosts = hosts
        self._recrawl = recrawl
        self._need_steps: dict[str, int] = {}
        """By how many more or fewer the requests of each need are queued than before."""
        # By its module, because tests of agreement lower it.
        self._may_bury = contract.BURY_BATCH

    def add(self, entries: Iterable[Entry]) -> int:
        """Dedup and enqueue (promise 3); how many were new."""
        later: Collection[int] = ()
        if self._recrawl.recrawl == "due":
            entries = list(entries)
            later = self._not_due(entries)
        fresh: dict[int, Entry] = {}
        permits: dict[str, bool] = {}
        for entry in self._without_delivered(list(entries)) if self._skips_delivered else entries:
            if entry.permits:
                permits[entry.host_key] = entry.trusts or permits.get(entry.host_key, False)
            if entry.id not in later or (entry.permits and not self._recrawl.stay):
                fresh.setdefault(entry.id, entry)
        for known in self._tables.known(list(fresh)):
            del fresh[known]
        if self._tables.can_forget:
            self._ask_filter(fresh)
        self._hosts.load(entry.host_key for entry in fresh.values())
        self._permit(permits)
        record, rows = self._record, []
        for entry in fresh.values():
            row = Row(record.next_seq, entry.id, entry.host_key, entry.priority, entry.payload, added_at=self._now)
            rows.append(row)
            record.next_seq += 1
            if entry.need:
                row.need = entry.need
                self._count_need(entry.need, 1)
            self._hosts.join_queue(entry.host_key, entry.priority, entry.need)
        self._tables.insert(rows)
        if self._recrawl.is_on:
            # Now, and not when it is fetched: later runs also know what dies, is excluded or never gets its turn.
            self._tables.insert_pages([KnownPage(row.id, row.host_key, row.payload, self._now) for row in rows])
        record.queued += len(rows)
        return len(rows)

    def _without_delivered(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries but for those whose page an earlier run has delivered; these are counted."""
        delivered = self._tables.delivered([entry.id for entry in entries])
        if not delivered:
            return list(entries)
        left: list[Entry] = []
        known = self._tables.known(list(delivered))
        if self._tables.can_forget:
            known |= self._tables.maybe_known(list(delivered))
        for entry in entries:
            if entry.repeats or entry.id not in delivered or entry.id in known:
                left.append(entry)
                known.add(entry.id)
        if skipped := len(entries) - len(left):
            tally = self._record.tally
            tally[DELIVERED_EARLIER] = tally.get(DELIVERED_EARLIER, 0) + skipped
        return left

    def _not_due(self, entries: Sequence[Entry]) -> set[int]:
        """Ids of known pages that are left out for now. What the user typed is fetched nevertheless, once."""
        due = self._tables.due_times([entry.id for entry in entries])
        return {request_id for request_id, due_at in due.items() if due_at > self._now}

    def _ask_filter(self, fresh: dict[int, Entry]) -> None:
        """A Bloom filter may take what is left for known; but neither a seed nor an unfiltered request."""
        exact = {entry.id for entry in fresh.values() if entry.exact or entry.trusts}
        self._tables.keep(list(exact))
        for known in self._tables.maybe_known([request_id for request_id in fresh if request_id not in exact]):
            del fresh[known]

    def _permit(self, trusts: Mapping[str, bool]) -> None:
        """Also for a request that was seen before: a link may have led there first, and the user typed it now."""
        for key, trusted in trusts.items():
            host = self._hosts.host(key)
            if not (host.trusted or host.permitted):
                self._tables.permit(key)
            host.permitted = True
            host.trusted = host.trusted or trusted

    def revive(self, rows: Sequence[Row]) -> int:
        """Failed rows are queued again with a clean slate."""
        for row in rows:
            self.count_error(row.error_class, -1)
            row.attempts = row.losses = row.losses_alone = row.blocks = row.status = row.proxy_failures = 0
            row.ended_at = row.not_before = 0.0
            row.error_class = row.error = ""
            self._hosts.new_chance(self._hosts.host(row.host_key))
            self.requeue(row)
        self._tables.save_rows(rows)
        return len(rows)

    def wake(self) -> None:
        """Delayed rows whose time has come are queued again."""
        rows = self._tables.due_rows(self._now, contract.BATCH)
        for row in rows:
            self.requeue(row)
        self._tables.save_rows(rows)

    # ---- from one state to another

    def move(self, row: Row, state: RequestState) -> None:
        """Change the state of a row, and the job's counters with it."""
        record, old, new = self._record, COUNTER[row.state], COUNTER[state]
        setattr(record, old, getattr(record, old) - 1)
        setattr(record, new, getattr(record, new) + 1)
        row.state = state
        if row.need:
            self._count_need(row.need, (new == "queued") - (old == "queued"))

    def _count_need(self, need: str, step: int) -> None:
        self._record.needy += step
        self._need_steps[need] = self._need_steps.get(need, 0) + step

    def flush(self) -> None:
        """Write how many requests of each need are queued."""
        if self._need_steps:
            self._tables.add_to_needs(self._need_steps)
            self._need_steps = {}

    def requeue(self, row: Row) -> None:
        """Back to its old place in the queue: seq does not change."""
        if lost_leases.is_suspect(row.losses):
            self.move(row, RequestState.SUSPECT)
            # It stands in no queue, and perhaps nobody serves its need: nothing else tells that it is to be buried.
            self._hosts.mark_if_stopped(row.host_key)
        else:
            self.move(row, RequestState.QUEUED)
            self._hosts.join_queue(row.host_key, row.priority, row.need)

    def die(self, row: Row, error_class: str, error: str) -> None:
        """The row has failed for good."""
        row.error_class, row.error, row.ended_at = error_class, error, self._now
        self.count_error(error_class, 1)
        self.move(row, RequestState.FAILED)

    def exclude(self, row: Row, rule: str, reason: str) -> None:
        """A rule keeps the row out."""
        row.error_class, row.error, row.ended_at = rule, reason, self._now
        self.move(row, RequestState.EXCLUDED)

    def count_error(self, error_class: str, step: int) -> None:
        """How many have failed of this class."""
        errors = self._record.errors
        errors[error_class] = errors.get(error_class, 0) + step
        if not errors[error_class]:
            del errors[error_class]

    # ---- the queue of a host that is given up

    def give_up(self, host: Host, error_class: str, error: str) -> None:
        """A host that is down takes what waits for it along: a piece now, the rest with calls to come."""
        if host.given_up is None:
            host.given_up = (error_class, f"{politeness.HOST_DOWN}{error}")
        self._bury_piece(host)

    def stop(self, host: Host) -> None:
        """A host whose budget is spent, or that an operator gives up, takes what waits for it along.

        It does so as one that is down; but for a budget it is excluded.
        """
        self._hosts.mark_stopped(host)
        self._bury_piece(host)

    def bury(self) -> None:
        """End the next piece of what hosts have left that were given up."""
        hosts = self._hosts
        hosts.burying = False
        # Each has at least one request: one host more than may be buried tells that there are more.
        stored = self._tables.given_up_hosts(self._may_bury + 1 + len(hosts.touched))
        of_this_call = [key for key, host in hosts.touched.items() if host.given_up is not None]
        keys = sorted({*of_this_call, *(key for key in stored if key not in hosts.touched)})[: self._may_bury + 1]
        hosts.load(keys)
        for key in keys:
            if not self._may_bury:
                hosts.burying = True
                return
            self._bury_piece(hosts.host(key))

    def _bury_piece(self, host: Host) -> None:
        if host.given_up is None:
            return
        error_class, error = host.given_up
        of_budget = error_class == host_budgets.HOST_BUDGET
        if of_budget and not self._hosts.is_spent(host):
            # The job goes on with a larger one.
            host.given_up = None
            return
        # One more than may be buried tells whether that was all, and what waits next.
        waiting = self._tables.waiting(host.key, self._may_bury + 1)
        rows, left = waiting[: self._may_bury], waiting[self._may_bury :]
        for row in rows:
            if of_budget:
                self.exclude(row, error_class, error)
            else:
                self.die(row, error_class, error)
        self._tables.save_rows(rows)
        self._may_bury -= len(rows)
        self._shorten_queue(host, left[0] if left and left[0].state is RequestState.QUEUED else None)
        if left:
            self._hosts.burying = True
        else:
            host.given_up = None

    @staticmethod
    def _shorten_queue(host: Host, head: Row | None) -> None:
        """All that ``Tables.waiting`` has before this one was taken out of the host's queues; None: everything."""
        host.waiting = head is not None and not head.need
        if head is None:
            host.needs = {}
        elif head.need:
            host.needs = {need: top for need, top in host.needs.items() if need > head.need}
            host.needs[head.need] = head.priority
        else:
            host.top = head.priority
