"""The load of the frontier bench: a client that adds, leases and commits as a worker does, and fetches nothing.

Making URLs and their identities is the worker's cost and not the frontier's, so only the calls are timed. Whatever a
frontier answers is checked: one that loses or doubles something has no figure.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import msgspec

from skitter.errors import SkitterError
from skitter.frontier.contract import Frontier
from skitter.model.job import JobSpec
from skitter.model.lease import Grant, Lease, Work
from skitter.model.outcome import Ending, HostNews, Outcome
from skitter.model.request import Entry, Fingerprinter, Request
from skitter.settings import Settings

BATCH = 64
"""The batch size of a worker."""


class Times(msgspec.Struct):
    """The seconds and the number of URLs of a measurement."""

    wall: float = 0.0
    cpu: float = 0.0
    urls: int = 0

    def begin(self) -> None:
        self.wall -= time.perf_counter()
        self.cpu -= time.process_time()

    def end(self, urls: int) -> None:
        self.cpu += time.process_time()
        self.wall += time.perf_counter()
        self.urls += urls


class Load:
    """A client that fills a job's queue and then keeps its length."""

    def __init__(self, frontier: Frontier, hosts: int, *, duplicates: int = 0, client: int = 0) -> None:
        """``duplicates``: so many of a hundred URLs offered are known. ``client`` tells its URLs from others'."""
        self.frontier = frontier
        self.queued = 0
        """How many URLs of those that filled the queue were new."""
        self._offered = 0
        self._hosts = hosts
        self._duplicates = duplicates
        self._client = client
        self._worker = f"bench-{client}"
        self._number = 0
        self._leases: list[Lease] = []
        self._chance = random.Random(client)

    async def begin(self, job: str) -> None:
        settings = Settings.from_layers([("bench", {"obey_robots": False, "per_host": BATCH})])
        await self.frontier.begin(JobSpec(name=job, spider="", settings=settings.job_wide()))
        await self.join()

    async def join(self) -> None:
        self._fingerprinter = Fingerprinter.of_job(await self.frontier.job())

    async def fill(self, urls: int) -> Times:
        """Add this number of URLs."""
        times, last = Times(), self._offered + urls
        while self._offered < last:
            before = self.queued
            entries = [self._next_entry() for _ in range(min(BATCH, last - self._offered))]
            times.begin()
            new = await self.frontier.add(entries)
            times.end(len(entries))
            _check(new == self.queued - before, f"{new} of {self.queued - before} new URLs were added")
        return times

    async def lease_and_commit(self, pages: int) -> tuple[Times, Times]:
        """So many pages, leased in calls of their own and committed in others; new URLs take their places, untimed."""
        leasing, committing = Times(), Times()
        await self.leave()
        while committing.urls < pages:
            leasing.begin()
            grant = await self.frontier.lease(self._worker, BATCH)
            leases = _pages(grant)
            leasing.end(len(leases))
            outcomes = [_outcome(lease, []) for lease in leases]
            committing.begin()
            answer = await self.frontier.commit(self._worker, outcomes)
            committing.end(len(outcomes))
            _check(all(answer.accepted), "a commit was refused")
            await self.frontier.add([self._new_entry() for _ in leases])
        return leasing, committing

    async def cycle(self, pages: int, *, apart: bool = False) -> Times:
        """So many pages through add, lease and commit as a worker does it: each call commits 64 and asks for 64 more.

        Each page brings one new URL, nine in ten of its own host, and known ones as ``duplicates`` says. ``apart``:
        URLs come in a call of their own, and with it in a second transaction.
        """
        times = Times()
        while times.urls < pages:
            leases = self._leases
            new = [self._new_entry(lease.host_key if place % 10 else "") for place, lease in enumerate(leases)]
            known = [self._known_entry() for _ in range(len(new) * 100 // (100 - self._duplicates) - len(new))]
            links = [[] if apart else [entry, *known[place :: len(new)]] for place, entry in enumerate(new)]
            outcomes = [_outcome(lease, links) for lease, links in zip(leases, links, strict=True)]
            times.begin()
            if apart and new:
                await self.frontier.add([*new, *known])
            answer = await self.frontier.commit(self._worker, outcomes, want=BATCH)
            times.end(len(outcomes))
            _check(all(answer.accepted), "a commit was refused")
            _check(apart or answer.new_links == len(new), f"{answer.new_links} of {len(new)} new links were added")
            self._leases = _pages(answer.grant)
        return times

    async def leave(self) -> None:
        """Return all leases."""
        await self.frontier.release(self._leases)
        self._leases = []

    # ---- URLs

    def _next_entry(self) -> Entry:
        """As many new ones as there may be by now, evenly among the others. The first is new."""
        is_new = self.queued * 100 <= self._offered * (100 - self._duplicates)
        self._offered += 1
        self.queued += is_new
        return self._new_entry() if is_new else self._known_entry()

    def _new_entry(self, host_key: str = "") -> Entry:
        self._number += 1
        return self._entry(self._number, host_key)

    def _known_entry(self) -> Entry:
        # Of those that filled the queue: they were numbered first.
        return self._entry(self._chance.randint(1, self.queued))

    def _entry(self, number: int, host_key: str = "") -> Entry:
        host_key = host_key or f"http://host{number % self._hosts}.example"
        request = Request(
            f"{host_key}/catalogue/section-{number % 97}/page-{self._client}-{number}.html",
            depth=3,
            referrer=f"{host_key}/catalogue/index.html",
        )
        return self._fingerprinter.entry(request)


def _pages(grant: Grant | None) -> list[Lease]:
    """The leases of pages; the seeding stays leased, so that the job does not end."""
    leases = [lease for lease in grant.leases if lease.work is Work.PAGE] if grant is not None else []
    _check(bool(leases), "nothing was leased although requests are queued")
    return leases


def _outcome(lease: Lease, links: Sequence[Entry]) -> Outcome:
    news = HostNews(answered=True, latency_seconds=0.1)
    return Outcome(lease=lease, ending=Ending.DONE, status=200, news=news, links=list(links))


def _check(holds: bool, problem: str) -> None:
    if not holds:
        raise SkitterError(f"the frontier returned wrong results: {problem}", hint="no result is shown for it")
