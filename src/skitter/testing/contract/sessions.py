"""Sessions that are handed out: exactly as often as they may be used, and logged in once."""

from __future__ import annotations

from typing import Any

import msgspec

from skitter.frontier.contract import Frontier
from skitter.model.host import HostCommand
from skitter.model.job import State
from skitter.model.lease import Call, Lease
from skitter.model.outcome import Ending
from skitter.model.proxy import ProxyFault
from skitter.model.request import Entry, Fingerprinter, Request
from skitter.model.session import LOGIN_NEED, SessionLogin, SessionNews, SessionState
from skitter.policy.sessions import LOGIN_ASK_SECONDS, LOGIN_RETRY_SECONDS, LOGIN_SECONDS, MAX_LOGIN_FAILURES
from skitter.testing.contract.client import Client, name_of, url_of
from skitter.testing.contract.jars import news, set_cookies, values
from skitter.testing.contract.proxies import end_well, fail, with_proxies
from skitter.testing.contract.store import ContractStore

LEASE = next(Call(token=token) for token in ("lease",))
EXPIRED = SessionNews(expired=True)


async def begin(client: Client, *names: str, session: str = "", login: bool = False, **settings: Any) -> None:
    """Begin a job whose sessions are handed out, with requests that use one."""
    spec = client.spec(**settings)
    if login:
        spec = msgspec.structs.replace(spec, login=True)
    await client.begin(spec)
    (lease,) = await client.lease("seeder", 1)
    entries = await entries_of(client.frontier, *names, session=session)
    outcome = await client.outcome(lease)
    outcome.links = entries
    assert (await client.commit(outcome, worker="seeder")).accepted == [True]


async def entries_of(frontier: Frontier, *names: str, session: str = "", need: str = "") -> list[Entry]:
    fingerprinter = Fingerprinter.of_job(await frontier.job())
    unfiltered = bool(need)
    return [
        fingerprinter.entry(Request(url_of(name), session=session, need=need, dont_filter=unfiltered)) for name in names
    ]


async def begin_login(client: Client, generation: int, name: str) -> None:
    """Begin the login of alice that a worker is asked for, with one request."""
    asked = SessionLogin("alice", generation)
    assert (await client.grant("w1")).logins == [asked]
    entries = await entries_of(client.frontier, name, session="alice", need=f"{LOGIN_NEED}alice")
    assert await client.frontier.log_in(asked, entries)
    client.remember(entries)


async def log_in(client: Client, generation: int, name: str) -> Lease:
    """Begin that login, and lease its request."""
    await begin_login(client, generation, name)
    (login,) = await client.lease("w1")
    assert name_of(login) == name
    return login


def sessions_of(leases: list[Lease]) -> list[str]:
    return sorted(lease.session_name for lease in leases)


