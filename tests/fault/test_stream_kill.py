"""kill -9 of the writer and of the server during a crawl: each item is in the stream once, read back from there."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pika
import pytest
import redis
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rig.killed_crawl import PER_PAGE, Crawl, Server, expected_items, under_kills

from own_redis import DURABLE, OwnRedis
from own_streams import ACCESS_KEY, SECRET_KEY, OwnKafka, OwnRabbitmq, OwnS3
from skitter.testing.web import WebSpec, served

REPORTS = Path(__file__).resolve().parents[2] / "build" / "fault-report"
Record = dict[str, Any]
Reader = Callable[[], list[tuple[str, Record]]]
"""Every message that is there: its key and its record."""


def redis_stream(own_redis: Callable[..., OwnRedis]) -> tuple[str, Server, Reader]:
    server = own_redis(*DURABLE)

    def read() -> list[tuple[str, Record]]:
        with redis.Redis(port=server.port, decode_responses=True) as client:
            return [(fields["key"], json.loads(fields["item"])) for _, fields in client.xrange("parts")]

    return f"{server.url}#parts", server, read


def bucket(server: OwnS3) -> tuple[str, Server, Reader]:
    """The messages are lines of objects, and a line has no key but page and part."""

    def read() -> list[tuple[str, Record]]:
        keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY, "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=server.endpoint, **keys)
        try:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=server.bucket)
            names = [item["Key"] for page in pages for item in page["Contents"]]
            assert len(names) > 3, "in parts"
            assert not client.list_multipart_uploads(Bucket=server.bucket).get("Uploads")
            objects = [client.get_object(Bucket=server.bucket, Key=name)["Body"].read() for name in names]
        finally:
            client.close()
        records = [json.loads(line) for data in objects for line in gzip.decompress(data).splitlines()]
        return [(f"{record['url']} {record['part']}", record) for record in records]

    return f"{server.url}/parts/?endpoint={server.endpoint}&format=jsonl.gz&part_bytes=20000", server, read


def queue(server: OwnRabbitmq) -> tuple[str, Server, Reader]:
    """At least once: a reader that drops the ids it has had sees each item once."""
    with pika.BlockingConnection(pika.URLParameters(f"{server.url}/%2F")) as connection:
        connection.channel().queue_declare("parts", durable=True)

    def read() -> list[tuple[str, Record]]:
        had: dict[str, Record] = {}
        with pika.BlockingConnection(pika.URLParameters(f"{server.url}/%2F")) as connection:
            channel = connection.channel()
            for method, properties, body in channel.consume("parts", auto_ack=True, inactivity_timeout=3):
                if method is None:
                    break
                record = had.setdefault(properties.message_id, json.loads(body))
                assert record == json.loads(body), "an id is one item's"
        return list(had.items())

    return f"{server.url}#/parts", server, read


def topic(server: OwnKafka) -> tuple[str, Server, Reader]:
    where = {"bootstrap.servers": server.url.removeprefix("kafka://"), "log_level": 0}
    admin = AdminClient(where)
    admin.create_topics([NewTopic("parts", 1, 1)])["parts"].result(30)

    def read() -> list[tuple[str, Record]]:
        how = {"group.id": "readers", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer(where | how)
        found: list[tuple[str, Record]] = []
        try:
            consumer.assign([TopicPartition("parts", 0, OFFSET_BEGINNING)])
            while (message := consumer.poll(60)) is not None and message.error() is None:
                found.append((message.key().decode(), json.loads(message.value())))
        finally:
            consumer.close()
        return found

    return f"{server.url}#parts", server, read


MADE: dict[str, tuple[Any, Callable[[Any], tuple[str, Server, Reader]]]] = {
    "s3": (OwnS3, bucket),
    "rabbitmq": (OwnRabbitmq, queue),
    "kafka": (OwnKafka, topic),
}


@pytest.fixture(params=["redis", *(pytest.param(kind, marks=pytest.mark.soak) for kind in MADE)])
def stream(request: pytest.FixtureRequest, services: Any) -> Iterator[tuple[str, Server, Reader]]:
    """A target, the server behind it, and what reads it back."""
    if request.param == "redis":
        yield redis_stream(request.getfixturevalue("own_redis"))
        return
    services.need(request.param)  # builds or installs it where it is missing
    made, begin = MADE[request.param]
    server = made()
    try:
        yield begin(server)
    finally:
        server.remove()


def crawl_under_kills(
    skitter: Any, stream: tuple[str, Server, Reader], *, pages: int, kills: int, server_kills: int, per_host: int
) -> tuple[int, int, int]:
    """Missing items, doubled ones, and how many there are."""
    target, server, read = stream
    chance = random.Random(pages)
    with served(WebSpec.plain(hosts=5, pages_per_host=pages // 5, latency_seconds=0.1)) as web:
        crawl = Crawl(skitter, web, target, per_host)
        under_kills(crawl, server, kills=kills, server_kills=server_kills, chance=chance)
        expected = expected_items(web)
    messages = read()
    assert all(record["text"] == "x" * 300 for _, record in messages)
    found = Counter((record["url"], record["part"]) for _, record in messages)
    keys = Counter(key for key, _ in messages)
    assert len(keys) == len(found), "a key is one item's"
    return sum((expected - found).values()), sum((found - expected).values()), len(messages)


@pytest.mark.timeout(900)
def test_a_stream_holds_each_item_once_whoever_is_killed(skitter, stream, request):
    # The crawl goes on while its server starts again, which takes some of them seconds.
    pages = {"rabbitmq": 1000, "kafka": 1000}.get(request.node.callspec.params["stream"], 300)
    missing, doubled, items = crawl_under_kills(skitter, stream, pages=pages, kills=3, server_kills=1, per_host=1)
    assert (missing, doubled, items) == (0, 0, pages * PER_PAGE)


@pytest.mark.soak
def test_twenty_kills_of_the_writer_and_five_of_the_server(skitter, stream, request):
    missing, doubled, items = crawl_under_kills(skitter, stream, pages=5000, kills=20, server_kills=5, per_host=2)
    kind = request.node.callspec.params["stream"]
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"stream-{kind}-soak.txt").write_text(
        f"kill -9 of the writer x20 and of the server x5, {kind}: {items} items, missing {missing}, doubled {doubled}\n"
    )
    assert (missing, doubled, items) == (0, 0, 5000 * PER_PAGE)
