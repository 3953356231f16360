"""A node as a member of its job's group: who is gone, what its workers may do, and a coordinator that forgets."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from skitter.app.node_coordinator import check_coordinator, node_membership
from skitter.errors import ClusterUnavailableError, UsageError
from skitter.node.node_membership import NodeMembership
from skitter.observe.events import Event
from skitter.settings import Run
from skitter.worker.start_permit import StartPermit

SESSION_SECONDS = 3.0


def run_of(url: str) -> Run:
    return Run(coordinator=url, coordinator_seconds=SESSION_SECONDS)


def permit_of(membership: NodeMembership) -> StartPermit:
    permit = StartPermit(membership.permit_descriptor)
    assert permit.begin()
    return permit


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  another thread does it
            await asyncio.sleep(0.02)


@pytest.fixture(params=["sqlite", "redis", "zookeeper"])
def url(request: pytest.FixtureRequest, services: Any, tmp_path: Any) -> str:
    match request.param:
        case "sqlite":
            return f"sqlite:{tmp_path / 'coordinator.db'}"
        case "redis":
            return f"{services.need('redis')['url']}?namespace={uuid.uuid4().hex}"
        case _:
            return f"{services.need('zookeeper')['url']}/{uuid.uuid4().hex}"


async def test_a_node_is_gone_when_it_has_left_and_its_workers_may_start_while_it_has_not(url: str) -> None:
    told: list[Event] = []
    async with node_membership(run_of(url), "j", told.append) as one:
        async with node_membership(run_of(url), "j", told.append) as other:
            assert one is not None
            assert other is not None
            assert permit_of(other).is_valid
            assert await one.gone({one.name, other.name}) == set()
            assert await one.gone({other.name, "nobody"}) == {"nobody"}
        async with asyncio.timeout(60):
            while not (gone := await one.gone({other.name})):
                await one.wait_for_leave(0.05)
        assert gone == {other.name}
        assert permit_of(one).is_valid
    assert told == []


async def test_who_waits_is_woken_when_a_node_leaves(url: str) -> None:
    async with node_membership(run_of(url), "j", lambda _: None) as one:
        assert one is not None
        waiting = asyncio.create_task(one.wait_for_leave(60))
        # One that comes and goes between two looks is not seen at all.
        while not waiting.done():
            async with node_membership(run_of(url), "j", lambda _: None):
                await asyncio.wait([waiting], timeout=1)
        assert waiting.result() is None


async def test_a_coordinator_that_has_lost_its_data_makes_nobody_gone(own_redis: Any) -> None:
    server = own_redis()
    async with (
        node_membership(run_of(server.url), "j", lambda _: None) as one,
        node_membership(run_of(server.url), "j", lambda _: None) as other,
    ):
        assert one is not None
        assert other is not None
        server.say("FLUSHALL")
        assert await one.gone({other.name}) == set()
        assert await one.gone({"nobody"}) == set(), "not before all who live had time to join again"

        async def is_gone() -> bool:
            assert await one.gone({other.name}) == set()
            return bool(await one.gone({"nobody"}))

        async with asyncio.timeout(60):
            while not await is_gone():
                await one.wait_for_leave(0.05)


async def test_without_its_coordinator_a_node_lets_its_workers_stop_and_others_begin_when_it_is_back(
    own_redis: Any,
) -> None:
    server = own_redis()
    told: list[Event] = []
    async with node_membership(run_of(server.url), "j", told.append) as membership:
        assert membership is not None
        permit = permit_of(membership)
        server.kill()
        await until(lambda: permit.has_ended)
        await until(lambda: [event.fields["state"] for event in told] == ["suspended", "lost"])
        server.start()
        await until(permit.begin)
        await until(lambda: told[-1].fields["state"] == "connected")
        assert told[-1].fields["coordinator"] == membership.address


@pytest.mark.parametrize("url", ["redlock://a,b,c", "http://a", "x"])
def test_what_cannot_be_a_coordinator_of_nodes_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        check_coordinator(run_of(url))


async def test_a_coordinator_that_is_away_at_the_start_is_an_error() -> None:
    with pytest.raises(ClusterUnavailableError):
        async with node_membership(run_of("redis://127.0.0.1:1"), "j", lambda _: None):
            raise AssertionError("it has joined nothing")
