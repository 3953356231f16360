"""Commands for single hosts: an operator pauses, resumes or gives up a host; and the list of hosts."""

from __future__ import annotations

from skitter.frontier.contract import BATCH, PAUSED_HOSTS, POLL_SECONDS
from skitter.model.host import Halt, HostCommand, HostFilter
from skitter.model.job import Begun, HostSeen, State
from skitter.model.lease import Work
from skitter.model.outcome import Ending, HostNews
from skitter.policy.lost_leases import LOSSES_BEFORE_ALONE, LOSSES_IN_ALL
from skitter.policy.politeness import GIVEN_UP_CLASS, GIVEN_UP_REASON
from skitter.testing.contract.client import Client, name_of, names_of
from skitter.testing.contract.store import ContractStore

A, B = "http://a.example", "http://b.example"
MANY = 2 * BATCH + 200


def names(host: str, count: int) -> list[str]:
    return [f"{host}/{number}" for number in range(count)]


async def pause(client: Client, host: str = A) -> Halt | None:
    return await command(client, HostCommand.PAUSE, host)


async def resume(client: Client, host: str = A) -> Halt | None:
    return await command(client, HostCommand.RESUME, host)


async def give_up(client: Client, host: str = A) -> Halt | None:
    return await command(client, HostCommand.GIVE_UP, host)


async def command(client: Client, what: HostCommand, host: str) -> Halt | None:
    before = await client.frontier.command_host(host, what)
    await client.check()
    await is_consistent(client)
    return before


async def is_consistent(client: Client) -> None:
    report = await client.frontier.check_consistency()
    assert report.findings == []


async def listed(client: Client, state: HostFilter = HostFilter.ALL, limit: int = BATCH) -> dict[str, HostSeen]:
    """All hosts in a state, page by page."""
    found: dict[str, HostSeen] = {}
    after = ""
    while True:
        page = await client.frontier.hosts(state, limit, after)
        found |= {host.key: host for host in page.hosts}
        after = page.after
        if not after:
            return found


