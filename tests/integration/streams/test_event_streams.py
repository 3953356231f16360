"""Published events: every subscriber reads them in order, as JSON, from a real server."""

from __future__ import annotations

import json
import time
from uuid import uuid4

import pika
import pytest
import redis
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from skitter.errors import EventStreamError, EventStreamUnavailableError
from skitter.event_streams.contract import EventMessage
from skitter.event_streams.publisher import EventPublisher
from skitter.event_streams.stream_urls import event_stream_of
from skitter.observe import events

# The first test may have to install the server.
pytestmark = pytest.mark.timeout(900)

COUNT = 600


def published(url, job="shop.example"):
    """Publish numbered events and one warning."""
    with EventPublisher(event_stream_of(url), job) as publisher:
        for number in range(COUNT):
            publisher.publish(events.JOB_BEGUN(begun="new", run=number))
        publisher.publish(events.FRONTIER_AWAY(store="redis://db", reason="gone"))


def runs(bodies):
    return [record["run"] for record in map(json.loads, bodies) if record["event"] == "job.begun"]


class Subscriber:
    """A queue of its own."""

    def __init__(self, channel, exchange, key="", arguments=None):
        self._channel = channel
        self.queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(self.queue, exchange, key, arguments)

    def messages(self):
        found = []
        while True:
            method, properties, body = self._channel.basic_get(self.queue, auto_ack=True)
            if method is None:
                return found
            found.append((method.routing_key, properties, body))


@pytest.fixture
def broker(services):
    url = services.need("rabbitmq")["url"]
    with pika.BlockingConnection(pika.URLParameters(f"{url}/%2F")) as connection:
        yield url, connection.channel()


@pytest.mark.parametrize(
    ("kind", "key", "arguments", "kinds"),
    [
        ("topic", "#.job.begun", None, {"job.begun"}),
        ("topic", "shop.example.#", None, {"job.begun", "frontier.unavailable"}),
        ("direct", "shop.example.frontier.unavailable", None, {"frontier.unavailable"}),
        ("fanout", "", None, {"job.begun", "frontier.unavailable"}),
        ("headers", "", {"x-match": "all", "level": "warning"}, {"frontier.unavailable"}),
    ],
)
def test_each_kind_of_exchange_routes_events(broker, kind, key, arguments, kinds):
    url, channel = broker
    exchange = f"events-{uuid4().hex[:8]}"
    channel.exchange_declare(exchange, kind, durable=True)
    one, other = (Subscriber(channel, exchange, key, arguments) for _ in range(2))
    published(f"{url}#{exchange}")
    for subscriber in (one, other):
        found = subscriber.messages()
        assert {properties.type for _, properties, _ in found} == kinds
        assert runs(body for _, _, body in found) == (list(range(COUNT)) if "job.begun" in kinds else [])
    routing_key, properties, body = found[0]
    record = json.loads(body)
    assert routing_key == f"shop.example.{record['event']}"
    assert properties.headers == {"job": "shop.example", "event": record["event"], "level": record["level"]}
    assert properties.message_id == f"{record['publisher']}-{record['sequence']}"


def test_an_exchange_that_is_not_there_is_refused_or_declared(broker):
    url, channel = broker
    exchange = f"events-{uuid4().hex[:8]}"
    with (
        pytest.raises(EventStreamError, match="no exchange") as error,
        EventPublisher(event_stream_of(f"{url}#{exchange}"), "shop"),
    ):
        pytest.fail("it must not begin")
    assert not isinstance(error.value, EventStreamUnavailableError)
    published(f"{url}?exchange_type=topic#{exchange}")  # nobody subscribes, which is no error
    channel.exchange_declare(exchange, "topic", durable=True, passive=True)


@pytest.mark.soak
def test_a_topic_keeps_the_order_of_a_job(services):
    url, topic = services.need("kafka")["url"], f"events-{uuid4().hex[:8]}"
    published(f"{url}?partitions=3#{topic}")
    settings = {
        "bootstrap.servers": url.removeprefix("kafka://"),
        "group.id": uuid4().hex,
        "enable.partition.eof": True,
    }
    for _ in range(2):
        consumer, found, ends = Consumer(settings), [], 0
        try:
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(3)])
            while ends < 3:
                message = consumer.poll(30)
                assert message is not None, "no answer in time"
                if message.error() is not None:
                    ends += 1
                else:
                    found.append(message)
        finally:
            consumer.close()
        assert {message.partition() for message in found} == {found[0].partition()}
        assert {message.key() for message in found} == {b"shop.example"}
        assert runs(message.value() for message in found) == list(range(COUNT))


def test_a_stream_is_cut_at_its_length(services):
    server, stream = services.need("redis"), f"events-{uuid4().hex[:8]}"
    published(f"{server['url']}?maxlen=200#{stream}")
    with redis.Redis.from_url(server["url"], decode_responses=True) as client:
        entries = [fields for _, fields in client.xrange(stream)]
    assert 200 <= len(entries) < COUNT
    assert runs(fields["data"] for fields in entries) == list(range(COUNT - len(entries) + 1, COUNT))
    assert (entries[-1]["job"], entries[-1]["event"], entries[-1]["level"]) == (
        "shop.example",
        "frontier.unavailable",
        "warning",
    )
    with redis.Redis.from_url(server["url"]) as client:
        client.set(f"{stream}-text", "x")
    with pytest.raises(EventStreamError, match="not a stream"):
        event_stream_of(f"{server['url']}#{stream}-text").open()


@pytest.mark.parametrize("url", ["amqp://me:hush@127.0.0.1:1#e", "redis://me:hush@127.0.0.1:1#e"])
def test_a_server_that_is_not_there_is_away(url):
    stream = event_stream_of(url)
    with pytest.raises(EventStreamUnavailableError) as unavailable:
        stream.open()
    assert "hush" not in f"{unavailable.value}{unavailable.value.hint}"


def test_a_connection_that_was_cut_is_made_again(broker):
    url, channel = broker
    exchange = f"events-{uuid4().hex[:8]}"
    channel.exchange_declare(exchange, "fanout", durable=True)
    subscriber = Subscriber(channel, exchange)
    stream = event_stream_of(f"{url}#{exchange}")
    with EventPublisher(stream, "shop") as publisher:
        stream._connection._connection._transport._sock.shutdown(2)
        publisher.publish(events.JOB_BEGUN(begun="new", run=7))
    assert runs(body for _, _, body in subscriber.messages()) == [7]


def test_a_long_name_of_a_job_fits_into_a_routing_key(broker):
    url, channel = broker
    exchange = f"events-{uuid4().hex[:8]}"
    channel.exchange_declare(exchange, "topic", durable=True)
    subscriber = Subscriber(channel, exchange, "#")
    stream = event_stream_of(f"{url}#{exchange}")
    stream.open()
    stream.publish([EventMessage("1", "ü" * 100 + "漢" * 100, "job.begun", "info", time.time(), b"{}")])
    stream.close()
    ((routing_key, properties, _),) = subscriber.messages()
    assert routing_key.endswith(".job.begun")
    assert properties.headers["job"].endswith("漢")
