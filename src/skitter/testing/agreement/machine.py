"""State machine of the comparison: each step runs on both frontiers, and then everything is compared."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis.stateful import initialize, precondition, rule

from skitter.errors import JobError
from skitter.frontier import contract
from skitter.frontier.contract import FORGET_SECONDS, Frontier
from skitter.model.host import HostCommand, HostFilter
from skitter.model.job import Begun, CloseClaim, Command, HostSeen, Job, JobSpec, SinkProgress, State
from skitter.model.lease import ONCE, Call, Grant, Lease, Work
from skitter.model.outcome import Ending, HostNews, HostTrouble, Outcome, RobotsRecord
from skitter.model.page_record import PageRecord
from skitter.model.request import Entry
from skitter.model.worker import Doing, WorkerHeartbeat
from skitter.policy import host_budgets
from skitter.testing.agreement.grants import by_host, ready_hosts
from skitter.testing.agreement.intakes import IntakeSteps
from skitter.testing.agreement.pair import Key
from skitter.testing.agreement.strategies import (
    ADDRESSES,
    FOUND,
    HOST_OF,
    HOSTS,
    IDS,
    LEASE_SECONDS,
    NEEDS,
    OWNERS,
    PATHS,
    PIECES,
    SERVED,
    SLOTS,
    TRAP_SIGNS,
    UNREACHABLE,
    WORKERS,
    changed_settings,
    endings,
    entry,
    job_settings,
    names,
)


def is_trouble(fields: dict[str, Any]) -> bool:
    """Return whether the news of an outcome is a strike against its host."""
    news: HostNews | None = fields.get("news")
    return news is not None and (news.unreachable or news.blocked)


def has_two_needs(fields: Sequence[dict[str, Any]]) -> bool:
    """Return whether the links of a batch name one request with different needs."""
    links = {(link.id, link.need) for some in fields for link in some.get("links", ())}
    return len({request_id for request_id, _ in links}) < len(links)


class FrontiersAgree(IntakeSteps):
    """State machine for a backend: subclass it, implement ``make_other`` and run its ``TestCase``."""

    # ---- the job

    @initialize(
        job_settings=job_settings,
        seeds=st.sets(names, min_size=3),
        piece=st.sampled_from(PIECES),
        on_close=st.booleans(),
    )
    def begins(self, job_settings: dict[str, Any], seeds: set[str], piece: int, on_close: bool) -> None:
        self.on_close = on_close
        self.patch.setattr(contract, "BURY_BATCH", piece)
        self.patch.setattr(host_budgets, "TRAP_SIGNS", TRAP_SIGNS)
        # Where ``max_pages`` cuts a grant short, the choice among hosts becomes visible.
        self.has_limit = self.same_choice and self.same_limit
        self.settings = {**job_settings, **self.more_settings}
        if not self.has_limit:
            self.settings["max_pages"] = None
        if not self.order_across_hosts:
            # Each shard counts requests per address on its own and has its own outbox, so other pages are delivered
            # first.
            self.settings = {**self.settings, "per_ip": None, "dedup_scope": "run"}
        if not self.same_pieces:
            # If commit and lease are separate calls, the lease after a commit may be granted ahead of a short delay.
            long_delay = 0.5 if self.settings["delay_seconds"] else 0.0
            self.settings = {**self.settings, "delay_seconds": long_delay, "target_concurrency": None}
        self.begin(fresh=False)
        self.leases("w1", 1)
        self.commit(
            "w1", [(Work.SEED, 0)], [{"ending": Ending.DONE, "links": [entry(name) for name in sorted(seeds)]}], 0
        )

    def begin(self, *, fresh: bool) -> Begun:
        spec = JobSpec(name="job", spider="", settings=self.settings, on_close=self.on_close)
        begun = self.agreed(lambda frontier, _: frontier.begin(spec, fresh=fresh))
        if begun is not Begun.RESUMED:
            self.run = self.loop.run_until_complete(self.oracle.job()).run
            self.stale += self.held.values()
            self.held, self.known = {}, set()
        return begun

    @rule(
        how=st.sampled_from(["again", "fresh", "other seeds", "another limit", "another budget"]),
        max_pages=st.sampled_from([None, 3, 8]),
        traps=st.sampled_from(["normal", "strict"]),
    )
    def is_begun(self, how: str, max_pages: int | None, traps: str) -> None:
        report = self.agreed(self.report_of)
        if how == "other seeds":
            self.is_refused()
            return
        if how == "another limit" and report.counts.unfinished and self.has_limit:
            self.settings = {**self.settings, "max_pages": max_pages}
        if how == "another budget":
            self.settings = {**self.settings, "max_pages_per_host": max_pages, "traps": traps}
            self.has_other_budget = True
        begun = self.begin(fresh=how == "fresh")
        delivered = all(sink.undelivered == 0 for sink in report.sinks)
        if how == "fresh":
            assert begun is Begun.RERUN
        elif report.job.state is not State.FINISHED or not delivered:
            assert begun is Begun.RESUMED

    def is_refused(self) -> None:
        spec = JobSpec(name="job", spider="", seeds=["other"], settings=self.settings)

        async def refused(frontier: Frontier, _: int) -> str:
            if (await frontier.job()).state is State.FINISHED:
                return "not tried"
            with pytest.raises(JobError) as caught:
                await frontier.begin(spec)
            return str(caught.value)

        self.agreed(refused)

    @rule(changes=changed_settings)
    def settings_change(self, changes: dict[str, Any]) -> None:
        if not self.has_limit:
            changes.pop("max_in_flight", None)
        if not self.same_pieces:
            changes.pop("target_concurrency", None)
            # A host that does not wait gets a shorter delay when it is written, and a backend with more calls writes
            # more often.
            changes["delay_seconds"] = max(changes.get("delay_seconds") or 0.5, self.settings["delay_seconds"], 0.5)
        if self.agreed(functools.partial(self.changed, changes)) is not None:
            self.settings = {**self.settings, **changes}
        # The next lease brings waiting hosts forward; done here, so that the ready hosts are known before the next
        # grant.
        self.take("w1", self.each(lambda frontier, _: frontier.lease("w1", 0)), 0, {})

    @staticmethod
    async def changed(changes: dict[str, Any], frontier: Frontier, _: int) -> Job | None:
        if (await frontier.state()).state is State.FINISHED:
            with pytest.raises(JobError, match="finished"):
                await frontier.change_settings(changes)
            return None
        return msgspec.structs.replace(await frontier.change_settings(changes), secret=b"")

    @rule(commands=st.lists(st.sampled_from(Command), max_size=2), resumed=st.sampled_from([True, True, False]))
    def is_told(self, commands: list[Command], resumed: bool) -> None:
        for command in [*commands, *[Command.RESUME] * resumed]:
            self.agreed(functools.partial(self.told, command))

    @staticmethod
    async def told(command: Command, frontier: Frontier, _: int) -> Job:
        return msgspec.structs.replace(await frontier.command(command), secret=b"")

    @rule(
        host=st.sampled_from([*sorted(set(HOST_OF.values())), "http://never.example"]),
        command=st.sampled_from(HostCommand),
    )
    def host_is_told(self, host: str, command: HostCommand) -> None:
        self.agreed(lambda frontier, _: frontier.command_host(host, command))
        self.dig()

    @rule(state=st.sampled_from(HostFilter))
    def hosts_are_listed(self, state: HostFilter) -> None:
        self.dig()
        for host in self.agreed(functools.partial(self.listed, state)).values():
            told = {HostFilter.PAUSED: host.paused, HostFilter.GIVEN_UP: host.given_up}
            assert told.get(state, state is HostFilter.ALL or host.blocked_seconds > 0)

    @staticmethod
    async def listed(state: HostFilter, frontier: Frontier, _: int) -> dict[str, HostSeen]:
        hosts: dict[str, HostSeen] = {}
        after = ""
        while True:
            page = await frontier.hosts(state, 2, after)
            hosts |= {host.key: host for host in page.hosts}
            after = page.after
            if not after:
                return dict(sorted(hosts.items()))

    @rule(owner=st.sampled_from(WORKERS), done=st.booleans())
    def claims_the_end(self, owner: str, done: bool) -> None:
        claim = self.agreed(lambda frontier, _: frontier.claim_close(owner, done=done))
        if claim is not CloseClaim.NONE:
            assert self.on_close
            assert self.agreed(self.report_of).job.awaits_close

    @rule(seconds=st.sampled_from([0.01, 0.3, 0.55, 1.0, 3.0, LEASE_SECONDS + 1, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.advance(seconds)

    # ---- work

    @rule(
        added=st.lists(names, min_size=3, max_size=9),
        priority=st.sampled_from([0, 0, 5, -5]),
        seed=st.booleans(),
        redirected=st.booleans(),
        need=st.sampled_from(NEEDS),
    )
    def adds(self, added: list[str], priority: int, seed: bool, redirected: bool = False, need: str = "") -> None:
        seed = seed and self.adds_seeds
        entries = [entry(name, priority, seed=seed, redirected=redirected, need=need) for name in added]
        new = self.agreed(lambda frontier, _: frontier.add(entries))
        before = len(self.known)
        self.note_added(entries)
        assert new == len(self.known) - before

    def note_added(self, entries: Sequence[Entry]) -> None:
        """Add the entries to the known ones, except those that an earlier run delivered and those that are not due."""
        ids = self.not_left_out(entries)
        if self.settings["dedup_scope"] == "job":
            repeats = {entry.id for entry in entries if entry.repeats}
            ids -= self.store.tables.delivered(list(ids - repeats - self.known))
        self.known |= ids

    def not_left_out(self, entries: Sequence[Entry]) -> set[int]:
        """Return the ids of the entries that are due, or that the user typed."""
        now, stays = self.clock() if self.settings["recrawl"] == "due" else math.inf, self.settings["stay"]
        return {entry.id for entry in entries if self.due_at.get(entry.id, 0.0) <= now or (entry.permits and not stays)}

    @rule(
        worker=st.sampled_from(WORKERS),
        limit=st.sampled_from([1, 2, 5, 100]),
        slots=st.sampled_from(SLOTS),
        needs=st.sampled_from(SERVED),
    )
    def leases(self, worker: str, limit: int, slots: int = 0, needs: tuple[str, ...] = ()) -> None:
        self.lease(worker, limit, self.call(slots, needs))

    def call(self, slots: int, needs: tuple[str, ...] = (), token: str = "") -> Call:
        # In a job with shards, workers get no shares, so their slots are not sent.
        return Call(token=token, slots=slots if self.same_pieces else 0, needs=needs)

    @rule(
        worker=st.sampled_from(WORKERS),
        limit=st.sampled_from([1, 2, 5, 100]),
        slots=st.sampled_from(SLOTS),
        needs=st.sampled_from(SERVED),
    )
    def leases_and_asks_again(self, worker: str, limit: int, slots: int, needs: tuple[str, ...]) -> None:
        """Lease, and send the same call again as after a lost answer."""
        self.calls += 1
        call = self.call(slots, needs, f"call {self.calls}")
        grants = self.lease(worker, limit, call)
        if grants[0].leases:
            again = self.each(
                lambda frontier, _: frontier.lease(worker, limit, msgspec.structs.replace(call, again=True))
            )
            assert by_host(again[0]) == by_host(again[1])
            for grant, same in zip(grants, again, strict=True):
                assert {lease.epoch for lease in grant.leases} == {lease.epoch for lease in same.leases}

    def lease(self, worker: str, limit: int, call: Call) -> tuple[Grant, Grant]:
        limit = limit if self.same_choice else 100
        # ``lease`` reaps too, but then the ready hosts would not be known before the grant.
        self.reap()
        # Only a worker that has asked a shard recently knows what is ready there, and that a seeding was lost.
        self.ask_everywhere(worker)
        gates = {pair[0].host_key for (work, _), pair in self.held.items() if work is Work.ROBOTS}
        traces = self.loop.run_until_complete(self.traces_of(self.oracle, 0))
        ready = ready_hosts(traces.values(), gates, self.hosts(), self.room_of, call.needs)
        rooms = self.rooms()
        self.in_burst = {host.key for host in self.hosts() if host.burst_left and not host.in_flight}
        grants = self.each(lambda frontier, _: frontier.lease(worker, limit, call))
        self.take(worker, grants, limit, ready, rooms, shares=bool(call.slots and call.needs))
        self.ask_everywhere(worker)
        return grants

    def ask_everywhere(self, worker: str) -> None:
        """Ask every shard: a full grant has not asked all, and delayed requests of the others may not be queued yet."""
        if not self.same_pieces:
            self.take(worker, self.each(lambda frontier, _: frontier.lease(worker, 0)), 0, {})

    @rule(
        worker=st.sampled_from(WORKERS),
        limit=st.sampled_from([2, 5, 100]),
        fields=st.lists(endings, min_size=4, max_size=12),
        seconds=st.sampled_from([0.0, 0.6, 6.0]),
        slots=st.sampled_from(SLOTS),
        needs=st.sampled_from(SERVED),
    )
    def works(
        self,
        worker: str,
        limit: int,
        fields: list[dict[str, Any]],
        seconds: float,
        slots: int,
        needs: tuple[str, ...],
    ) -> None:
        """Lease and commit, the most frequent step of a crawl."""
        self.advance(seconds)
        self.leases(worker, limit, slots, needs)
        keys = [key for key, (lease, _) in self.held.items() if lease.epoch > self.last_epoch - limit]
        self.commit(worker, keys[: len(fields)], fields[: len(keys)], 0)
        self.leases(worker, limit, slots, needs)

    @rule(host=st.sampled_from(HOSTS))
    def goes_down(self, host: str) -> None:
        """Give up a host while it has a queue, which random steps rarely do."""
        self.adds([f"{host}/{path}" for path in PATHS], 0, seed=False)
        for _ in range(self.settings["max_attempts"]):
            self.advance(LEASE_SECONDS + 1)
            self.leases("w1", 100)
            keys = [key for key, (lease, _) in self.held.items() if lease.host_key == entry(f"{host}/0").host_key]
            self.commit("w1", keys, [UNREACHABLE] * len(keys), 0)

    @rule(host=st.sampled_from(HOSTS), signs=st.lists(st.sampled_from([True, True, False]), min_size=2, max_size=5))
    def is_judged(self, host: str, signs: list[bool]) -> None:
        """Commit pages of a host, some with signs of a trap, until its budget is spent; random steps rarely do."""
        self.adds([f"{host}/{path}" for path in PATHS], 0, seed=False)
        self.advance(LEASE_SECONDS / 2)
        for sign in signs:
            self.leases("w2", 100)
            of_host = [key for key in self.held if HOST_OF.get(key[1]) == entry(f"{host}/0").host_key]
            pages = [key for key in of_host if key[0] is Work.PAGE][:1]
            judged = {"ending": Ending.DONE, "news": HostNews(answered=True, sign=sign)}
            self.commit("w2", pages, [judged] * len(pages), 0)

    @rule(
        seconds=st.sampled_from([0.1, 1.0]),
        slots=st.sampled_from([4, 8]),
        ended=st.integers(2, 8),
        needs=st.sampled_from(SERVED),
        need=st.sampled_from(NEEDS),
    )
    def share_pages(self, seconds: float, slots: int, ended: int, needs: tuple[str, ...], need: str) -> None:
        """Commit pages that were held for a long time while two workers are short, which random steps rarely do."""
        self.adds([f"{host}/{path}" for host in HOSTS for path in PATHS[:2]], 0, seed=False, need=need)
        self.adds([f"{host}/{path}" for host in HOSTS for path in PATHS], 0, seed=False)
        self.leases("w3", 100)
        for worker in ("w1", "w2"):
            self.leases(worker, slots, slots)
            self.leases(worker, slots, slots)
        self.advance(seconds)
        keys = list(self.held)[:ended]
        self.commit("w3", keys, [FOUND] * len(keys), 0)
        self.leases("w1", slots, slots, needs)
        keys = list(self.held)[:ended]
        self.commit("w2", keys, [FOUND] * len(keys), slots if self.same_choice else 0, self.call(slots, needs))
        self.leases("w1", slots, slots, needs)

    @precondition(lambda self: self.settings["per_ip"] is not None)
    @rule(
        worker=st.sampled_from(WORKERS),
        ended=st.integers(2, 8),
        needs=st.sampled_from(SERVED),
        need=st.sampled_from(NEEDS),
    )
    def crowds_an_address(self, worker: str, ended: int, needs: tuple[str, ...], need: str) -> None:
        """Commit pages of several hosts at one address while each host has a queue, which random steps rarely do."""
        self.adds([f"{host}/{path}" for host in HOSTS for path in PATHS[:2]], 0, seed=False, need=need)
        self.adds([f"{host}/{path}" for host in HOSTS for path in PATHS], 0, seed=False)
        for _ in range(3):
            self.advance(0.6)
            self.leases(worker, 100, needs=needs)
            keys = list(self.held)[:ended]
            self.commit(worker, keys, [FOUND] * len(keys), 0)
        self.leases(worker, 100, needs=needs)

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        worker=st.sampled_from(WORKERS),
        fields=st.lists(endings, min_size=1, max_size=4),
        want=st.sampled_from([0, 3, 20]),
        slots=st.sampled_from(SLOTS),
        needs=st.sampled_from(SERVED),
    )
    def commits(
        self,
        data: st.DataObject,
        worker: str,
        fields: list[dict[str, Any]],
        want: int,
        slots: int,
        needs: tuple[str, ...],
    ) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.held)), min_size=len(fields), max_size=len(fields)))
        self.commit(worker, keys, fields, want if self.same_choice else 0, self.call(slots, needs))

    def commit(
        self, worker: str, keys: Sequence[Key], fields: Sequence[dict[str, Any]], want: int, call: Call = ONCE
    ) -> None:
        is_mixed = any(is_trouble(some) for some in fields) or has_two_needs(fields)
        if not self.order_across_hosts and len(keys) > 1 and is_mixed:
            # With shards, a batch would give another result than with the oracle. A link to a host in another shard is
            # added before the batch gives that host up, so it fails with the host. It is also added before the links of
            # other pages to hosts of their own shard, so its need is the first one.
            for key, some in zip(keys, fields, strict=True):
                if key in self.held:
                    self.commit(worker, [key], [some], want)
            return
        leases = [self.held[key] for key in keys]

        def outcomes(which: int) -> list[Outcome]:
            return [
                Outcome(lease=pair[which], **self.fitting(pair[0], some))
                for pair, some in zip(leases, fields, strict=True)
            ]

        answers = self.each(lambda frontier, which: frontier.commit(worker, outcomes(which), want, call))
        assert answers[0].accepted == answers[1].accepted
        assert answers[0].new_links == answers[1].new_links
        assert self.ordered(answers[0].troubles) == self.ordered(answers[1].troubles)
        for key, outcome, accepted in zip(keys, outcomes(0), answers[0].accepted, strict=True):
            if accepted:
                self.note_added(outcome.links)
            if accepted and outcome.page is not None and not outcome.more and self.settings["recrawl"] != "off":
                self.due_at[outcome.lease.id] = outcome.page.next_at
            if not (accepted and outcome.more):
                self.ends(key)
        grants = [answer.grant for answer in answers]
        if grants[0] is not None and grants[1] is not None:
            self.take(worker, (grants[0], grants[1]), want, {})
            self.ask_everywhere(worker)

    def ordered(self, troubles: list[HostTrouble]) -> list[HostTrouble]:
        """Sort strikes and spent budgets by host if there are shards: hosts of different shards have no order."""
        return troubles if self.order_across_hosts else sorted(troubles, key=lambda trouble: trouble.key)

    @staticmethod
    def fitting(lease: Lease, fields: dict[str, Any]) -> dict[str, Any]:
        """Adapt an outcome to its lease: a gate has a robots.txt and an address, the seeding has no host."""
        news: HostNews | None = fields.get("news")
        if lease.work is Work.PAGE:
            seconds = (1.0, 7.0, 500.0)[lease.epoch % 3]
            page = PageRecord(lease.leased_at, lease.leased_at + seconds, seconds, etag=f'"{lease.epoch}"')
            return fields if fields["ending"] is Ending.RETRY else {**fields, "page": page}
        if lease.work is Work.SEED:
            return {**fields, "news": None, "ending": Ending.DONE}
        if news is None or news.answered:
            text = b"Disallow: /" if lease.epoch % 2 else b""
            record = RobotsRecord(text, 0.7 if lease.epoch % 3 == 0 else 0.0)
            address = ADDRESSES[lease.epoch % 4 == 0]
            return {"ending": Ending.DONE, "news": HostNews(answered=True, robots=record, address=address)}
        return {"ending": Ending.RETRY, "error_class": "dns", "news": news}

    @precondition(lambda self: self.stale)
    @rule(data=st.data(), fields=endings)
    def commits_what_is_lost(self, data: st.DataObject, fields: dict[str, Any]) -> None:
        pair = data.draw(st.sampled_from(self.stale))
        accepted = self.agreed(lambda frontier, which: self.accepted(frontier, Outcome(lease=pair[which], **fields)))
        assert accepted == [False]

    @staticmethod
    async def accepted(frontier: Frontier, outcome: Outcome) -> list[bool]:
        return (await frontier.commit("late", [outcome])).accepted

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def renews(self, data: st.DataObject) -> None:
        self.renew(data.draw(st.lists(st.sampled_from(sorted(self.held)), max_size=4)))

    @rule(worker=st.sampled_from(WORKERS))
    def renews_those_of_others(self, worker: str) -> None:
        """Check that only the worker of a lease can renew it, and that it stays with that worker."""
        pairs = [pair for key, pair in self.held.items() if self.holder[key] != worker]
        kept = self.agreed(lambda frontier, which: frontier.renew(worker, [pair[which] for pair in pairs]))
        assert not any(kept)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), late=st.booleans(), touched=st.booleans())
    def releases(self, data: st.DataObject, late: bool, touched: bool) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.held)), max_size=4))
        pairs = [self.held[key] for key in keys]
        self.agreed(
            lambda frontier, which: frontier.release([pair[which] for pair in pairs], late=late, touched=touched)
        )
        for key in keys:
            self.ends(key)

    @rule(
        worker=st.sampled_from(WORKERS),
        heartbeat=st.sampled_from([None, WorkerHeartbeat(), WorkerHeartbeat(pid=7, doing=Doing.FETCHING, in_flight=3)]),
        seconds=st.sampled_from([0.0, 0.0, 0.0, FORGET_SECONDS]),
    )
    def tells(self, worker: str, heartbeat: WorkerHeartbeat | None, seconds: float) -> None:
        self.advance(seconds)
        if heartbeat is None and self.held and not self.same_pieces:
            # A worker that leaves and comes back is known only to the shards that it asks, and its leases are counted
            # only there.
            return
        self.agreed(lambda frontier, _: frontier.tell(worker, heartbeat))

    @rule(worker=st.sampled_from(WORKERS))
    def worker_dies(self, worker: str) -> None:
        if not self.order_across_hosts:
            return
        self.agreed(lambda frontier, _: frontier.release_worker(worker))
        self.forget_lost()

    @precondition(lambda self: self.held)
    @rule(worker=st.sampled_from(WORKERS), data=st.data())
    def worker_is_held_by_a_page(self, worker: str, data: st.DataObject) -> None:
        if not self.order_across_hosts:
            return
        # Sometimes the page belongs to another worker; then this one keeps nothing.
        kept = self.held[data.draw(st.sampled_from(sorted(self.held)))]
        self.agreed(lambda frontier, number: frontier.relieve_worker(worker, kept[number], 3.0))
        self.forget_lost()

    @rule(error_class=st.sampled_from(["", "dns", "http_4xx", "lost", "given_up"]), only=st.none() | names)
    def revives(self, error_class: str, only: str | None) -> None:
        ids = [] if only is None else [IDS[only]]
        self.agreed(lambda frontier, _: frontier.revive(error_class, ids))

    # ---- the outbox

    @rule(
        owner=st.sampled_from(OWNERS),
        limit=st.sampled_from([0, 0, 2, 100]),
        closed=st.booleans(),
        left=st.sampled_from(["open", "open", "given up", "forgotten"]),
    )
    def delivers(self, owner: str, limit: int, closed: bool, left: str) -> None:
        self.agreed(lambda frontier, _: frontier.open_sink("out", owner))
        items, others = self.each(lambda frontier, _: frontier.items("out", owner, limit))
        if self.order_across_hosts or items is None or others is None:
            assert items == others
        else:
            assert [item.position for item in items] == [item.position for item in others]
        if items:
            assert [item.position for item in items] == list(range(items[0].position, items[0].position + len(items)))
            progress = SinkProgress(items[-1].position, b"mark", closed)
            assert self.agreed(lambda frontier, _: frontier.items_done("out", owner, progress))
        if left != "open":
            self.agreed(lambda frontier, _: frontier.close_sink("out", owner, forget=left == "forgotten"))
