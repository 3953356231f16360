"""Cookies: set by accepted commits, in the order of the commits, and reported with all later leases."""

from __future__ import annotations

from skitter.model.job import Begun
from skitter.model.lease import Call, Lease
from skitter.model.outcome import Ending
from skitter.model.session import DELETED, Cookie, CookieNews, Jar, JarRef
from skitter.policy.cookies import MAX_JAR_BYTES, MAX_JAR_COOKIES
from skitter.testing.contract.client import Client, name_of
from skitter.testing.contract.resent_calls import again
from skitter.testing.contract.store import ContractStore

LEASE, COMMIT = (Call(token=token) for token in ("lease", "commit"))


def news(*cookies: tuple[str, str] | Cookie, session: str = "", domain: str = "a.example", base: int = 0) -> CookieNews:
    """Return news with cookies of a domain, each given by name and value."""
    found = [one if isinstance(one, Cookie) else Cookie(one[0], one[1], domain) for one in cookies]
    return CookieNews(session=session, domain=domain, cookies=found, base=base)


async def set_cookies(client: Client, lease: Lease, given: CookieNews) -> list[int]:
    committed = await client.commit(await client.outcome(lease, cookies=given))
    assert committed.accepted == [True]
    return committed.jars


async def values(client: Client, session: str = "", domain: str = "a.example") -> dict[str, str] | None:
    """Return names and values of the cookies in a jar; None if there is no jar."""
    jars = await client.frontier.jars([JarRef(session, domain)])
    return {cookie.name: cookie.value for cookie in jars[0].cookies} if jars else None


