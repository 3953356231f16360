"""The host gate: reading a host's robots.txt, once for the cluster, and obeying it."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from skitter.errors import FetchError, UrlError
from skitter.fetch.contract import Fetcher, FetchRequest
from skitter.frontier.contract import WorkSource
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, HostNews, Outcome, RobotsRecord
from skitter.model.page import Page
from skitter.model.url import absolute, host_key
from skitter.policy import retry
from skitter.policy.redirects import REDIRECT_STATUSES
from skitter.policy.robots import MAX_ROBOTS_BYTES, ROBOTS_PATH, Robots, Rule, robots_verdict
from skitter.settings import Settings
from skitter.worker.leased_proxy import LeasedProxies

_MAX_HOPS = 5
_MAX_HOSTS = 2_000
_MAX_RULES = 200_000
"""Parsed files a worker keeps, and rules in them (about 80 MB); the frontier has them all."""
_LARGE_BYTES = 32_768
"""What is larger is parsed beside the loop: 500 KB can take 0.15 s."""


class RobotsGate:
    """Reads robots.txt for the frontier, and answers for what the frontier says governs a host."""

    def __init__(
        self, *, source: WorkSource, fetcher: Fetcher, settings: Settings, proxies: LeasedProxies | None = None
    ) -> None:
        self._source = source
        self._proxies = proxies or LeasedProxies(source, settings.proxies)
        self._fetcher = fetcher
        self._settings = settings
        self._rules: OrderedDict[str, tuple[int, Robots]] = OrderedDict()
        self._size = 0

    async def read(
        self, lease: Lease, start_by: float | None = None, on_send: Callable[[], None] | None = None
    ) -> Outcome:
        """Fetch the robots.txt that a gate lease is about. Raises LateError: see ``FetchRequest.start_by``."""
        if not lease.proxy:
            return (await self._read(lease, start_by, on_send))[0]
        proxy = await self._proxies.url_of(lease)
        outcome, fetched = await self._read(lease, start_by, on_send, proxy)
        if isinstance(fetched, FetchError):
            outcome.proxy_news = self._proxies.of_error(fetched, is_page=False)
            outcome.touched = fetched.error_class != "proxy"
        elif fetched is not None:
            outcome.proxy_news = self._proxies.of_page(fetched, proxy, is_page=False)
        return outcome

    async def _read(
        self, lease: Lease, start_by: float | None, on_send: Callable[[], None] | None, proxy: str = ""
    ) -> tuple[Outcome, Page | FetchError | None]:
        """The outcome, and what it was made of."""
        url, page = lease.host_key + ROBOTS_PATH, None
        try:
            for _ in range(_MAX_HOPS + 1):
                # What the user has permitted is this host, not whatever its robots.txt redirects to.
                trusted = lease.trusted and host_key(url) == lease.host_key
                request = FetchRequest(
                    url=url,
                    trusted=trusted,
                    truncate_bytes=MAX_ROBOTS_BYTES + 1,  # one more tells that there is more
                    start_by=start_by if page is None else None,
                    on_send=on_send,
                    proxy=proxy,
                    proxy_trusted=True,
                )
                page = await self._fetcher.fetch(request)
                location = page.header("location")
                if page.status not in REDIRECT_STATUSES or location is None:
                    break
                url = absolute(location, url)
        except FetchError as error:
            if error.error_class != "guard":
                # Of a host that cannot be reached, no file is to blame.
                is_down = error.error_class in retry.UNREACHABLE_ERROR_CLASSES
                told = str(error).removesuffix(f": {lease.host_key}{ROBOTS_PATH}" if is_down else "")
                outcome = self._unknown(lease, error.error_class, told)
                if error.error_class in retry.BACKOFF_ERROR_CLASSES:
                    outcome.news = HostNews(blocked=True)
                return outcome, error
            page = None
        except UrlError:
            page = None
        if page is None:
            # Not ours to read: each page of the host will meet the network guard by itself.
            return self._learnt(lease, RobotsRecord(), HostNews()), None
        verdict = robots_verdict(page.status, page.body)
        if verdict.kind == "unknown":
            pause = retry.retry_after_seconds(page.header("retry-after"), lease.leased_at, page.header("date"))
            error_class = retry.error_class(page.status)
            if page.status in retry.BLOCK_STATUSES or pause is not None:
                outcome = self._unknown(lease, error_class, f"HTTP {page.status}: {url}")
                outcome.news = HostNews(blocked=True, retry_after_seconds=pause)
                return outcome, page
            return self._unknown(lease, error_class, f"HTTP {page.status}: {url}"), page
        robots = await self._parsed(verdict.text)
        record = RobotsRecord(verdict.text, robots.crawl_delay or 0.0)
        # A chain may have led to another host, whose address is not this one's. How fast a small file comes says
        # nothing of pages.
        address = page.address if host_key(url) == lease.host_key else ""
        return self._learnt(lease, record, HostNews(answered=True, address=address)), page

    async def load(self, leases: Sequence[Lease]) -> None:
        """Have the rules of all hosts of these leases at hand, with one call at most."""
        missing = set()
        for lease in leases:
            if lease.robots_version and self._rules.get(lease.host_key, (0,))[0] != lease.robots_version:
                missing.add(lease.host_key)
            elif lease.host_key in self._rules:
                self._rules.move_to_end(lease.host_key)
        if not missing:
            return
        records = await self._source.robots(sorted(missing))
        for key, record in records.items():
            robots = await self._parsed(record.text)
            self._forget(key)
            self._rules[key] = (record.version, robots)
            self._size += robots.size
        # What these leases need was used last, so it goes last: if that is all there is, it stays.
        needed = {lease.host_key for lease in leases}
        while len(self._rules) > _MAX_HOSTS:
            if (oldest := next(iter(self._rules))) in needed:
                break
            self._forget(oldest)
        while self._size > _MAX_RULES:
            # Not the oldest: a few hosts with huge files would push out all others, to be parsed anew with each page.
            spare = [key for key in self._rules if key not in needed]
            if not spare:
                break
            self._forget(max(spare, key=lambda key: self._rules[key][1].size))

    async def _parsed(self, text: bytes) -> Robots:
        agent = self._settings.fetch.agent
        if len(text) < _LARGE_BYTES:
            return Robots.parse(text, agent)
        return await asyncio.to_thread(Robots.parse, text, agent)

    def _forget(self, key: str) -> None:
        known = self._rules.pop(key, None)
        if known is not None:
            self._size -= known[1].size

    def rule_against(self, lease: Lease, url: str) -> Rule | None:
        """The rule of the host that keeps this URL from being fetched; ``load`` was called for the lease."""
        if not lease.robots_version:
            return None
        known = self._rules.get(lease.host_key)
        rule = known[1].deciding(url) if known is not None else None
        return None if rule is None or rule.allow else rule

    async def copy_of(self, lease: Lease) -> Page | None:
        """The host's robots.txt as the frontier has it: it is read once, whoever asks. None: the job reads none."""
        if not self._settings.politeness.obey_robots:
            return None
        text = b""
        if lease.robots_version:
            record = (await self._source.robots([lease.host_key])).get(lease.host_key)
            text = record.text if record is not None else b""
        return Page(url=lease.host_key + ROBOTS_PATH, status=200, headers=[], body=text, started_at=time.time())

    @staticmethod
    def _learnt(lease: Lease, record: RobotsRecord, news: HostNews) -> Outcome:
        told = HostNews(answered=news.answered, address=news.address, robots=record)
        return Outcome(lease=lease, ending=Ending.DONE, news=told)

    @staticmethod
    def _unknown(lease: Lease, error_class: str, message: str) -> Outcome:
        return Outcome(
            lease=lease,
            ending=Ending.RETRY,
            error_class=error_class,
            error=message,
            news=HostNews(unreachable=True),
        )
