"""Cookies of a worker: its view of the jars in the frontier, which its own pages may be ahead of.

A page sends the cookies that the worker knows when it starts; what its answer sets is known to the worker's other
pages at once, and to everybody with the commit. A lease says the version of its jars, so that one which others have
changed is read before the page starts.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence

from skitter.frontier.contract import WorkSource
from skitter.model.lease import Lease
from skitter.model.outcome import Outcome
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.model.session import Cookie, CookieNews, JarRef
from skitter.model.url import host_name
from skitter.policy.cookies import is_change, merged, size_of
from skitter.policy.public_suffixes import load_suffixes, registrable_domain
from skitter.spiders.scrapy_names import with_options

MAX_JARS = 2_000
MAX_BYTES = 8_388_608
"""Of all jars that a worker has at hand; the frontier has the others."""
MAX_PENDING = 64
"""Changes of one jar that a worker remembers until they are committed."""
_NAMED = b"\xa7session"
"""In the stored form of a request whose session has a name, or that has none."""
_SCRAPY = b"cookie"
"""In one whose ``meta`` has Scrapy's key of that."""


class _Jar:
    """The cookies of one session and registrable domain, as this worker knows them."""

    __slots__ = ("cookies", "copy", "pending", "seen", "size", "version")

    def __init__(self) -> None:
        self.version = 0
        """In the frontier, of the copy that this one began with; 0: not known."""
        self.seen = 0
        """The version of the domain's jars when it was read."""
        self.pending: list[CookieNews] = []
        """Changes that are not committed yet."""
        self.use([])

    def use(self, cookies: list[Cookie]) -> None:
        self.cookies = {cookie.key: cookie for cookie in cookies}
        self.copy = tuple(cookies)
        self.size = sum(map(size_of, cookies))


class SessionJars:
    """The jars that a worker has at hand."""

    def __init__(self, source: WorkSource) -> None:
        self._source = source
        self._jars: OrderedDict[tuple[str, str], _Jar] = OrderedDict()
        self._size = 0
        self._has_suffixes = False
        self.has_changes = False
        """An answer has set a cookie: commits may have some."""

    async def load(self, leases: Sequence[Lease]) -> None:
        """Have the jars of these leases as new as the leases say, with one call at most."""
        wanted: dict[tuple[str, str], int] = {}
        for lease in leases:
            if lease.jar:
                await self._use_suffixes()
                session: str | None = lease.session_name
                if not session and (_NAMED in lease.payload or _SCRAPY in lease.payload):
                    session = _session_of(lease)
                key = (session or "", _domain(lease.host_key))
                jar = self._jars.get(key)
                if session is not None and (jar is None or jar.seen != lease.jar):
                    wanted[key] = lease.jar
        if wanted:
            await self._read(wanted)

    async def _read(self, wanted: dict[tuple[str, str], int]) -> None:
        known = {key: jar.version for key in wanted if (jar := self._jars.get(key)) is not None}
        for found in await self._source.jars([JarRef(*key, known.get(key, 0)) for key in wanted]):
            jar = self._jar((found.session, found.domain))
            cookies = found.cookies
            for news in jar.pending:
                # This worker's own pages are ahead.
                cookies = merged(cookies, news.cookies)
            self._change(jar, cookies)
            jar.version = found.version
        for key, version in wanted.items():
            # What was not sent is as it was, or is not there.
            self._jar(key).seen = version

    def copy_for(self, lease: Lease, request: Request) -> tuple[Cookie, ...] | None:
        """The cookies that a page may send; None: it has no session."""
        if request.session is None:
            return None
        if not self._jars:
            return ()
        key = (lease.session_name or request.session, _domain(lease.host_key))
        jar = self._jars.get(key)
        if jar is None:
            return ()
        self._jars.move_to_end(key)
        return jar.copy

    async def received(self, lease: Lease, request: Request, page: Page) -> CookieNews | None:
        """What an answer has changed, for this worker's pages at once, for others with the commit; None: nothing."""
        await self._use_suffixes()
        key = (lease.session_name or request.session or "", _domain(lease.host_key))
        jar, now = self._jar(key), time.time()
        changes = [cookie for cookie in page.cookies if is_change(jar.cookies.get(cookie.key), cookie, now)]
        if not changes:
            return None
        news = CookieNews(session=key[0], domain=key[1], cookies=changes)
        self.has_changes = True
        jar.pending.append(news)
        # Of pages whose leases are lost they are never committed.
        del jar.pending[:-MAX_PENDING]
        self._change(jar, merged(jar.cookies.values(), changes))
        self._bound()
        return news

    def begin_commit(self, outcomes: Sequence[Outcome]) -> None:
        """Say of each change what it was based on."""
        for outcome in outcomes:
            if (news := outcome.cookies) is not None and (jar := self._jars.get((news.session, news.domain))):
                outcome.cookies = CookieNews(
                    session=news.session, domain=news.domain, cookies=news.cookies, base=jar.version
                )
                if news in jar.pending:
                    jar.pending.remove(news)

    def end_commit(self, outcomes: Sequence[Outcome], accepted: Sequence[bool], versions: Sequence[int]) -> None:
        """Learn the versions of jars that this worker has changed, and forget what was refused."""
        changed = [outcome.cookies for outcome, is_accepted in zip(outcomes, accepted, strict=True) if is_accepted]
        news = [one for one in changed if one is not None]
        told = versions if len(versions) == len(news) else [0] * len(news)
        for one, version in zip(news, told, strict=True):
            if (jar := self._jars.get((one.session, one.domain))) is not None:
                # 0: others have changed it as well. It is read again with the next lease.
                jar.version = jar.seen = version
        for outcome, is_accepted in zip(outcomes, accepted, strict=True):
            if not is_accepted and (refused := outcome.cookies) is not None:
                self._forget((refused.session, refused.domain))

    def _jar(self, key: tuple[str, str]) -> _Jar:
        jar = self._jars.get(key)
        if jar is None:
            jar = self._jars[key] = _Jar()
        return jar

    def _change(self, jar: _Jar, cookies: list[Cookie]) -> None:
        self._size -= jar.size
        jar.use(cookies)
        self._size += jar.size

    def _forget(self, key: tuple[str, str]) -> None:
        if (jar := self._jars.pop(key, None)) is not None:
            self._size -= jar.size

    def _bound(self) -> None:
        while len(self._jars) > MAX_JARS or self._size > MAX_BYTES:
            oldest = next((key for key, jar in self._jars.items() if not jar.pending), None)
            if oldest is None:
                break
            self._forget(oldest)

    async def _use_suffixes(self) -> None:
        if not self._has_suffixes:
            # It takes a tenth of a second, which the loop does not stand still for.
            await asyncio.to_thread(load_suffixes)
            self._has_suffixes = True


def _session_of(lease: Lease) -> str | None:
    try:
        return with_options(lease.request).session
    except Exception:  # noqa: BLE001  whatever is wrong with it, its page will tell
        return None


def _domain(host_key: str) -> str:
    return registrable_domain(host_name(f"{host_key}/"))
