"""A job in the middle of a crawl, with something in every place, and how it goes on to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from skitter.frontier.contract import Frontier
from skitter.model.item import NewItem
from skitter.model.job import Command, JobSpec, SinkProgress, State
from skitter.model.lease import ONCE, Call, Lease, Work
from skitter.model.outcome import Ending, HostNews, Outcome, RobotsRecord
from skitter.model.page_record import PageRecord
from skitter.model.request import Fingerprinter, Request
from skitter.model.worker import WorkerHeartbeat
from skitter.settings import Settings
from skitter.testing.clock import FakeClock

JOB = "job"
HOSTS = tuple(f"h{n}" for n in range(7))
SINKS = ("a.jsonl", "b.jsonl")
INTAKE = "file:/urls"
SETTINGS = {
    "lease_seconds": 600.0,
    "retry_delay_seconds": 0.5,
    "host_backoff_seconds": 0.5,
    "per_host": 2,
    "per_ip": 2,
    "max_attempts": 2,
    "max_pages_per_host": 50,
}
ADDRESS = "10.0.0.1"
LOSSES_BEFORE_ALONE = 2
"""Losses after which a page is crawled alone."""
PIECE = 1
"""Requests of a host that was given up, which one call buries."""
_QUEUE = {
    # Host: names of its requests, by priority.
    0: {
        100: "done1",
        99: "done2",
        98: "failed",
        97: "excluded",
        96: "redirected",
        95: "delayed",
        60: "staged",
        59: "held",
    },
    1: {101: "first"},
    2: {57: "returned"},
    4: {93: "lost", 92: "blocked"},
    5: {58: "gate"},
    6: {91: "down"},
}


NEED = "browser"
_SERVES = Call(needs=(NEED,))


class Fault(NamedTuple):
    """A fault that a test plants."""

    code: str
    """The code of the finding."""
    plant: Any
    """How it is planted, as its store has it."""
    mendable: bool = True


class JobAtWork:
    """The job, through one frontier. ``hosts``: seven names, or more; those after the seventh only have a queue."""

    def __init__(self, frontier: Frontier, clock: FakeClock, hosts: Sequence[str], **settings: Any) -> None:
        """``settings``: besides ``SETTINGS``."""
        self.frontier = frontier
        self.clock = clock
        self.hosts = hosts
        self._settings = SETTINGS | settings
        self.urls: set[str] = set()

    async def fill(self) -> None:
        frontier = self.frontier
        settings = Settings.from_layers([("test", self._settings)])
        await frontier.begin(JobSpec(name=JOB, spider="", settings=settings.job_wide()), sinks=SINKS)
        self._entry = Fingerprinter((await frontier.job()).secret).entry
        for worker in ("w1", "w2"):
            await frontier.tell(worker, WorkerHeartbeat(host_name="elsewhere", pid=1, version="0", started_at=1.0))
        (seeding,) = (await frontier.lease("w1", 1)).leases
        await frontier.commit("w1", [Outcome(lease=seeding, ending=Ending.DONE, links=self._links())])
        items = [NewItem(b"\x81\xa1n\x01")] * 3
        await self._end("w1", "first")
        await self._end("w1", "done1", items=items)
        is_recrawled = self._settings.get("recrawl", "off") != "off"
        record = PageRecord(self.clock(), self.clock() + 9e6, 9e6, content_hash=b"hash") if is_recrawled else None
        await self._end("w1", "done2", page=record)
        await self._end("w1", "failed", Ending.FAILED, status=404, error_class="http_4xx", error="HTTP 404")
        await self._end("w1", "excluded", Ending.EXCLUDED, error_class="robots", error="robots.txt line 2")
        target = self._link(3, "target", -7)
        await self._end("w1", "redirected", Ending.REDIRECTED, status=301, links=[target])
        await self._end("w1", "delayed", Ending.RETRY, error_class="timeout", error="slow", retry_seconds=5000.0)
        await self._lose()
        await self._strike()
        part = [NewItem(b"\x81\xa1p\x01")]
        staged = await self._page("w2", "staged")
        await frontier.commit("w2", [Outcome(lease=staged, ending=Ending.DONE, more=True, items=part, after=0)])
        await self._page("w2", "held")
        # Its first host has two in flight, as many as its address may have: the second one is parked.
        gates = (await frontier.lease("w3", 4)).leases
        assert {lease.work for lease in gates} == {Work.ROBOTS}, gates
        await frontier.release(
            [lease for lease in gates if lease.host_key in map(self.key_of, range(7, len(self.hosts)))]
        )
        (gate,) = [lease for lease in gates if lease.host_key == self.key_of(2)]
        await frontier.commit("w3", [self._robots(gate)])
        await frontier.release([await self._page("w1", "returned")])
        came_back = await self._page("w1", "came_back", _SERVES)
        for _ in range(LOSSES_BEFORE_ALONE):
            await self._page("w7", "crashes", _SERVES)
            await frontier.release_worker("w7")
        await frontier.release([came_back])
        await frontier.open_intake(INTAKE, "node")
        assert await frontier.open_sink(SINKS[0], "node") is not None
        assert await frontier.items(SINKS[0], "node", 2)
        assert await frontier.items_done(SINKS[0], "node", SinkProgress(2))
        if self._settings.get("dedup_scope") == "job":
            assert await frontier.open_sink(SINKS[1], "node") is not None
            for target in SINKS:
                assert await frontier.items(target, "node", 3)
                assert await frontier.items_done(target, "node", SinkProgress(3))
        await self._give_up()
        await frontier.command(Command.PAUSE)
        # Its workers have been silent for so long that they count as dead, and their leases are still there.
        self.clock.advance(SETTINGS["lease_seconds"] + 1)

    # ---- parts of it

    def key_of(self, host: int) -> str:
        return f"http://{self.hosts[host]}.example"

    def _link(self, host: int, name: str, priority: int = 0, *, seed: bool = False, need: str = "") -> Any:
        url = f"{self.key_of(host)}/{name}"
        self.urls.add(url)
        return self._entry(Request(url, priority=priority, seed=seed, need=need))

    def _links(self) -> list[Any]:
        links = [
            self._link(host, name, priority, seed=host < 2)
            for host, named in _QUEUE.items()
            for priority, name in named.items()
        ]
        for host in range(len(self.hosts)):
            links += [self._link(host, f"queued{n}") for n in range(3)]
        for host, priority, name in ((0, 0, "rendered"), (1, 3, "rendered"), (2, 2, "rendered"), (2, 1, "drawn")):
            links.append(self._link(host, name, priority, need=NEED))
        links += [self._link(2, name, priority, need=NEED) for name, priority in (("came_back", 82), ("crashes", 81))]
        return [*links, self._link(0, "low", -5), self._link(0, "high", 5), self._link(6, "more", 91)]

    async def _page(self, worker: str, name: str, call: Call = ONCE) -> Lease:
        """The next lease, which has to be of this page; a robots.txt that is read before it is read."""
        for _ in range(3):
            (lease,) = (await self.frontier.lease(worker, 1, call)).leases
            if lease.work is Work.PAGE:
                assert lease.request.url.endswith(f"/{name}"), f"{lease.request.url}, and not {name}"
                return lease
            await self.frontier.commit(worker, [self._robots(lease)])
        raise AssertionError("no page was granted")

    def _robots(self, lease: Lease) -> Outcome:
        address = ADDRESS if lease.host_key in (self.key_of(0), self.key_of(1)) else ""
        news = HostNews(robots=RobotsRecord(b"User-agent: *\nDisallow: /private\n"), answered=True, address=address)
        return Outcome(lease=lease, ending=Ending.DONE, news=news)

    async def _end(self, worker: str, name: str, ending: Ending = Ending.DONE, **fields: Any) -> None:
        lease = await self._page(worker, name)
        news = HostNews(answered=True)
        (accepted,) = (
            await self.frontier.commit(worker, [Outcome(lease=lease, ending=ending, news=news, **fields)])
        ).accepted
        assert accepted

    async def _lose(self) -> None:
        """A suspect, of a host that has asked for a pause."""
        await self._page("w9", "lost")
        await self.frontier.release_worker("w9")
        await self._page("w9", "lost")
        blocked = await self._page("w8", "blocked")
        await self.frontier.release_worker("w9")
        news = HostNews(blocked=True, retry_after_seconds=5000.0)
        outcome = Outcome(lease=blocked, ending=Ending.RETRY, error_class="blocked", error="HTTP 503", news=news)
        await self.frontier.commit("w8", [outcome])

    async def _strike(self) -> None:
        """The robots.txt of a host cannot be read."""
        (gate,) = (await self.frontier.lease("w4", 1)).leases
        assert (gate.work, gate.host_key) == (Work.ROBOTS, self.key_of(6)), gate
        news = HostNews(unreachable=True)
        outcome = Outcome(lease=gate, ending=Ending.RETRY, error_class="connect", error="refused", news=news)
        await self.frontier.commit("w4", [outcome])

    async def _give_up(self) -> None:
        """The second time, the host is given up; some of its queue is left to bury."""
        self.clock.advance(1.0)
        await self._strike()

    # ---- to the end

    async def finish(self) -> list[str]:
        """Crawl what is left; the URLs of the pages that were done now, in their order."""
        done: list[str] = []
        await self.frontier.command(Command.RESUME)
        assert await self.frontier.close_intake(INTAKE, "")
        for _ in range(500):
            grant = await self.frontier.lease("w5", 50, _SERVES)
            if grant.state is State.FINISHED:
                return done
            if not grant.leases:
                self.clock.advance(grant.ask_again_seconds if grant.ask_again_seconds < 0.5 else 301.0)
                continue
            outcomes = [
                self._robots(lease)
                if lease.work is Work.ROBOTS
                else Outcome(lease=lease, ending=Ending.DONE, news=HostNews(answered=True))
                for lease in grant.leases
            ]
            committed = await self.frontier.commit("w5", outcomes)
            for lease, accepted in zip(grant.leases, committed.accepted, strict=True):
                assert accepted
                if lease.work is Work.PAGE:
                    done.append(lease.request.url)
        raise AssertionError(f"the job does not end: {await self.frontier.report(0)}")

    async def goes_on(self, before: set[str]) -> None:
        """The crawl ends, and every page that was not crawled before is crawled once."""
        done = await self.finish()
        counts = await self.frontier.counts()
        assert [url for url, times in Counter(done).items() if times > 1] == []
        # What has ended before is not crawled again. The queue of the last host dies, or is crawled.
        ended = before | {f"{self.key_of(0)}/{name}" for name in ("failed", "excluded", "redirected")}
        down = {url for url in self.urls if url.startswith(self.key_of(6))}
        assert set(done) - down == self.urls - ended - down
        assert (counts.unfinished, counts.seen) == (0, len(self.urls))
        assert counts.done == len(before) + len(done)
        report = await self.frontier.check_consistency()
        assert report.findings == []