async def buried(client: Client) -> None:
    """Lease until nothing of the host is queued."""
    for _ in range(MANY // BATCH + 1):
        await client.frontier.reap()
        await client.check()


class PausedHosts:
    """Nothing of a paused host is leased; nothing of it is lost."""

    async def test_nothing_of_it_is_leased_until_it_is_resumed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 3), *names("b", 2))
        assert await pause(client) is Halt.NONE
        leases = await client.lease()
        assert sorted(names_of(leases)) == ["b/0", "b/1"]
        await client.end_all(leases)
        assert await client.names() == []
        assert await client.state() is State.RUNNING
        assert (await client.frontier.report()).paused_hosts == 1
        assert await resume(client) is Halt.PAUSED
        assert (await client.frontier.report()).paused_hosts == 0
        leases = await client.lease()
        assert names_of(leases) == names("a", 3)
        await client.end_all(leases)
        assert await client.state() is State.FINISHED

    async def test_what_is_in_flight_ends_and_its_links_wait(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "a/1", per_host=1)
        lease = await client.one()
        await pause(client)
        committed = await client.commit(await client.outcome(lease, links=["a/2", "b/0"]), want=10)
        assert committed.accepted == [True]
        assert committed.grant is not None
        assert names_of(committed.grant.leases) == ["b/0"]
        await resume(client)
        assert len(await client.lease()) == 1
        assert (await client.counts()).queued == 1

    async def test_what_comes_back_waits(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 4), per_host=4)
        released, retried, lost, unreachable = [await client.one(worker) for worker in ("w", "w", "dies", "w")]
        await pause(client)
        await client.release(released)
        await client.retry(retried)
        await client.lose("dies")
        await client.unreachable(unreachable)
        assert await client.names() == []
        assert name_of(lost) == "a/2"
        await is_consistent(client)
        assert (await client.counts()).unfinished == 4

    async def test_a_suspect_of_it_waits_and_others_go_on(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "b/0")
        for _ in range(LOSSES_BEFORE_ALONE):
            assert len(await client.lease("dies")) == 2
            await client.lose("dies")
        await pause(client)
        assert await client.names() == ["b/0"], "alone"
        await client.lose("w")
        await resume(client)
        assert await client.names() == ["a/0"]

    async def test_its_robots_txt_is_not_read(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "b/0", obey_robots=True)
        await pause(client)
        assert [(lease.work, lease.host_key) for lease in await client.lease()] == [(Work.ROBOTS, B)]
        await resume(client)
        (gate,) = await client.lease()
        await pause(client)
        await client.open_gate(gate)
        assert await client.names() == []
        await resume(client)
        assert await client.names() == ["a/0"]

    async def test_requests_with_needs_wait_too(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("b/0")
        await client.add("a/0", need="browser")
        client.serves("w", "browser")
        await pause(client)
        assert await client.names() == ["b/0"]
        await resume(client)
        assert await client.names() == ["a/0"]

    async def test_a_job_that_has_nothing_else_left_says_so(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "b/0")
        await pause(client)
        (lease,) = await client.lease()
        assert (await client.grant()).blocked_by == "", "something is in flight"
        await client.end(lease)
        grant = await client.grant()
        assert (grant.state, grant.blocked_by) == (State.RUNNING, PAUSED_HOSTS)
        assert grant.ask_again_seconds == POLL_SECONDS, "nothing is due before"
        await resume(client)
        grant = await client.grant()
        assert (names_of(grant.leases), grant.blocked_by) == (["a/0"], "")

    async def test_it_does_not_say_so_while_a_robots_txt_is_read(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "b/0", obey_robots=True)
        await pause(client)
        (gate,) = await client.lease("w1")
        assert (gate.work, gate.host_key) == (Work.ROBOTS, B)
        assert (await client.grant("w2")).blocked_by == ""

    async def test_it_does_not_say_so_while_a_suspect_waits_for_its_host(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "b/0", "b/1", per_host=2)
        await pause(client)
        assert names_of(await client.lease("dies", 1)) == ["b/0"]
        other = await client.one()
        await client.lose("dies")
        for _ in range(LOSSES_BEFORE_ALONE - 1):
            assert names_of(await client.lease("dies", 1)) == ["b/0"]
            await client.lose("dies")
        news = HostNews(blocked=True, retry_after_seconds=600.0)
        await client.end(other, Ending.FAILED, status=429, error_class="http_4xx", error="HTTP 429", news=news)
        assert (await client.counts()).queued == 2
        assert (await client.grant()).blocked_by == ""

    async def test_it_does_not_say_so_while_an_intake_is_open(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0")
        await pause(client)
        assert await client.frontier.open_intake("file:urls.txt", "me") is not None
        assert (await client.grant()).blocked_by == ""
        assert await client.frontier.close_intake("file:urls.txt", "me")
        assert (await client.grant()).blocked_by == PAUSED_HOSTS

    async def test_it_does_not_say_so_while_the_job_is_seeded(self, store: ContractStore) -> None:
        client = store.client()
        await client.begin()
        seeding = await client.one("seeder")
        await client.end(seeding, links=["a/0"], more=True)
        await pause(client)
        assert (await client.grant("w")).blocked_by == ""

    async def test_others_that_wait_are_told_with_their_time(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "b/0", "b/1", delay_seconds=0.4)
        await pause(client)
        await client.one()
        grant = await client.grant("other")
        assert grant.blocked_by == ""
        assert 0 < grant.ask_again_seconds < POLL_SECONDS
        await store.elapse(1.0)
        (lease,) = await client.lease("other")
        assert lease.host_key == B

    async def test_it_holds_for_every_client_and_after_a_restart(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "b/0")
        await pause(client)
        other = store.client()
        assert await other.begin() is Begun.RESUMED
        assert await other.names() == ["b/0"]
        assert (await other.frontier.report()).paused_hosts == 1

    async def test_a_new_run_begins_without(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "b/0")
        await pause(client)
        await give_up(client, B)
        await client.begin(fresh=True)
        assert (await client.frontier.report()).paused_hosts == 0
        assert await listed(client, HostFilter.PAUSED) == await listed(client, HostFilter.GIVEN_UP) == {}
        (seeding,) = await client.lease()
        await client.end(seeding, links=["a/0", "b/0"])
        assert sorted(await client.names()) == ["a/0", "b/0"]
        await is_consistent(client)

    async def test_a_back_off_that_ran_before_still_holds(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "a/1", per_host=1)
        await client.blocked(await client.one(), retry_after_seconds=600.0)
        await pause(client)
        await resume(client)
        assert await client.names() == []
        assert set(await listed(client, HostFilter.BLOCKED)) == {A}

    async def test_its_queue_is_kept_when_a_request_in_flight_finds_it_down(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 4), per_host=1, max_attempts=1)
        in_flight = await client.one()
        await pause(client)
        await client.unreachable(in_flight)
        await buried(client)
        counts = await client.counts()
        assert (counts.failed, counts.queued) == (1, 3), "the request itself has no attempt left"
        assert await client.state() is State.RUNNING
        assert (await listed(client))[A].given_up is False
        await resume(client)
        store.advance(3600.0)
        await client.answered(await client.one())
        assert len(await client.lease()) == 1
        await is_consistent(client)

    async def test_it_keeps_what_is_left_of_a_queue_that_is_buried_because_the_host_is_down(
        self, store: ContractStore
    ) -> None:
        client = store.client()
        await client.seeded(*names("a", MANY), per_host=1, max_attempts=1)
        await client.unreachable(await client.one())
        failed = (await client.counts()).failed
        await pause(client)
        await buried(client)
        counts = await client.counts()
        assert (counts.failed, counts.queued) == (failed, MANY - failed)

    async def test_its_queue_is_kept_when_its_robots_txt_loses_the_last_worker(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "a/1", obey_robots=True)
        for number in range(LOSSES_IN_ALL):
            (gate,) = await client.lease(f"w{number}")
            assert gate.work is Work.ROBOTS
            if number == LOSSES_IN_ALL - 1:
                await pause(client)
            await client.lose(f"w{number}")
        counts = await client.counts()
        assert (counts.failed, counts.queued) == (0, 2)
        await is_consistent(client)

    async def test_a_host_of_a_full_address_leaves_its_place_to_others(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 2), *names("b", 2), per_host=1, per_ip=1)
        for _ in range(2):
            await client.answered(await client.one(), address="192.0.2.1")
            for lease in await client.lease():
                await client.answered(lease, address="192.0.2.1")
        await client.add("a/8", "b/8")
        first = await client.one()
        waiting = B if first.host_key == A else A
        await pause(client, waiting)
        await client.add("c/0")
        assert await client.names() == ["c/0"]
        await client.answered(first, address="192.0.2.1")
        assert await client.names() == []
        await resume(client, waiting)
        assert len(await client.lease()) == 1

    async def test_a_trace_says_that_its_host_is_paused(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0")
        await pause(client)
        host = (await client.trace("a/0")).host
        assert host is not None
        assert (host.paused, host.given_up, host.queued) == (True, False, 1)

    async def test_telling_it_twice_changes_nothing(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "b/0")
        assert [await pause(client), await pause(client)] == [Halt.NONE, Halt.PAUSED]
        assert (await client.frontier.report()).paused_hosts == 1
        assert [await resume(client), await resume(client)] == [Halt.PAUSED, Halt.NONE]
        assert (await client.frontier.report()).paused_hosts == 0

    async def test_a_host_that_the_job_does_not_have_is_not_known(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0")
        for what in HostCommand:
            assert await client.frontier.command_host("http://never.example", what) is None
        assert (await client.frontier.report()).paused_hosts == 0


class HostsGivenUpByCommand:
    """What waits for the host fails, and what comes to it later too."""

    async def test_what_waits_fails_with_a_reason(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 3), "b/0")
        assert await give_up(client) is Halt.NONE
        counts = await client.counts()
        assert (counts.failed, counts.queued) == (3, 1)
        assert {(one.error_class, one.error) for one in await client.frontier.failures()} == {
            (GIVEN_UP_CLASS, GIVEN_UP_REASON)
        }
        leases = await client.lease()
        assert names_of(leases) == ["b/0"]
        await client.end_all(leases)
        assert await client.state() is State.FINISHED

    async def test_neither_an_answer_nor_new_links_end_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 3), "b/0", per_host=1)
        of_a, of_b = sorted(await client.lease(), key=name_of)
        await give_up(client)
        await client.answered(of_a)
        await client.end(of_b, links=["a/8"])
        await buried(client)
        assert (await client.counts()).failed == 3
        assert (await client.trace("a/8")).error == GIVEN_UP_REASON
        assert await client.state() is State.FINISHED
        await client.add("a/9")
        assert await client.names() == []
        await buried(client)
        assert (await client.trace("a/9")).state == "failed"
        await is_consistent(client)

    async def test_what_is_lost_or_delayed_fails_too(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 2), per_host=2)
        lost, retried = await client.one("dies"), await client.one()
        await give_up(client)
        await client.lose("dies")
        assert name_of(lost) == "a/0"
        await client.retry(retried)
        await buried(client)
        assert (await client.counts()).failed == 2

    async def test_a_suspect_fails_though_nobody_serves_its_need(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded()
        await client.add("a/0", need="browser")
        client.serves("dies", "browser")
        for _ in range(LOSSES_BEFORE_ALONE - 1):
            assert len(await client.lease("dies")) == 1
            await client.lose("dies")
        assert len(await client.lease("dies")) == 1
        await give_up(client)
        await client.lose("dies")
        await client.frontier.reap()
        await client.check()
        counts = await client.counts()
        assert (counts.failed, counts.queued) == (1, 0)
        assert await client.state() is State.FINISHED

    async def test_a_long_queue_is_buried_in_pieces(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", MANY))
        await give_up(client)
        assert (await client.counts()).failed <= BATCH
        assert (await client.grant()).ask_again_seconds == 0.0
        await buried(client)
        assert (await client.counts()).failed == MANY
        assert await client.state() is State.FINISHED

    async def test_resume_leaves_what_is_not_buried_yet_in_the_queue(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", MANY))
        await give_up(client)
        failed = (await client.counts()).failed
        assert await resume(client) is Halt.GIVEN_UP
        await buried(client)
        counts = await client.counts()
        assert (counts.failed, counts.queued) == (failed, MANY - failed)
        assert len(await client.lease(limit=2)) == 2

    async def test_pause_instead_keeps_the_rest_waiting(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", MANY))
        await give_up(client)
        assert await pause(client) is Halt.GIVEN_UP
        await buried(client)
        assert await client.names() == []
        assert (await client.counts()).queued > 0

    async def test_a_revived_request_ends_it(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 3))
        await give_up(client)
        assert await client.frontier.revive(GIVEN_UP_CLASS) == 3
        assert names_of(await client.lease()) == names("a", 3)
        assert await listed(client, HostFilter.GIVEN_UP) == {}
        await is_consistent(client)

    async def test_a_revived_request_does_not_end_a_pause(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*names("a", 2))
        await give_up(client)
        await pause(client)
        assert await client.frontier.revive() == 2
        assert await client.names() == []
        assert (await client.frontier.report()).paused_hosts == 1


class HostLists:
    """Every host of a job is listed, in pieces of bounded work."""

    async def test_all_hosts_are_listed_page_by_page(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded(*(f"{number:04}/0" for number in range(1200)), "a/0", "a/1")
        every = {f"http://{number:04}.example" for number in range(1200)} | {A}
        hosts = await listed(client, limit=100)
        assert set(hosts) == every
        assert (hosts[A].queued, hosts[A].in_flight, hosts[A].paused, hosts[A].given_up) == (2, 0, False, False)
        first = await client.frontier.hosts(HostFilter.PAUSED, BATCH)
        assert first.hosts == []
        assert first.after, "others follow: a call looks at a batch"

    async def test_a_cursor_that_nobody_gave_is_no_error(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0")
        for after in ("zzz", "²", "9" * 30, "1:²", "7:0", ":", "http://a.example"):
            assert len((await client.frontier.hosts(HostFilter.ALL, 10, after)).hosts) <= 1

    async def test_hosts_in_a_state_are_listed(self, store: ContractStore) -> None:
        client = store.client()
        await client.seeded("a/0", "b/0", "c/0", "d/0", "d/1", per_host=1, max_attempts=1)
        leases = {lease.host_key: lease for lease in await client.lease()}
        await client.blocked(leases["http://c.example"], retry_after_seconds=600.0)
        await client.unreachable(leases["http://d.example"])
        await pause(client)
        await give_up(client, B)
        assert set(await listed(client, HostFilter.PAUSED)) == {A}
        assert set(await listed(client, HostFilter.GIVEN_UP)) == {B, "http://d.example"}
        assert (
            {"http://c.example"}
            <= set(await listed(client, HostFilter.BLOCKED))
            <= {
                "http://c.example",
                "http://d.example",
            }
        )
        assert set(await listed(client)) == {A, B, "http://c.example", "http://d.example"}