class Sessions:
    """A pool, exclusive sessions, and logins."""

    async def test_a_pool_is_used_in_turn(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, *(f"a/{n}" for n in range(6)), session_pool=3)
        leases = await client.lease()
        assert sessions_of(leases) == ["pool-1", "pool-1", "pool-2", "pool-2", "pool-3", "pool-3"]
        await client.end_all(leases)

    async def test_an_exclusive_session_is_leased_once_at_a_time(self, store: ContractStore) -> None:
        store.needs_sessions()
        client, other = store.client(), store.client()
        await begin(client, "a/1", "b/1", "c/1", session="alice", exclusive_sessions=True)
        await client.add("d/1", "e/1")
        first = await client.lease("w1")
        assert sorted(lease.session_name for lease in first) == ["", "", "alice"], "others are not held up"
        assert await other.lease("w2") == []
        (held,) = [lease for lease in first if lease.session]
        await client.end_all([lease for lease in first if not lease.session])
        await client.release(held)
        (again,) = await other.lease("w2")
        assert again.session_name == "alice"
        await client.lose("w2")
        (again,) = await client.lease("w1")
        committed = await client.commit(await client.outcome(again), worker="w1", want=5)
        assert committed.grant is not None
        assert sessions_of(committed.grant.leases) == ["alice"]
        await client.end_all(committed.grant.leases)
        await client.end_all(await client.lease("w1"))

    async def test_uses_are_counted_with_the_grant(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        names = [f"a/{n}" for n in range(7)]
        await begin(client, *names, session_pool=2, max_session_uses=2, login=True)
        await self._log_in_all(client)
        leases = await client.lease()
        assert sessions_of(leases) == ["pool-1", "pool-1", "pool-2", "pool-2"]
        await client.release(leases[0])
        before = await client.grant()
        assert [lease.session for lease in before.leases] == [leases[0].session], "what was not used is not counted"
        await client.lose("w")
        grant = await client.grant("w2")
        logins = before.logins + grant.logins
        assert (grant.leases, sorted(login.name for login in logins)) == ([], ["pool-1", "pool-2"])
        await self._log_in_all(client, logins)
        leases = await client.lease()
        assert {lease.session for lease in leases} == {"pool-1 2", "pool-2 2"}
        await client.end_all(leases)

    async def test_a_session_that_is_too_old_is_replaced(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, "a/1", "a/2", session_pool=1, max_session_seconds=1.0)
        one, two = await client.lease()
        await set_cookies(client, one, news(("sid", "1"), session="pool-1"))
        await client.release(two)
        await store.elapse(1.1)
        (lease,) = await client.lease()
        assert lease.session == "pool-1 2"
        assert await values(client, "pool-1") == {}, "its cookies are forgotten, and workers learn of that"
        assert lease.jar > one.jar

    async def test_a_session_that_has_expired_is_logged_in_once(self, store: ContractStore) -> None:
        store.needs_sessions()
        client, other = store.client(), store.client()
        await begin(client, "a/1", "a/2", "b/1", session="alice", login=True)
        assert (await client.grant("w1")).logins == [SessionLogin("alice", 1)]
        assert (await other.grant("w2")).logins == [], "one worker is asked"
        entries = await entries_of(client.frontier, "a/login", session="alice", need=f"{LOGIN_NEED}alice")
        assert await client.frontier.log_in(SessionLogin("alice", 1), entries)
        client.remember(entries)
        assert not await other.frontier.log_in(SessionLogin("alice", 1), [])
        (login,) = await client.lease("w1")
        assert name_of(login) == "a/login"
        more = await entries_of(client.frontier, "a/submit", session="alice", need=f"{LOGIN_NEED}alice")
        outcome = await client.outcome(login, cookies=news(("sid", "1"), session="alice"))
        outcome.links = more
        await client.commit(outcome, worker="w1")
        (submit,) = await other.lease("w2")
        assert name_of(submit) == "a/submit"
        await client.end(submit)
        pages = {name_of(lease): lease for lease in await client.lease("w1")}
        assert set(pages) == {"a/1", "a/2", "b/1"}
        retry = {"ending": Ending.RETRY, "error_class": "http_4xx", "error": "HTTP 401", "session_news": EXPIRED}
        for name in ("a/1", "a/2"):
            assert await client.end(pages[name], **retry)  # type: ignore[arg-type]
        assert await values(client, "alice") == {}
        assert await client.end(pages["b/1"])
        grants = [await client.grant("w1"), await other.grant("w2")]
        assert [grant.logins for grant in grants] == [[SessionLogin("alice", 2)], []]
        assert await client.frontier.log_in(SessionLogin("alice", 2), [])
        assert sorted(name_of(lease) for lease in await client.lease("w1")) == ["a/1", "a/2"]
        (seen,) = [one for one in await client.frontier.sessions() if one.name == "alice"]
        assert seen.record is not None
        assert (seen.record.generation, seen.record.uses, seen.record.in_flight) == (2, 2, 2)
        assert (seen.cookies, seen.domains) == (0, [])

    async def test_a_worker_that_dies_before_it_logs_in_is_followed_by_another(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, "a/1", session="alice", login=True)
        assert (await client.grant("w1")).logins == [SessionLogin("alice", 1)]
        await store.elapse(LOGIN_ASK_SECONDS + 1)
        assert (await client.grant("w2")).logins == [SessionLogin("alice", 1)]

    async def test_logins_that_fail_come_to_an_end(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, "a/1", session="alice", login=True)
        for failure in range(MAX_LOGIN_FAILURES):
            (login,) = (await client.grant("w1")).logins
            assert await client.frontier.log_in(login, [], failed=True)
            if failure < MAX_LOGIN_FAILURES - 1:
                assert (await client.grant("w1")).logins == []
                await store.elapse(LOGIN_RETRY_SECONDS * 2**failure + 1)
        (lease,) = await client.lease("w1")
        assert lease.session_name == "alice", "the page tells what is wrong"
        (seen,) = await client.frontier.sessions()
        assert seen.record is not None
        assert (seen.record.state, seen.record.failures) == (SessionState.READY, MAX_LOGIN_FAILURES)

    async def test_a_login_that_failed_is_followed_by_one_of_another_generation(self, store: ContractStore) -> None:
        """With the same generation, its requests would have the same ids, and be duplicates."""
        store.needs_sessions()
        client = store.client()
        await begin(client, "a/1", session="alice", login=True)
        login = await log_in(client, 1, "a/login")
        await client.end(login, Ending.FAILED, error_class="http_5xx", error="HTTP 500")
        await store.elapse(LOGIN_RETRY_SECONDS + 1)
        await client.end(await log_in(client, 2, "a/login-2"))
        assert await client.names() == ["a/1"]

    async def test_a_login_whose_host_is_paused_is_waited_for(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, "a/1", "b/1", session="alice", login=True)
        await begin_login(client, 1, "a/login")
        await client.frontier.command_host("http://a.example", HostCommand.PAUSE)
        for _ in range(MAX_LOGIN_FAILURES + 1):
            await store.elapse(LOGIN_SECONDS + 1)
            grant = await client.grant("w1")
            assert (grant.leases, grant.logins) == ([], []), "not a page of b is fetched without the login"
        await client.frontier.command_host("http://a.example", HostCommand.RESUME)
        (login,) = await client.lease("w1")
        assert name_of(login) == "a/login"
        await client.end(login)
        assert sorted(await client.names()) == ["a/1", "b/1"]

    async def test_a_login_without_a_request_fails_after_a_while(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, "b/1", session="alice", login=True)
        await begin_login(client, 1, "a/login")
        await client.frontier.command_host("http://a.example", HostCommand.GIVE_UP)
        assert (await client.grant("w1")).logins == []
        await store.elapse(LOGIN_SECONDS + 1)
        await client.grant("w1")
        await store.elapse(LOGIN_RETRY_SECONDS + 1)
        assert (await client.grant("w1")).logins == [SessionLogin("alice", 2)]

    async def test_requests_that_a_login_has_left_do_not_keep_the_job_from_finishing(
        self, store: ContractStore
    ) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, "b/1", session="alice", login=True)
        await begin_login(client, 1, "a/login")
        await client.frontier.command_host("http://a.example", HostCommand.GIVE_UP)
        for failure in range(MAX_LOGIN_FAILURES):
            await client.grant("w1")
            await store.elapse(LOGIN_SECONDS + LOGIN_RETRY_SECONDS * 2**failure + 1)
            for asked in (await client.grant("w1")).logins:
                assert await client.frontier.log_in(asked, [], failed=True)
        (page,) = await client.lease("w1")
        await client.end(page)
        assert await client.state() is State.FINISHED
        assert await client.frontier.revive() == 1
        (login,) = await client.lease("w1")
        assert name_of(login) == "a/login"
        await client.end(login)
        assert await client.state() is State.FINISHED

    async def test_a_need_of_several_words_is_served_when_each_is(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, "a/1", session="alice", exclusive_sessions=True)
        fingerprinter = Fingerprinter.of_job(await client.frontier.job())
        entry = fingerprinter.entry(Request(url_of("b/1"), session="alice", need="browser", priority=1))
        assert entry.need == "browser session:alice"
        await client.add_entries([entry])
        assert await client.names("w1") == ["a/1"]
        client.serves("w2", "browser")
        assert await client.names("w2") == []
        await client.lose("w1")
        assert await client.names("w2") == ["b/1"]

    async def test_a_run_that_goes_on_without_sessions_is_not_held_up(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, "a/1", session="alice", exclusive_sessions=True, session_pool=1)
        await client.add_entries(await entries_of(client.frontier, "b/1"))
        held = {name_of(lease): lease.session for lease in await client.lease("w")}
        assert held == {"a/1": "alice 1", "b/1": "pool-1 1"}
        await client.begin(client.spec(exclusive_sessions=False, session_pool=0))
        await client.lose("w")
        leases = await client.lease("w")
        assert sorted((name_of(lease), lease.session) for lease in leases) == [("a/1", ""), ("b/1", "")]
        await client.end_all(leases)

    async def test_a_lease_that_is_sent_again_has_its_session(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, "a/1", session="alice", exclusive_sessions=True)
        call = LEASE
        first = await client.frontier.lease("w", 5, call)
        again = await client.frontier.lease("w", 5, call)
        assert [lease.session for lease in first.leases] == [lease.session for lease in again.leases] == ["alice 1"]

    async def test_a_session_keeps_its_proxy_until_it_is_replaced(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, *(f"a/{n}" for n in range(9)), session="alice", proxy_pool=True, proxy_rotation="session")
        await client.add_entries(await entries_of(client.frontier, *(f"a/{n}" for n in range(9)), session="bob"))
        await with_proxies(client, 4)
        kept: dict[str, set[str]] = {}
        for _ in range(6):
            lease = await client.one()
            kept.setdefault(lease.session_name, set()).add(lease.proxy)
            await end_well(client, lease)
        assert [len(proxies) for proxies in kept.values()] == [1] * len(kept)
        lease = await client.one()
        await fail(client, lease, ProxyFault.BANNED)
        others = [one for one in await client.lease() if one.session == lease.session]
        assert others
        assert lease.proxy not in {one.proxy for one in others}, "a proxy that is banned is kept by nobody"

    async def test_nothing_waits_for_sessions_that_are_not_handed_out_any_more(self, store: ContractStore) -> None:
        store.needs_sessions()
        client = store.client()
        await begin(client, "a/1", "b/1", session="alice", exclusive_sessions=True)
        assert len(await client.lease("w1")) == 1
        await client.begin(client.spec())
        (lease,) = await client.lease("w2")
        assert lease.session == ""

    async def _log_in_all(self, client: Client, logins: list[SessionLogin] | None = None) -> None:
        for login in logins if logins is not None else (await client.grant("w")).logins:
            assert await client.frontier.log_in(login, [])
