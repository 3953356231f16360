"""Making outcomes true: promise 2, and what a commit tells about its host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from skitter.frontier.books import Books, storable
from skitter.frontier.tables import LeaseRow, RequestState, Row
from skitter.model.host import Host
from skitter.model.job import Item
from skitter.model.lease import Work
from skitter.model.outcome import Committed, Ending, HostNews, HostTrouble, Outcome
from skitter.model.request import Entry
from skitter.policy import host_budgets, politeness

NOTABLE_HOSTS = 16
STOPPED_SCORE = 3600.0
"""A host whose budget is spent is worth a look before those that are slow, and after those in trouble."""
_ENDED = {
    Ending.DONE: RequestState.DONE,
    Ending.REDIRECTED: RequestState.REDIRECTED,
    Ending.DEAD: RequestState.DEAD,
    Ending.EXCLUDED: RequestState.EXCLUDED,
}


class Committing:
    """Commits outcomes to the books of one transaction."""

    def __init__(self, books: Books, add: Callable[[Iterable[Entry]], int]) -> None:
        self._books = books
        self._add = add
        self._troubles: list[HostTrouble] = []
        self._items: list[Item] = []
        self._tally: dict[str, int] = defaultdict(int)
        self._least_notable = min(books.job.notable.values(), default=0.0)

    def commit(self, outcomes: Sequence[Outcome]) -> Committed:
        """Promise 2: each outcome takes effect as a whole, or not at all."""
        holds = self._books.current(outcome.lease for outcome in outcomes)
        keep_items = bool(self._books.tables.sinks())
        self._books.load_hosts(hold.host_key for hold in holds if hold is not None and hold.host_key)
        accepted: list[bool] = []
        ended: set[tuple[Work, int]] = set()
        links: list[Entry] = []
        has_budgets = self._books.budgets is not None
        changed: list[Row] = []
        for outcome, hold in zip(outcomes, holds, strict=True):
            # The same lease may come twice in one batch (a repeated part): only the first end counts.
            if hold is None or (hold.work, hold.id) in ended:
                accepted.append(False)
                continue
            accepted.append(True)
            links.extend(outcome.links)
            for name, amount in outcome.tally.items():
                self._tally[name] += amount
            if outcome.more:
                self._stage(outcome, hold)
                continue
            ended.add((hold.work, hold.id))
            self._publish(outcome, hold, keep_items)
            self._books.end_hold(hold)
            if hold.work is Work.SEED:
                self._books.seeding_over(outcome.error if outcome.ending is Ending.DEAD else "")
                continue
            host = self._books.host(hold.host_key)
            if not outcome.touched:
                politeness.given_back(host, hold.epoch, self._books.now)
            was_spent = has_budgets and self._books.is_spent(host)
            struck = self._hear(host, hold, outcome)
            if hold.row is not None:
                self._end(hold.row, host, outcome, struck=struck)
                changed.append(hold.row)
            if has_budgets and not was_spent and self._books.is_spent(host):
                self._tell_spent(host)
        self._books.tables.save_rows(changed)
        self._books.tables.save_items(self._items)
        # What has just ended is not held any more: what is buried now may have come back with it; and a lease may
        # follow in this transaction, whose reaper must not find it.
        self._books.flush_holds()
        self._drop_downed(outcomes, accepted)
        self._stop_spent(outcomes, accepted)
        new = self._add(links)
        if len(links) > new:
            self._tally["duplicates"] += len(links) - new
            self._tally["duplicates_sent"] += len(links) - new
        for name, amount in self._tally.items():
            self._books.bump(name, amount)
        return Committed(accepted, new_links=new, troubles=self._troubles)

    def _end(self, row: Row, host: Host, outcome: Outcome, *, struck: bool) -> None:
        """Where the request goes from here."""
        row.status, row.error_class, row.error = outcome.status, outcome.error_class, storable(outcome.error)
        if outcome.ending is not Ending.RETRY:
            row.attempts += outcome.touched
            row.ended_at = self._books.now
            host.pages += outcome.ending is Ending.DONE
            if outcome.ending is Ending.DEAD:
                self._books.count_error(outcome.error_class, 1)
            self._books.move(row, _ENDED[outcome.ending])
            return
        news = outcome.news
        of_the_host = news is not None and (news.blocked or news.unreachable)
        if news is not None and news.blocked:
            row.blocks += struck
        else:
            row.attempts += struck or not of_the_host
        retry = self._books.settings.retry
        hopeless = row.blocks >= politeness.BLOCK_LIMIT or row.attempts >= retry.max_attempts
        if hopeless or (of_the_host and politeness.is_down(host, retry)):
            self._books.die(row, row.error_class, row.error)
        elif of_the_host:
            self._books.requeue(row)
        else:
            row.not_before = self._books.now + outcome.retry_seconds
            self._books.move(row, RequestState.DELAYED)

    def _hear(self, host: Host, hold: LeaseRow, outcome: Outcome) -> bool:
        """Take in the host news; True if it was a strike."""
        news = outcome.news
        if news is None:
            return False
        struck = self._take_news(host, hold, outcome, news)
        if hold.work is Work.ROBOTS and (news.blocked or news.unreachable):
            politeness.gate_failed(host, self._books.now, self._books.politeness, self._books.settings.retry)
        self._note(host)
        if struck:
            self._troubles.append(
                HostTrouble(
                    key=host.key,
                    error_class=host.error_class,
                    strikes=host.strikes + host.blocks,
                    pause_seconds=politeness.due_at(host) - self._books.now,
                    given_up=self._is_given_up(host, outcome),
                )
            )
        return struck

    def _take_news(self, host: Host, hold: LeaseRow, outcome: Outcome, news: HostNews) -> bool:
        if news.address and news.address != host.address:
            self._books.addresses.look_at(host.address)
            host.address = news.address
        if news.robots is not None:
            self._learn_robots(host, hold, news)
        if news.sign is not None:
            host_budgets.judged(host, news.sign)
        if news.answered:
            succeeded = 200 <= outcome.status < 300
            politeness.answered(host, hold.leased_at, news.latency_seconds, succeeded=succeeded)
        if news.blocked:
            host.error_class = outcome.error_class
            first = self._books.politeness.host_backoff_seconds
            return politeness.blocked(host, self._books.now, hold.leased_at, news.retry_after_seconds, first)
        if news.unreachable:
            # Of a page that held its worker, ``politeness.held`` has said so, unless the host asked for a pause since.
            if outcome.error_class != politeness.HELD_CLASS:
                host.error_class = outcome.error_class
            return politeness.unreachable(host, self._books.now, hold.leased_at, self._books.settings.retry)
        return False

    def _note(self, host: Host) -> None:
        """Remember a few slow and troubled hosts for people: an index of all would cost more than the crawl."""
        notable = self._books.job.notable
        score = (host.strikes + host.blocks) * politeness.MAX_PAUSE_SECONDS + host.latency_seconds
        score += STOPPED_SCORE * self._books.is_spent(host)
        if host.key not in notable and len(notable) >= NOTABLE_HOSTS:
            if score <= self._least_notable:
                return
            del notable[min(notable, key=lambda key: notable[key])]
        notable[host.key] = score
        self._least_notable = min(notable.values())

    def _learn_robots(self, host: Host, hold: LeaseRow, news: HostNews) -> None:
        assert news.robots is not None
        record = news.robots
        host.crawl_delay_seconds = record.crawl_delay_seconds
        host.robots_until = self._books.now + self._books.politeness.robots_seconds
        host.gate_losses = 0
        # An empty one is written only over an older one: most hosts have none.
        if record.text or host.robots_version:
            stored = type(record)(record.text, record.crawl_delay_seconds, hold.epoch)
            self._books.tables.save_robots(host.key, stored)
        host.robots_version = hold.epoch if record.text else 0
        # The gate itself was a request to the host: its first page waits for the delay just learnt.
        delay = politeness.delay_of(host, self._books.politeness)
        if delay:
            host.due = max(host.due, self._books.now + delay)

    def _drop_downed(self, outcomes: Sequence[Outcome], accepted: Sequence[bool]) -> None:
        """A host that is given up takes its queue with it."""
        for outcome, was_accepted in zip(outcomes, accepted, strict=True):
            news = outcome.news
            if not was_accepted or news is None or not (news.blocked or news.unreachable):
                continue
            host = self._books.host(outcome.lease.host_key)
            if self._is_given_up(host, outcome):
                self._books.give_up(host, outcome.error_class, storable(outcome.error))

    def _stop_spent(self, outcomes: Sequence[Outcome], accepted: Sequence[bool]) -> None:
        """So does one whose budget is spent."""
        if self._books.budgets is None:
            return
        ended = (outcome.lease for outcome, was_accepted in zip(outcomes, accepted, strict=True) if was_accepted)
        for key in dict.fromkeys(lease.host_key for lease in ended if lease.work is not Work.SEED):
            host = self._books.host(key)
            if self._books.is_spent(host):
                self._books.stop(host)
                self._note(host)

    def _tell_spent(self, host: Host) -> None:
        assert self._books.budgets is not None
        self._troubles.append(
            HostTrouble(
                key=host.key,
                error_class=host_budgets.HOST_BUDGET,
                strikes=0,
                pause_seconds=0.0,
                given_up=True,
                rule=self._books.budgets.rule(host),
                pages=host.pages,
            )
        )

    def _is_given_up(self, host: Host, outcome: Outcome) -> bool:
        """Not by a robots.txt that cannot be read while the last good copy of it governs."""
        if outcome.lease.work is Work.ROBOTS and host.robots_until > self._books.now:
            return False
        return politeness.is_down(host, self._books.settings.retry)

    def _stage(self, outcome: Outcome, hold: LeaseRow) -> None:
        if outcome.items:
            self._books.tables.stage(hold.id, hold.epoch, outcome.items, outcome.after)
            hold.staged = True
            self._books.new_holds.append(hold)

    def _publish(self, outcome: Outcome, hold: LeaseRow, keep: bool) -> None:
        staged = 0
        if hold.staged:
            # A page that fails in its last part takes the items of the earlier ones with it.
            shown = outcome.ending is Ending.DONE
            staged = self._books.tables.publish(hold.id, hold.epoch, self._books.job.position, keep=keep and shown)
            staged *= shown
            hold.staged = False
        total = staged + len(outcome.items)
        if not total:
            return
        if keep:
            first = self._books.job.position + staged + 1
            self._items += [Item(first + n, hold.id, staged + n, record) for n, record in enumerate(outcome.items)]
            self._books.job.position += total
        self._tally["items"] += total
