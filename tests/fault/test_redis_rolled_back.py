"""A Redis that has lost its newest writes, as a replica may that is promoted: what a sink was given then.

The loss is made exactly: the server's files are copied, more happens, it is killed and started on the copy.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from own_redis import DURABLE, OwnRedis
from skitter.frontier.redis import redis_frontier
from skitter.model.job import SinkProgress
from skitter.model.lease import Lease
from skitter.sinks.files import file_sink
from skitter.testing.contract import Client
from skitter.testing.contract.client import name_of
from skitter.worker.delivery import Delivery

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


@pytest_asyncio.fixture
async def client(rewound: Rewound, tmp_path: Path) -> AsyncIterator[Client]:
    frontier = redis_frontier(rewound.server.url, "job")
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


@contextlib.asynccontextmanager
async def delivering(client: Client, target: Path) -> AsyncIterator[Delivery]:
    delivery = Delivery(client.frontier, [file_sink(str(target), overwrite=False, job="job")], "me", batch=2)
    await delivery.open()
    try:
        yield delivery
    finally:
        await delivery.close()
