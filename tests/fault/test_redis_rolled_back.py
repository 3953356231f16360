"""A Redis that has lost its newest writes, as a replica may that is promoted: what a sink was given then.

The loss is made exactly: the server's files are copied, more happens, it is killed and started on the copy.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from rig.servers.redis import DURABLE, OwnRedis
from skitter.model.job import SinkProgress
from skitter.model.lease import Lease
from skitter.testing.contract import Client
from skitter.testing.contract.client import name_of
from skitter.testing.frontiers import open_frontier
from skitter.testing.outputs import Delivery, file_sink
from skitter.testing.redis_jobs import open_spread_frontier, shard_number

PAGES = [f"a/{number}" for number in range(6)]


class Rewound:
    """A server that can be taken back to a moment."""

    def __init__(self, server: OwnRedis) -> None:
        self.server = server
        self._copy = server.folder.with_name("copy")

    def remember(self) -> None:
        shutil.copytree(self.server.folder, self._copy)

    def forget_since(self) -> None:
        self.server.kill()
        shutil.rmtree(self.server.folder)
        shutil.copytree(self._copy, self.server.folder)
        self.server.start()


@pytest.fixture
def rewound(own_redis: Callable[..., OwnRedis]) -> Rewound:
    return Rewound(own_redis(*DURABLE))


@pytest_asyncio.fixture(params=["", "?shards=3"])
async def client(rewound: Rewound, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    frontier = open_frontier(rewound.server.url + request.param, "job")
    client = Client(frontier, "job", set())
    await client.seeded(*PAGES, sinks=[str(tmp_path / "out.jsonl")], per_host=64)
    yield client
    await frontier.close()


async def show(client: Client, *leases: Lease) -> None:
    """Commit pages that have one item each: their name."""
    for lease in leases:
        assert await client.end(lease, items=[msgspec.msgpack.encode({"page": name_of(lease)})])


async def test_a_writer_that_lives_through_it_writes_everything_once(
    client: Client, rewound: Rewound, tmp_path: Path
) -> None:
    target = tmp_path / "out.jsonl"
    async with delivering(client, target) as delivery:
        leases = await client.lease()
        await show(client, leases[0])
        await delivery.step()
        rewound.remember()
        await show(client, *leases[1:4])
        await delivery.step()
        rewound.forget_since()
        # Fetched again, with others, in another order.
        assert await client.frontier.release_worker("w") == 5
        again = await client.lease("w2")
        assert len(again) == 5
        await show(client, *reversed(again))
        await delivery.finish()
    written = [json.loads(line)["page"] for line in target.read_text().splitlines()]
    assert sorted(written) == PAGES
    assert (await client.counts()).done == 6


async def test_progress_in_another_life_hides_no_item(client: Client, rewound: Rewound, tmp_path: Path) -> None:
    """The positions that were given then belong to other items now."""
    target = str(tmp_path / "out.jsonl")
    assert await client.frontier.open_sink(target, "me")
    leases = await client.lease()
    rewound.remember()
    await show(client, *leases[:3])
    given = await client.items(target, "me")
    rewound.forget_since()
    await show(client, *leases[3:])
    assert await client.frontier.items_done(target, "me", SinkProgress(given[-1].position, b"mark"))
    await show(client, *leases[:3])
    assert len(await client.items(target, "me")) == 6


async def test_progress_that_is_recorded_late_hides_no_item(client: Client, rewound: Rewound, tmp_path: Path) -> None:
    """A writer that takes long says from time to time that it is still there. Nothing is given to it by that."""
    target = str(tmp_path / "out.jsonl")
    assert await client.frontier.open_sink(target, "me")
    leases = await client.lease()
    rewound.remember()
    await show(client, *leases[:3])
    given = await client.items(target, "me")
    rewound.forget_since()
    await show(client, *leases[3:])
    assert await client.items(target, "me", 0) == []
    assert await client.frontier.items_done(target, "me", SinkProgress(given[-1].position, b"mark"))
    assert len(await client.items(target, "me")) == 3


class Spread:
    """A job in shards, each on a server of its own that can be taken back."""

    def __init__(self, servers: Sequence[OwnRedis]) -> None:
        self.rewound = [Rewound(server) for server in servers]
        self.frontier = open_spread_frontier([server.url for server in servers], "job")
        self.hosts = [
            next(f"h{name}" for name in range(100) if shard_number(f"http://h{name}.example", len(servers)) == number)
            for number in range(len(servers))
        ]


@pytest_asyncio.fixture
async def spread(own_redis: Callable[..., OwnRedis]) -> AsyncIterator[Spread]:
    spread = Spread([own_redis(*DURABLE) for _ in range(3)])
    yield spread
    await spread.frontier.close()


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_one_shard_of_several_loses_its_newest_items_and_all_are_written_once(
    spread: Spread, number: int, tmp_path: Path
) -> None:
    target, pages = tmp_path / "out.jsonl", [f"{host}/{page}" for host in spread.hosts for page in range(6)]
    client = Client(spread.frontier, "job", set())
    await client.seeded(*pages, sinks=[str(target)], per_host=64)
    by_name = {name_of(lease): lease for lease in await client.lease()}
    assert len(by_name) == len(pages)

    def some(*numbers: int) -> list[Lease]:
        return [by_name[f"{host}/{page}"] for host in spread.hosts for page in numbers]

    async with delivering(client, target) as delivery:
        await show(client, *some(0))
        await delivery.drain()
        spread.rewound[number].remember()
        await show(client, *some(1, 2))
        await delivery.drain()
        await show(client, *some(3))
        # Given to the writer and not written when the server is lost.
        assert await spread.frontier.items(str(target), "me", 2)
        spread.rewound[number].forget_since()
        # Fetched again, with others, in another order.
        assert await spread.frontier.release_worker("w") == 3 * 2 + 3
        again = await client.lease("w2")
        assert len(again) == 3 * 2 + 3
        await show(client, *reversed(again))
        await delivery.finish()
    written = [json.loads(line)["page"] for line in target.read_text().splitlines()]
    assert sorted(written) == sorted(pages)
    assert (await client.counts()).done == len(pages)
    assert (await spread.frontier.report()).undelivered == 0


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_progress_that_one_shard_has_lost_hides_no_item(spread: Spread, number: int, tmp_path: Path) -> None:
    """It dies between giving items and hearing that they were written, and other items take their places."""
    target = str(tmp_path / "out.jsonl")
    client = Client(spread.frontier, "job", set())
    host = spread.hosts[number]
    await client.seeded(*(f"{host}/{page}" for page in range(6)), sinks=[target], per_host=64)
    assert await spread.frontier.open_sink(target, "me")
    leases = await client.lease()
    spread.rewound[number].remember()
    await show(client, *leases[:3])
    given = await client.items(target, "me")
    assert len(given) == 3
    spread.rewound[number].forget_since()
    await show(client, *leases[3:])
    assert await spread.frontier.items_done(target, "me", SinkProgress(given[-1].position, b"mark"))
    await show(client, *leases[:3])
    assert len(await client.items(target, "me")) == 6


async def test_a_lead_that_has_lost_what_it_gave_records_nothing_of_it(spread: Spread, tmp_path: Path) -> None:
    """Which items those were, of which shards, it does not know any more."""
    target, (_, some, other) = str(tmp_path / "out.jsonl"), spread.hosts
    client = Client(spread.frontier, "job", set())
    await client.seeded(*(f"{some}/{page}" for page in range(3)), f"{other}/0", sinks=[target], per_host=64)
    assert await spread.frontier.open_sink(target, "me")
    by_name = {name_of(lease): lease for lease in await client.lease()}
    spread.rewound[0].remember()
    await show(client, by_name[f"{some}/0"], by_name[f"{some}/1"], by_name[f"{other}/0"])
    given = await client.items(target, "me")
    assert len(given) == 3
    spread.rewound[0].forget_since()
    await show(client, by_name[f"{some}/2"])
    assert await spread.frontier.items_done(target, "me", SinkProgress(given[-1].position, b"mark"))
    records = {msgspec.msgpack.decode(item.record)["page"] for item in await client.items(target, "me")}
    assert records == by_name.keys()


@contextlib.asynccontextmanager
async def delivering(client: Client, target: Path) -> AsyncIterator[Delivery]:
    delivery = Delivery(client.frontier, [file_sink(str(target), overwrite=False, job="job")], "me", batch=2)
    await delivery.open()
    try:
        yield delivery
    finally:
        await delivery.close()
