"""Intakes under kill -9 of nodes and of Redis: every URL once in the results, and all poison in the dead letters.

Two nodes crawl and read the same source. A node that is killed takes its workers and its reader along, in the middle
of whatever they do; Redis, which has both the frontier and the source, is killed too (``appendfsync always``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis

from rig.gate import Gate
from rig.killed_crawl import Kill, ended, spread, under_kills
from rig.processes import HANG_SECONDS, wait_until
from rig.restarted_command import RestartedCommand
from rig.servers.redis import DURABLE, OwnRedis
from rig.soak import chance_of
from rig.web import Seen, Site, Whole
from rig.web_connection import Connection

SPIDER = """
import skitter

class Numbers(skitter.Spider):
    name = "numbers"

    def start(self):
        return []

    def parse(self, response):
        yield {"n": int(response.url.rpartition("/")[2])}
"""
POISON_EVERY = 20
SETTINGS = {
    "allow_private": "true",
    "obey_robots": "false",
    "lease_seconds": "3",
    "per_host": "64",
}
"""Besides a short queue, with which the source is read as long as the crawl lasts, also when something is killed."""


class Size(NamedTuple):
    """How many messages, and how many kills of each process."""

    messages: int
    kills: int


A_FEW, THOUSAND, TEN_THOUSAND, HUNDRED_THOUSAND = Size(60, 1), Size(1_000, 1), Size(10_000, 5), Size(100_000, 20)


class Pages(NamedTuple):
    """A site that answers every path, through a gate."""

    site: Site
    gate: Gate


@pytest.fixture
def pages(make_site: Callable[..., Site]) -> Pages:
    gate = Gate()

    def answer(seen: Seen, _: Connection) -> Whole:
        gate.arrive(seen.path)
        return 200, {"Content-Type": "text/html"}, b"<p>a page</p>"

    return Pages(make_site({"*": answer}), gate)


class Source:
    """A source with messages, some of them poison, and its dead letters."""

    def __init__(self, kind: str, server: OwnRedis, folder: Path) -> None:
        self._kind = kind
        self._client: Any = redis.Redis.from_url(f"{server.url}/1")
        self._path = folder / "urls.txt"
        is_file = kind == "file"
        self.url = f"file:{self._path}" if is_file else f"{server.url}/1?type={kind}&claim_seconds=3#urls"

    def put(self, bodies: list[str]) -> None:
        if self._kind == "file":
            self._path.write_text("".join(f"{body}\n" for body in bodies))
        elif self._kind == "list":
            self._client.rpush("urls", *bodies)
        elif self._kind == "set":
            self._client.sadd("urls", *bodies)
        elif self._kind == "zset":
            self._client.zadd("urls", {body: number % 7 for number, body in enumerate(bodies)})
        else:
            with self._client.pipeline(transaction=False) as pipe:
                for body in bodies:
                    pipe.xadd("urls", {"message": body})
                pipe.execute()

    def dead_letters(self) -> set[str]:
        if self._kind == "file":
            lines = Path(f"{self._path}.dead-letters.jsonl").read_bytes().splitlines()
        else:
            lines = self._client.lrange("urls:dead-letters", 0, -1)
        return {json.loads(line)["body"] for line in lines if line}

    def close(self) -> None:
        self._client.close()


def suffer(kind: str, size: Size, skitter: Any, server: OwnRedis, pages: Pages) -> None:
    chance = chance_of(size.kills)
    skitter.write("page_numbers.py", SPIDER)
    source = Source(kind, server, skitter.folder)
    urls = [pages.site.url(f"/{number}") for number in range(size.messages)]
    poison = [f"poison {number}" for number in range(0, size.messages, POISON_EVERY)]
    messages = urls + poison
    chance.shuffle(messages)
    source.put(messages)
    job = ("--job", "numbers", "--frontier", f"{server.url}/0", "--intake", source.url, "--until-idle", 2)
    settings = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    settings += ["--set", f"max_queued={min(100, size.messages // 3)}"]
    crawl = RestartedCommand(skitter, "crawl", "page_numbers.py", *job, "-o", "out.jsonl", *settings)
    worker = RestartedCommand(skitter, "worker", *job)

    def has_joined(node: RestartedCommand) -> bool:
        """It has a worker, so that it waits for a server that is unavailable."""
        return "worker.joined" in node.life_log()

    def restart_crawl() -> None:
        crawl.kill()
        crawl.start()

    def restart_worker() -> None:
        worker.kill()
        worker.start()

    def restart_redis() -> None:
        # A node that is just being started does not wait for a server: it says that there is none.
        for node in (crawl, worker):
            wait_until(lambda node=node: has_joined(node), node.process, "a worker")
        server.kill()
        server.start()

    kills = [restart_crawl, restart_worker, restart_redis] * size.kills
    chance.shuffle(kills)
    # Over the first two thirds of the crawl: a node that is killed after the end would begin a new run.
    moments = spread(len(kills), size.messages * 2 // 3)
    with ended(crawl), ended(worker):
        under_way = [Kill(1, worker.start), *map(Kill, moments, kills)]
        under_kills(crawl, pages.gate, under_way)
        assert worker.process.wait(HANG_SECONDS) == 0, worker.log()[-3000:]
    logs = "".join(node.log()[-3000:] for node in (crawl, worker))
    found = Counter(record["n"] for record in skitter.lines("out.jsonl"))
    assert [n for n, times in found.items() if times > 1] == [], "nothing is doubled"
    assert set(range(size.messages)) - set(found) == set(), f"nothing is lost\n{logs}"
    assert source.dead_letters() == set(poison)
    (intake,) = skitter.json("status", "--job", "numbers", "--frontier", f"{server.url}/0")["intakes"]
    assert intake["closed"]
    assert intake["backlog"] in (0, None)
    source.close()


KINDS = ["list", "set", "zset", "stream", "file"]


@pytest.mark.timeout(300)
def test_messages_of_a_list_are_crawled_once_whoever_is_killed(skitter: Any, own_redis: Any, pages: Pages) -> None:
    suffer("list", A_FEW, skitter, own_redis(*DURABLE), pages)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [A_FEW, THOUSAND, TEN_THOUSAND, HUNDRED_THOUSAND], ids=lambda size: size.messages)
def test_messages_of_each_kind_of_source(kind: str, size: Size, skitter: Any, own_redis: Any, pages: Pages) -> None:
    suffer(kind, size, skitter, own_redis(*DURABLE), pages)
