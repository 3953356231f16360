"""Redis keys keep the contract of intakes, and what scrapy-redis writes is read as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest
import redis

from rig.servers.redis import OwnRedis
from skitter.errors import IntakeError, IntakeUnavailableError, UsageError
from skitter.intakes.contract import Intake
from skitter.intakes.messages import to_request
from skitter.intakes.redis.intake import RedisIntake
from skitter.intakes.redis.queue import has_hash_tag
from skitter.intakes.sources import intake_of, parse_source
from skitter.testing import IntakeContract, IntakePlace


class RedisPlace(IntakePlace):
    """A key of its own on a server that all tests share."""

    ids_are_stable = False
    kind = ""

    def __init__(self, url: str, client: Any) -> None:
        self.url = url
        self.key = f"urls-{uuid4().hex[:12]}"
        self.client = client

    def intake(self) -> Intake:
        return intake_of(parse_source(f"{self.url}?type={self.kind}#{self.key}", job="job"))

    def dead_letters(self) -> Sequence[tuple[bytes, str]]:
        letters = map(json.loads, self.client.lrange(f"{self.key}:dead-letters", 0, -1))
        return [(letter["body"].encode(), letter["reason"]) for letter in letters]

    def kill(self, intake: Intake) -> None:
        assert isinstance(intake, RedisIntake)
        self.expire(intake._consumer)
        if intake._client is not None:
            intake._client.close()

    def expire(self, consumer: str) -> None:
        readers = f"{{{self.key}}}:skitter:readers"
        for member in self.client.zrange(readers, 0, -1):
            if member.decode().endswith(consumer):
                self.client.zadd(readers, {member: 0})


class ListPlace(RedisPlace):
    kind = "list"

    def put(self, *bodies: bytes) -> None:
        self.client.rpush(self.key, *bodies)


class SetPlace(RedisPlace):
    kind = "set"

    def put(self, *bodies: bytes) -> None:
        self.client.sadd(self.key, *bodies)


class SortedSetPlace(RedisPlace):
    kind = "zset"

    def put(self, *bodies: bytes) -> None:
        self.client.zadd(self.key, {body: number for number, body in enumerate(bodies)})


class StreamPlace(RedisPlace):
    kind = "stream"
    ids_are_stable = True

    def put(self, *bodies: bytes) -> None:
        for body in bodies:
            self.client.xadd(self.key, {"message": body})

    def expire(self, consumer: str) -> None:
        held = self.client.xpending_range(self.key, "skitter-job", "-", "+", 100, consumer)
        if ids := [entry["message_id"] for entry in held]:
            self.client.xclaim(self.key, "skitter-job", consumer, 0, ids, idle=3_600_000, justid=True)


SERVERS = ["redis", "redis-6.2"]


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest, services: Any) -> Iterator[RedisPlace]:
    url = services.need(request.param)["url"]
    client = redis.Redis.from_url(url)
    yield request.cls.place(url, client)
    client.close()


@pytest.fixture
def server(services: Any) -> Iterator[tuple[str, Any]]:
    url = services.need("redis")["url"]
    client = redis.Redis.from_url(url)
    yield url, client
    client.close()


class TestList(IntakeContract):
    place = ListPlace


class TestSet(IntakeContract):
    place = SetPlace


class TestSortedSet(IntakeContract):
    place = SortedSetPlace


class TestStream(IntakeContract):
    place = StreamPlace


class ClusterListPlace(ListPlace):
    def intake(self) -> Intake:
        return intake_of(parse_source(f"{self.url}#{self.key}", job="job"))


@pytest.fixture
def cluster_place(services: Any) -> Iterator[ClusterListPlace]:
    told = services.need("redis-cluster")
    client = redis.RedisCluster.from_url(told["url"].replace("redis+cluster://", "redis://").partition(",")[0])
    yield ClusterListPlace(told["url"], client)
    client.close()


def test_a_list_in_a_redis_cluster_has_all_its_keys_in_one_slot(cluster_place: ClusterListPlace) -> None:
    suite = IntakeContract()
    suite.test_every_message_is_read_once(cluster_place)
    suite.test_what_was_read_and_not_acknowledged_comes_again_after_a_crash(cluster_place)


def opened(url: str, key: str, query: str = "") -> Intake:
    intake = intake_of(parse_source(f"{url}{query}#{key}", job="job"))
    intake.open(b"")
    return intake


def test_a_key_that_does_not_exist_yet_is_waited_for(server: tuple[str, Any]) -> None:
    url, client = server
    for put in (
        lambda key: client.lpush(key, b"https://example.com/"),
        lambda key: client.zadd(key, {b"https://example.com/": 5}),
        lambda key: client.xadd(key, {"url": b"https://example.com/"}),
    ):
        key = f"later-{uuid4().hex}"
        intake = opened(url, key)
        assert intake.read(10, 0.1) == []
        put(key)
        (message,) = intake.read(10, 2.0)
        assert to_request(message).url == "https://example.com/"
        intake.ack([message])
        intake.close()


def test_what_scrapy_redis_writes_is_read(server: tuple[str, Any]) -> None:
    url, client = server
    key = f"{uuid4().hex}:start_urls"
    client.lpush(
        key,
        "https://a.example/",
        json.dumps({"url": "https://b.example/find", "meta": {"job": 7}, "q": "books"}),
        json.dumps({"url": "https://c.example/form", "method": "post", "name": "me", "n": 2}),
    )
    intake = opened(url, key)
    form, found, plain = map(to_request, intake.read(10, 1.0))
    assert plain.url == "https://a.example/"
    assert (found.url, found.meta) == ("https://b.example/find?q=books", {"job": 7})
    assert (form.method, form.body) == ("POST", b"name=me&n=2")
    assert form.headers["Content-Type"] == "application/x-www-form-urlencoded"
    intake.close()


def test_the_highest_score_is_read_first_and_is_the_priority(server: tuple[str, Any]) -> None:
    url, client = server
    key = f"scores-{uuid4().hex}"
    client.zadd(key, {"https://low.example/": -3, "https://high.example/": 7.9, "https://top.example/": float("inf")})
    intake = opened(url, key)
    requests = [to_request(message) for message in intake.read(10, 1.0)]
    assert [(request.url, request.priority) for request in requests] == [
        ("https://top.example/", 2**62),
        ("https://high.example/", 7),
        ("https://low.example/", -3),
    ]
    intake.close()


def test_an_entry_of_a_stream_has_the_fields_of_a_request(server: tuple[str, Any]) -> None:
    url, client = server
    key = f"stream-{uuid4().hex}"
    fields = {"url": "https://a.example/", "priority": "5", "meta": '{"n": [1]}', "callback": "parse_item"}
    client.xadd(key, fields)
    client.xadd(key, {"url": "https://b.example/", "priority": "high"})
    intake = opened(url, key)
    good, bad = intake.read(10, 1.0)
    request = to_request(good)
    assert (request.url, request.priority, request.meta) == ("https://a.example/", 5, {"n": [1]})
    assert request.callback == "parse_item"
    with pytest.raises(Exception, match="priority"):
        to_request(bad)
    backlog = intake.backlog()
    assert (backlog.messages, backlog.lag_seconds is not None) == (2, True)
    intake.close()


def test_two_jobs_read_all_of_a_stream_each(server: tuple[str, Any]) -> None:
    url, client = server
    key = f"stream-{uuid4().hex}"
    client.xadd(key, {"url": "https://a.example/"})
    for job in ("one", "two"):
        intake = intake_of(parse_source(f"{url}#{key}", job=job))
        intake.open(b"")
        found = intake.read(10, 1.0)
        assert len(found) == 1
        intake.ack(found)
        intake.close()


def test_another_type_of_key_is_refused(server: tuple[str, Any]) -> None:
    url, client = server
    key = f"string-{uuid4().hex}"
    client.set(key, "x")
    with pytest.raises(IntakeError, match="but a string"):
        opened(url, key)
    client.delete(key)
    client.lpush(key, "x")
    with pytest.raises(IntakeError, match="not a set, but a list"):
        opened(url, key, "?type=set")
    for wrong in (url, f"{url}?type=heap#k", f"{url}?fallow=1#k"):
        with pytest.raises(UsageError):
            intake_of(parse_source(wrong))


def test_a_server_that_is_away_is_told_and_can_be_opened_again(own_redis: Any) -> None:
    own: OwnRedis = own_redis("--appendonly", "yes", "--appendfsync", "always")
    client = redis.Redis.from_url(own.url)
    client.rpush("urls", "https://a.example/", "https://b.example/")
    intake = opened(own.url, "urls")
    read = intake.read(1, 1.0)
    own.kill()
    with pytest.raises(IntakeUnavailableError, match="cannot be reached"):
        intake.ack(read)
    with pytest.raises(IntakeUnavailableError):
        intake.open(b"")
    own.start()
    intake.open(b"")
    assert [message.body for message in intake.read(10, 1.0)] == [b"https://a.example/", b"https://b.example/"]
    intake.close()
    assert client.llen("urls") == 2
    client.close()


def test_a_password_is_not_part_of_the_name() -> None:
    source = parse_source("redis://me:secret@localhost/2?type=list#urls")
    assert source.name == "redis://me@localhost/2#urls"
    assert "secret" not in repr(source)


@pytest.mark.parametrize(
    ("key", "has_tag"),
    [("urls", False), ("{urls}:shop", True), ("a{b}c{d}", True), ("a{}b", False), ("a{}b{c}", False), ("}x{", False)],
)
def test_the_slot_of_a_key_is_told_as_a_cluster_tells_it(key: str, has_tag: bool) -> None:
    assert has_hash_tag(key) is has_tag
    if "}" in key and not has_tag:
        with pytest.raises(UsageError, match="keys cannot be in the slot"):
            RedisIntake(parse_source(f"redis+cluster://localhost#{key}"))
