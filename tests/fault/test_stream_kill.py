"""kill -9 of the writer and of the server during a crawl: each item is in the stream once, read back from there."""

from __future__ import annotations

import gzip
import json
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pika
import pytest
import redis
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rig.killed_crawl import PER_PAGE, Server, expected_items, is_delivered, kills_of, parts_crawl, under_kills
from rig.servers.redis import DURABLE, OwnRedis
from rig.servers.streams import ACCESS_KEY, SECRET_KEY, OwnKafka, OwnRabbitmq, OwnS3
from rig.services import OwnServers
from rig.soak import chance_of
from rig.watched_web import watched
from skitter.testing.web import WebSpec

REPORTS = Path(__file__).resolve().parents[2] / "build" / "fault-report"
Record = dict[str, Any]
Reader = Callable[[], list[tuple[str, Record]]]
"""Every message that is there: its key and its record."""


class Stream(NamedTuple):
    """A target, what reads it back, and the server behind it; None: others use the server too."""

    target: str
    read: Reader
    server: Server | None = None


def redis_stream(server: OwnRedis) -> Stream:
    def read() -> list[tuple[str, Record]]:
        with redis.Redis(port=server.port, decode_responses=True) as client:
            return [(fields["key"], json.loads(fields["item"])) for _, fields in client.xrange("parts")]

    return Stream(f"{server.url}#parts", read, server)


def bucket(server: OwnS3) -> Stream:
    """The messages are lines of objects, and a line has no key but page and part."""

    def read() -> list[tuple[str, Record]]:
        keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY, "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=server.endpoint, **keys)
        try:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=server.bucket)
            names = [item["Key"] for page in pages for item in page["Contents"]]
            assert len(names) > 1, "in parts"
            assert not client.list_multipart_uploads(Bucket=server.bucket).get("Uploads")
            objects = [client.get_object(Bucket=server.bucket, Key=name)["Body"].read() for name in names]
        finally:
            client.close()
        records = [json.loads(line) for data in objects for line in gzip.decompress(data).splitlines()]
        return [(f"{record['url']} {record['part']}", record) for record in records]

    target = f"{server.url}/parts/?endpoint={server.endpoint}&format=jsonl.gz&part_bytes=1500"
    return Stream(target, read, server)


def queue(url: str, name: str) -> Stream:
    """At least once: a reader that drops the ids it has had sees each item once."""
    with pika.BlockingConnection(pika.URLParameters(f"{url}/%2F")) as connection:
        connection.channel().queue_declare(name, durable=True)

    def read() -> list[tuple[str, Record]]:
        had: dict[str, Record] = {}
        with pika.BlockingConnection(pika.URLParameters(f"{url}/%2F")) as connection:
            channel = connection.channel()
            # What was sent is there, and nothing else is: the crawl is over.
            while (message := channel.basic_get(name, auto_ack=True))[0] is not None:
                _, properties, body = message
                record = had.setdefault(properties.message_id, json.loads(body))
                assert record == json.loads(body), "an id is one item's"
            channel.queue_delete(name)
        return list(had.items())

    return Stream(f"{url}#/{name}", read)


def topic(url: str, name: str) -> Stream:
    where = {"bootstrap.servers": url.removeprefix("kafka://"), "log_level": 0}
    admin = AdminClient(where)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)

    def read() -> list[tuple[str, Record]]:
        how = {"group.id": name, "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer(where | how)
        found: list[tuple[str, Record]] = []
        try:
            consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
            while (message := consumer.poll(60)) is not None and message.error() is None:
                found.append((message.key().decode(), json.loads(message.value())))
        finally:
            consumer.close()
        return found

    return Stream(f"{url}#{name}", read)


def own_stream(kind: str, own_server: OwnServers, own_redis: Callable[..., OwnRedis]) -> Stream:
    """A stream on a server that is killed."""
    if kind == "redis":
        return redis_stream(own_redis(*DURABLE))
    server: Any = own_server({"s3": OwnS3, "rabbitmq": OwnRabbitmq, "kafka": OwnKafka}[kind])
    if kind == "s3":
        return bucket(server)
    return {"rabbitmq": queue, "kafka": topic}[kind](server.url, "parts")._replace(server=server)


def crawl_under_kills(
    skitter: Any, stream: Stream, *, pages: int, kills: int, server_kills: int = 0
) -> tuple[int, int, int]:
    """Missing items, doubled ones, and how many there are."""
    with watched(WebSpec.plain(hosts=5, pages_per_host=pages // 5, latency_seconds=0.01)) as web:
        crawl = parts_crawl(skitter, web, stream.target)
        chance = chance_of(pages)
        under_kills(crawl, web.gate, kills_of(crawl, stream.server, chance, pages, kills, server_kills))
        expected = expected_items(web)
    assert is_delivered(skitter)
    messages = stream.read()
    assert all(record["text"] == "x" * 300 for _, record in messages)
    found = Counter((record["url"], record["part"]) for _, record in messages)
    keys = Counter(key for key, _ in messages)
    assert len(keys) == len(found), "a key is one item's"
    return sum((expected - found).values()), sum((found - expected).values()), len(messages)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kind", ["redis", "s3", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("rabbitmq", "kafka"))]
)
def test_a_stream_holds_each_item_once_whoever_is_killed(skitter, own_server, own_redis, kind):
    stream = own_stream(kind, own_server, own_redis)
    missing, doubled, items = crawl_under_kills(skitter, stream, pages=40, kills=2, server_kills=1)
    assert (missing, doubled, items) == (0, 0, 40 * PER_PAGE)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "begin"), [("rabbitmq", queue), ("kafka", topic)])
def test_a_broker_has_each_item_once_whose_writer_is_killed(skitter, services, kind, begin):
    stream = begin(services.need(kind)["url"], f"parts-{uuid.uuid4().hex}")
    assert crawl_under_kills(skitter, stream, pages=40, kills=2) == (0, 0, 40 * PER_PAGE)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["redis", "s3", "rabbitmq", "kafka"])
def test_twenty_kills_of_the_writer_and_five_of_the_server(skitter, own_server, own_redis, kind):
    stream = own_stream(kind, own_server, own_redis)
    missing, doubled, items = crawl_under_kills(skitter, stream, pages=5000, kills=20, server_kills=5)
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"stream-{kind}-soak.txt").write_text(
        f"kill -9 of the writer x20 and of the server x5, {kind}: {items} items, missing {missing}, doubled {doubled}\n"
    )
    assert (missing, doubled, items) == (0, 0, 5000 * PER_PAGE)
