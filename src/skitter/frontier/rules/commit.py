"""Applies committed outcomes to the job (promise 2), and to the hosts what the outcomes tell of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from skitter.frontier.contract import MAX_PRIORITY
from skitter.frontier.rules.transaction import Transaction
from skitter.frontier.tables import LeaseRow, RequestState, Row, storable
from skitter.model.host import Host
from skitter.model.lease import Work
from skitter.model.outcome import Committed, Ending, HostNews, HostTrouble, Outcome
from skitter.model.page_record import PageRecord
from skitter.model.request import Entry
from skitter.policy import host_budgets, politeness, proxy_choice

_ENDED = {
    Ending.DONE: RequestState.DONE,
    Ending.UNCHANGED: RequestState.DONE,
    Ending.REDIRECTED: RequestState.REDIRECTED,
    Ending.FAILED: RequestState.FAILED,
    Ending.EXCLUDED: RequestState.EXCLUDED,
}


class CommitRules:
    """The outcomes of one call, in one transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self._tables = transaction.tables
        self._now = transaction.now
        self._politeness = transaction.settings.politeness
        self._retry = transaction.settings.retry
        self._job = transaction.job
        self._hosts = transaction.hosts
        self._requests = transaction.requests
        self._leases = transaction.leases
        self._outbox = transaction.outbox
        self._proxies = transaction.proxies() if transaction.is_pooled else None
        self._jars = transaction.jars
        self._sessions = transaction.sessions
        self._troubles: list[HostTrouble] = []
        self._tally: dict[str, int] = defaultdict(int)
        self._pages: dict[int, PageRecord] = {}
        self._reordered: list[Row] = []
        self._by_proxy: set[int] = set()
        """Epochs of leases that failed by their proxies: their hosts are told nothing of it."""
        self._jar_versions: list[int] = []

    def commit(self, outcomes: Sequence[Outcome]) -> Committed:
        """Promise 2: each outcome takes effect as a whole, or not at all."""
        hosts = self._hosts
        leases = self._leases.current(outcome.lease for outcome in outcomes)
        keep_items = bool(self._tables.sinks())
        hosts.load(lease.host_key for lease in leases if lease is not None and lease.host_key)
        if self._proxies is not None:
            self._proxies.load_hosts(lease.host_key for lease in leases if lease is not None and lease.proxy)
        accepted: list[bool] = []
        ended: set[tuple[Work, int]] = set()
        links: list[Entry] = []
        changed: list[Row] = []
        for outcome, lease in zip(outcomes, leases, strict=True):
            # The same lease may come twice in one batch (a repeated part): only the first end counts.
            if lease is None or (lease.work, lease.id) in ended:
                accepted.append(False)
                continue
            accepted.append(True)
            links.extend(outcome.links)
            for name, amount in outcome.tally.items():
                self._tally[name] += amount
            if outcome.more:
                self._stage(outcome, lease)
                continue
            ended.add((lease.work, lease.id))
            self._outbox.publish(outcome, lease, self._tally, keep=keep_items)
            self._leases.end(lease)
            if outcome.cookies is not None or lease.session:
                self._take_identity(outcome, lease)
            if lease.work is Work.SEED:
                self._job.end_seeding(outcome.error if outcome.ending is Ending.FAILED else "")
                continue
            self._end_of_host(outcome, lease)
            if lease.row is not None:
                changed.append(lease.row)
        self._save(changed)
        self._outbox.flush()
        # What has just ended is not held any more: what is buried now may have come back with it; and a lease may
        # follow in this transaction, whose reaper must not find it.
        self._leases.flush_rows()
        self._give_up_hosts_down(outcomes, accepted)
        self._bury_stopped_hosts(outcomes, accepted)
        new = self._requests.add(links)
        if len(links) > new:
            self._tally["duplicates"] += len(links) - new
            self._tally["duplicates_sent"] += len(links) - new
        for name, amount in self._tally.items():
            self._job.count(name, amount)
        self._job.sample_rate()
        return Committed(accepted, new_links=new, troubles=self._troubles, jars=self._jar_versions)

    def _end_of_host(self, outcome: Outcome, lease: LeaseRow) -> None:
        """What the outcome means for the host of its lease, its proxy and its request."""
        hosts = self._hosts
        host = hosts.host(lease.host_key)
        if not outcome.touched:
            politeness.given_back(host, lease.epoch, self._now)
        hosts.note_pacer(host, lease.worker)
        if self._proxies is not None and lease.proxy and self._proxies.hear(lease, outcome):
            self._by_proxy.add(lease.epoch)
            if lease.row is not None:
                self._fail_by_proxy(lease.row, outcome)
            return
        has_budgets = hosts.budgets is not None
        was_spent = has_budgets and hosts.is_spent(host)
        struck = self._hear(host, lease, outcome)
        if lease.row is not None:
            self._end(lease.row, host, outcome, struck=struck)
        if has_budgets and not was_spent and hosts.is_spent(host):
            self._tell_spent(host)

    def _save(self, rows: Sequence[Row]) -> None:
        if self._reordered:
            self._tables.save_priorities(self._reordered)
        self._tables.save_rows(rows)
        if self._pages:
            self._tables.save_page_records(self._pages)

    def _take_identity(self, outcome: Outcome, lease: LeaseRow) -> None:
        """Cookies, and what the answer tells of its session; in this order, for one that has expired forgets them."""
        if outcome.cookies is not None:
            self._jar_versions.append(self._jars.take(outcome.cookies))
        if lease.session:
            self._sessions.committed(lease, outcome)

    def _stage(self, outcome: Outcome, lease: LeaseRow) -> None:
        if self._outbox.stage(outcome, lease):
            self._leases.changed.append(lease)

    def _end(self, row: Row, host: Host, outcome: Outcome, *, struck: bool) -> None:
        """Where the request goes from here."""
        row.status, row.error_class, row.error = outcome.status, outcome.error_class, storable(outcome.error)
        if outcome.ending is not Ending.RETRY:
            if outcome.page is not None:
                self._pages[row.id] = outcome.page
            row.attempts += outcome.touched
            row.ended_at = self._now
            state = _ENDED[outcome.ending]
            host.pages += state is RequestState.DONE
            if outcome.ending is Ending.FAILED:
                self._requests.count_error(outcome.error_class, 1)
            self._requests.move(row, state)
            return
        news = outcome.news
        of_the_host = news is not None and (news.blocked or news.unreachable)
        if news is not None and news.blocked:
            row.blocks += struck
        else:
            row.attempts += struck or not of_the_host
        max_attempts = outcome.max_attempts or self._retry.max_attempts
        hopeless = row.blocks >= politeness.BLOCK_LIMIT or row.attempts >= max_attempts
        if hopeless or (of_the_host and politeness.is_down(host, self._retry)):
            self._requests.die(row, row.error_class, row.error)
        elif of_the_host:
            self._requests.requeue(row)
        else:
            row.not_before = self._now + outcome.retry_seconds
            if self._retry.retry_priority:
                row.priority = max(-MAX_PRIORITY, min(row.priority + self._retry.retry_priority, MAX_PRIORITY))
                self._reordered.append(row)
            self._requests.move(row, RequestState.DELAYED)

    def _fail_by_proxy(self, row: Row, outcome: Outcome) -> None:
        """It is tried again with another proxy, and no attempt is spent; but not for ever."""
        row.status, row.error_class, row.error = outcome.status, outcome.error_class, storable(outcome.error)
        row.proxy_failures += 1
        if row.proxy_failures >= proxy_choice.PROXY_FAILURES_LIMIT:
            error = f"failed by its proxy {row.proxy_failures} times, the last time: {row.error}"
            self._requests.die(row, "proxy", error)
        else:
            self._requests.requeue(row)

    # ---- what the outcome tells of its host

    def _hear(self, host: Host, lease: LeaseRow, outcome: Outcome) -> bool:
        """Take in the host news; True if it was a strike."""
        news = outcome.news
        if news is None:
            return False
        struck = self._take_news(host, lease, outcome, news)
        if lease.work is Work.ROBOTS and (news.blocked or news.unreachable):
            politeness.gate_failed(host, self._now, self._politeness, self._retry)
        self._hosts.note(host)
        if struck:
            self._troubles.append(
                HostTrouble(
                    key=host.key,
                    error_class=host.error_class,
                    strikes=host.strikes + host.blocks,
                    pause_seconds=politeness.due_at(host) - self._now,
                    given_up=self._is_down(host, outcome),
                )
            )
        return struck

    def _take_news(self, host: Host, lease: LeaseRow, outcome: Outcome, news: HostNews) -> bool:
        if news.address and news.address != host.address:
            self._hosts.addresses.look_at(host.address)
            host.address = news.address
        if news.robots is not None:
            self._learn_robots(host, lease, news)
        if news.sign is not None:
            host_budgets.judged(host, news.sign)
        if news.answered:
            succeeded = 200 <= outcome.status < 300
            politeness.answered(host, lease.leased_at, news.latency_seconds, succeeded=succeeded)
        if news.blocked:
            host.error_class = outcome.error_class
            first = self._politeness.host_backoff_seconds
            return politeness.blocked(host, self._now, lease.leased_at, news.retry_after_seconds, first)
        if news.unreachable:
            # Of a page that held its worker, ``politeness.held`` has said so, unless the host asked for a pause since.
            if outcome.error_class != politeness.HELD_CLASS:
                host.error_class = outcome.error_class
            return politeness.unreachable(host, self._now, lease.leased_at, self._retry)
        return False

    def _learn_robots(self, host: Host, lease: LeaseRow, news: HostNews) -> None:
        assert news.robots is not None
        record = news.robots
        host.crawl_delay_seconds = record.crawl_delay_seconds
        host.robots_until = self._now + self._politeness.robots_seconds
        host.gate_losses = 0
        # An empty one is written only over an older one: most hosts have none.
        if record.text or host.robots_version:
            stored = type(record)(record.text, record.crawl_delay_seconds, lease.epoch)
            self._tables.save_robots(host.key, stored)
        host.robots_version = lease.epoch if record.text else 0
        # The gate itself was a request to the host: its first page waits for the delay just learnt.
        delay = politeness.delay_of(host, self._politeness)
        if delay:
            host.due = max(host.due, self._now + delay)

    def _give_up_hosts_down(self, outcomes: Sequence[Outcome], accepted: Sequence[bool]) -> None:
        """A host that is down takes its queue with it."""
        for outcome, was_accepted in zip(outcomes, accepted, strict=True):
            news = outcome.news
            if not was_accepted or news is None or not (news.blocked or news.unreachable):
                continue
            if outcome.lease.epoch in self._by_proxy:
                continue
            host = self._hosts.host(outcome.lease.host_key)
            if self._is_down(host, outcome):
                self._requests.give_up(host, outcome.error_class, storable(outcome.error))

    def _bury_stopped_hosts(self, outcomes: Sequence[Outcome], accepted: Sequence[bool]) -> None:
        """So does one that is stopped."""
        if not self._hosts.may_be_stopped:
            return
        ended = (outcome.lease for outcome, was_accepted in zip(outcomes, accepted, strict=True) if was_accepted)
        for key in dict.fromkeys(lease.host_key for lease in ended if lease.work is not Work.SEED):
            host = self._hosts.host(key)
            if self._hosts.is_stopped(host):
                self._requests.stop(host)
                self._hosts.note(host)

    def _tell_spent(self, host: Host) -> None:
        assert self._hosts.budgets is not None
        self._troubles.append(
            HostTrouble(
                key=host.key,
                error_class=host_budgets.HOST_BUDGET,
                strikes=0,
                pause_seconds=0.0,
                given_up=True,
                rule=self._hosts.budgets.rule(host),
                pages=host.pages,
            )
        )

    def _is_down(self, host: Host, outcome: Outcome) -> bool:
        """Not by a robots.txt that cannot be read while the last good copy of it governs."""
        if outcome.lease.work is Work.ROBOTS and host.robots_until > self._now:
            return False
        return politeness.is_down(host, self._retry)