class Jars:
    """Each session has one jar for each registrable domain."""

    async def test_a_cookie_takes_effect_with_the_commit_and_is_told_with_leases(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.seeded("a/1", "a/2", "www.a/1", "b/1")
        leases = {name_of(lease): lease for lease in await client.lease()}
        assert {lease.jar for lease in leases.values()} == {0}
        (version,) = await set_cookies(client, leases["a/1"], news(("sid", "1")))
        assert version
        await client.release(leases["a/2"], leases["www.a/1"], leases["b/1"])
        told = {name_of(lease): lease.jar for lease in await other.lease("w2")}
        assert told == {"a/2": version, "www.a/1": version, "b/1": 0}, "for every host of the domain, and no other"
        jars = await other.frontier.jars([JarRef("", "a.example"), JarRef("", "b.example")])
        assert [(jar.session, jar.domain, jar.version, jar.cookies) for jar in jars] == [
            ("", "a.example", version, [Cookie("sid", "1", "a.example")])
        ]
        assert await other.frontier.jars([JarRef("", "a.example", version)]) == [], "that one is known"

    async def test_cookies_are_merged_in_the_order_of_the_commits(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.seeded(*(f"a/{n}" for n in range(5)))
        leases = await client.lease()
        deep = Cookie("sid", "9", "a.example", "/deep", 2**40, secure=True, http_only=True, host_only=False)
        first = await set_cookies(client, leases[3], news(("sid", "1"), ("b", "1"), deep))
        second = await set_cookies(other, leases[0], news(("sid", "2"), base=first[0]))
        assert second[0] > first[0] > 0
        gone = Cookie("b", "", "a.example", "/", DELETED)
        # Of two outcomes in one batch, the later one wins.
        outcomes = [
            await client.outcome(leases[1], cookies=news(("sid", "3"), base=first[0])),
            await client.outcome(leases[2], Ending.FAILED, cookies=news(("sid", "4"), gone)),
        ]
        committed = await client.commit(*outcomes)
        assert committed.jars == [0, 0], "it was not as this worker knew it"
        (jar,) = await client.frontier.jars([JarRef("", "a.example")])
        assert jar.cookies == [Cookie("sid", "4", "a.example"), deep], "a cookie that is set again keeps its place"
        assert jar.version == second[0] + 2
        gone = Cookie("sid", "", "a.example", "/", DELETED)
        await set_cookies(client, leases[4], news(gone, ("new", "1"), ("sid", "5")))
        (jar,) = await client.frontier.jars([JarRef("", "a.example")])
        assert [cookie.value for cookie in jar.cookies] == ["9", "1", "5"], "one that was taken back begins anew"

    async def test_a_lease_that_was_lost_sets_no_cookie(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        lost = await client.one("w1")
        await client.lose("w1")
        held = await client.one("w2")
        committed = await client.commit(await client.outcome(lost, cookies=news(("sid", "stale"))))
        assert (committed.accepted, committed.jars) == ([False], [])
        assert await values(client) is None
        await set_cookies(client, held, news(("sid", "good")))
        assert not await client.end(lost, cookies=news(("sid", "stale")))
        assert await values(client) == {"sid": "good"}

    async def test_sessions_are_kept_apart(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3")
        one, two, three = await client.lease()
        (first,) = await set_cookies(client, one, news(("sid", "anybody")))
        (second,) = await set_cookies(client, two, news(("sid", "hers"), session="alice"))
        await client.release(three)
        assert (await client.one("w2")).jar == second, "of all sessions the newest"
        assert await values(client) == {"sid": "anybody"}
        assert await values(client, "alice") == {"sid": "hers"}
        assert await values(client, "bob") is None
        wanted = [JarRef("", "a.example", first), JarRef("alice", "a.example", first)]
        assert [jar.session for jar in await client.frontier.jars(wanted)] == ["alice"]

    async def test_jars_are_kept_by_a_resume_and_gone_with_a_new_run(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        one, _ = await client.lease()
        await set_cookies(client, one, news(("sid", "1")))
        again_there = store.client()
        assert await again_there.begin() is Begun.RESUMED
        assert await values(again_there) == {"sid": "1"}
        assert await again_there.begin(fresh=True) is Begun.RERUN
        assert await values(again_there) is None
        await again_there.end(await again_there.one("seeder"), links=["a/1"])
        assert (await again_there.one()).jar == 0

    async def test_a_commit_that_is_sent_again_sets_its_cookies_once(self, store: ContractStore) -> None:
        client, other = store.client(), store.client()
        await client.seeded("a/1", "a/2", "a/3")
        one, two, three = await client.lease()
        outcome = await client.outcome(one, cookies=news(("sid", "1")))
        await client.frontier.commit("w", [outcome], 0, COMMIT)
        await other.commit(await other.outcome(two, cookies=news(("sid", "2"))), worker="w2")
        repeated = await client.frontier.commit("w", [outcome], 0, again(COMMIT))
        assert repeated.accepted == [True]
        assert await values(client) == {"sid": "2"}
        await client.end(three)

    async def test_a_page_in_parts_sets_its_cookies_with_the_last(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1")
        lease = await client.one()
        await client.commit(await client.outcome(lease, items=[b"1"], more=True, after=0))
        assert await values(client) is None
        await set_cookies(client, lease, news(("sid", "1")))
        assert await values(client) == {"sid": "1"}

    async def test_a_jar_is_bounded_and_the_oldest_cookies_give_way(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2", "a/3")
        one, two, three = await client.lease()
        many = [(f"n{n}", "x") for n in range(MAX_JAR_COOKIES)]
        await set_cookies(client, one, news(*many))
        await set_cookies(client, two, news(("n0", "newer"), ("more", "x")))
        kept = await values(client)
        assert kept is not None
        assert len(kept) == MAX_JAR_COOKIES
        assert "n1" not in kept
        assert [next(iter(kept)), list(kept)[-1]] == ["n0", "more"]
        large = [(f"l{n}", "é" * 2000) for n in range(20)]
        await set_cookies(client, three, news(*large))
        kept = await values(client)
        assert kept is not None
        assert list(kept) == [f"l{n}" for n in range(4, 20)], f"{MAX_JAR_BYTES} bytes in all"

    async def test_a_call_that_is_sent_again_is_told_the_version_again(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/1", "a/2")
        one, two = await client.lease()
        (version,) = await set_cookies(client, one, news(("sid", "1")))
        await client.release(two)
        for sent in (LEASE, again(LEASE)):
            grant = await client.frontier.lease("w3", 5, sent)
            assert [lease.jar for lease in grant.leases] == [version]

    async def test_no_jar_is_no_answer(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        assert await client.frontier.jars([]) == []
        jars: list[Jar] = await client.frontier.jars([JarRef("alice", "a.example", 3)])
        assert jars == []
