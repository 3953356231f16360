"""A worker's view of jars: ahead of the frontier by its own pages, and as new as its leases say."""

from __future__ import annotations

from typing import Any

from skitter.frontier.memory import memory_frontier
from skitter.model.job import JobSpec
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, Outcome
from skitter.model.page import Page
from skitter.model.request import Fingerprinter, Request
from skitter.model.session import Cookie, CookieNews, Jar, JarRef
from skitter.worker.session_jars import SessionJars

URL = "http://www.a.example/"


class CountedStore:
    """A frontier that counts what is read of it."""

    def __init__(self) -> None:
        self.frontier = memory_frontier("job")
        self.reads: list[JarRef] = []

    async def jars(self, wanted: Any) -> list[Jar]:
        self.reads += wanted
        return await self.frontier.jars(wanted)

    async def leases(self, *names: str, **fields: Any) -> list[Lease]:
        """Begin, and lease these pages."""
        await self.frontier.begin(JobSpec(name="job", spider="", settings={"obey_robots": False, "delay_seconds": 0}))
        fingerprinter = Fingerprinter((await self.frontier.job()).secret)
        entries = [fingerprinter.entry(Request(URL + name, **fields)) for name in names]
        (seeding,) = (await self.frontier.lease("w", 1)).leases
        await self.frontier.commit("w", [Outcome(lease=seeding, ending=Ending.DONE, links=entries)])
        return (await self.frontier.lease("w", len(names))).leases


def page(*cookies: Cookie) -> Page:
    return Page(url=URL, status=200, headers=[], body=b"", cookies=cookies)


def sent(jars: SessionJars, lease: Lease, request: Request | None = None) -> dict[str, str] | None:
    copy: tuple[Cookie, ...] | None = jars.copy_for(lease, request or lease.request)
    return None if copy is None else {cookie.name: cookie.value for cookie in copy}


async def commit(store: CountedStore, jars: SessionJars, lease: Lease, news: CookieNews | None) -> bool:
    outcome = Outcome(lease=lease, ending=Ending.DONE, cookies=news)
    jars.begin_commit([outcome])
    answer = await store.frontier.commit("w", [outcome])
    jars.end_commit([outcome], answer.accepted, answer.jars)
    return answer.accepted[0]


async def test_what_a_worker_has_set_itself_is_not_read_again() -> None:
    store = CountedStore()
    jars = SessionJars(store)  # type: ignore[arg-type]
    one, two, three = await store.leases("1", "2", "3")
    assert jars.copy_for(one, one.request) == ()
    news = await jars.received(one, one.request, page(Cookie("sid", "1", "a.example", host_only=False)))
    assert sent(jars, two) == {"sid": "1"}, "its other pages know it at once"
    assert await commit(store, jars, one, news)
    again = await jars.received(two, two.request, page(Cookie("sid", "1", "a.example", host_only=False)))
    assert again is None, "the same cookie is no change"
    await store.frontier.release([three])
    (lease,) = (await store.frontier.lease("w", 1)).leases
    await jars.load([lease])
    assert (lease.jar, store.reads) == (1, [])


async def test_what_others_have_changed_is_read_and_own_pages_stay_ahead() -> None:
    store = CountedStore()
    jars, others = SessionJars(store), SessionJars(store)  # type: ignore[arg-type]
    one, two, three = await store.leases("1", "2", "3")
    await commit(
        store, others, one, await others.received(one, one.request, page(Cookie("sid", "theirs", "a.example")))
    )
    await jars.received(two, two.request, page(Cookie("own", "1", "a.example")))
    await store.frontier.release([three])
    (lease,) = (await store.frontier.lease("w", 1)).leases
    await jars.load([lease, lease])
    assert store.reads == [JarRef("", "a.example", 0)]
    assert sent(jars, lease) == {"sid": "theirs", "own": "1"}
    await jars.load([lease])
    assert len(store.reads) == 1


async def test_cookies_of_a_refused_commit_are_forgotten() -> None:
    store = CountedStore()
    jars = SessionJars(store)  # type: ignore[arg-type]
    (lost,) = await store.leases("1")
    news = await jars.received(lost, lost.request, page(Cookie("sid", "stale", "a.example")))
    await store.frontier.release_worker("w")
    (lease,) = (await store.frontier.lease("w2", 1)).leases
    assert sent(jars, lease) == {"sid": "stale"}
    assert not await commit(store, jars, lost, news)
    assert sent(jars, lease) == {}


async def test_sessions_are_kept_apart_and_none_has_no_cookies() -> None:
    store = CountedStore()
    jars = SessionJars(store)  # type: ignore[arg-type]
    (lease,) = await store.leases("1", session="alice")
    await jars.received(lease, lease.request, page(Cookie("sid", "hers", "a.example")))
    assert sent(jars, lease) == {"sid": "hers"}
    assert sent(jars, lease, Request(URL)) == {}
    assert sent(jars, lease, Request(URL, session=None)) is None
