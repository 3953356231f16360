"""Kafka: each item once for readers of what is committed, whoever dies in a transaction."""

from __future__ import annotations

import json
import time
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from skitter.errors import BadItemsError, SinkError, SinkUnavailableError, UsageError

# The first test may have to install the server.
pytestmark = pytest.mark.timeout(900)

PARTITIONS = 3


class Topic:
    """A topic of its own, read by a plain client."""

    def __init__(self, url):
        self.url, self.name = url, f"books-{uuid4().hex[:12]}"
        self.target = f"{url}#{self.name}"
        self.servers = url.removeprefix("kafka://")
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        admin.create_topics([NewTopic(self.name, PARTITIONS, 1)])[self.name].result(30)

    def messages(self):
        """Keys and records, of all partitions, as a reader of what is committed sees them."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": uuid4().hex,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        found, ends = [], 0
        try:
            consumer.assign([TopicPartition(self.name, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
            while ends < PARTITIONS:
                message = consumer.poll(30)
                assert message is not None, "no answer in time"
                if message.error() is not None:
                    ends += 1
                else:
                    found.append((message.key().decode(), json.loads(message.value())))
        finally:
            consumer.close()
        return found

    def numbers(self):
        return sorted(record["n"] for _, record in self.messages())


@pytest.fixture(scope="module")
def broker(services):
    """A broker that coordinates groups: one that has just started makes the topic of offsets at the first question."""
    url = services.need("kafka")["url"]
    consumer = Consumer({"bootstrap.servers": urlsplit(url).netloc, "group.id": "first"})
    deadline = time.monotonic() + 60
    while True:
        try:
            (position,) = consumer.committed([TopicPartition("any", 0)], timeout=10)
            if position.error is None:
                break
        except KafkaException:
            pass
        assert time.monotonic() < deadline, "no coordinator"
        time.sleep(0.1)
    consumer.close()
    return url


@pytest.fixture
def topic(broker):
    return Topic(broker)


def test_a_message_has_the_key_and_the_record(topic, run):
    run(topic.target).open().write({"title": "Über", "price": 12.5}, {"n": 2}).finish()
    assert dict(topic.messages()) == {
        "0000000000000007-0": {"title": "Über", "price": 12.5},
        "0000000000000007-1": {"n": 2},
    }


def test_a_batch_that_comes_again_is_there_once(topic, run):
    each = run(topic.target).open().write({"n": 1}).write({"n": 2}, {"n": 3}, page=8, recorded=False)
    each.open().write({"n": 2}, {"n": 3}, {"n": 4}, page=8).open().write({"n": 5}, page=9).finish()
    assert topic.numbers() == [1, 2, 3, 4, 5]


def test_the_first_batch_of_a_run_may_come_again_too(topic, run):
    each = run(topic.target).open().write({"n": 1}, {"n": 2}, recorded=False)
    each.open().write({"n": 1}, {"n": 2}).finish()
    assert topic.numbers() == [1, 2]


def test_a_batch_of_other_items_is_no_repetition(topic, run):
    each = run(topic.target).open().write({"n": 1}, recorded=False)
    # The frontier was set back, and gives other items now.
    each.open().write({"n": 2}, page=8).finish()
    assert topic.numbers() == [1, 2]


def test_a_transaction_that_was_left_open_is_given_up(topic, run):
    each = run(topic.target).open().write({"n": 1})
    producer = each.sink._topic._producer
    producer.begin_transaction()
    producer.produce(topic.name, b'{"n": 99}', b"x")
    producer.flush()
    successor = run(topic.target)
    successor.progress = each.progress
    each.sink._lock.release()
    successor.open().write({"n": 2}, page=8)
    assert topic.numbers() == [1, 2]


def test_a_writer_that_only_stood_still_is_shut_out(topic, run):
    still = run(topic.target).open().write({"n": 1})
    successor = run(topic.target)
    successor.progress = still.progress
    still.sink._lock.release()
    successor.open().write({"n": 2}, page=8)
    with pytest.raises(SinkError, match="Kafka says") as error:
        still.write({"n": 2}, page=8)
    assert "another process" in error.value.hint
    assert topic.numbers() == [1, 2]


def test_an_error_after_the_commit_is_settled_by_asking(topic, run):
    each = run(topic.target).open()
    items = each.items({"n": 1}, {"n": 2})
    each.sink.write(items)
    each.sink._batch -= 1  # as if the answer of the commit had been lost
    each.sink._topic.close()
    each.sink.write(items)
    assert topic.numbers() == [1, 2]


def test_several_jobs_and_runs_share_a_topic(topic, run):
    one, other = run(topic.target, job="one").open(), run(topic.target, job="other").open()
    one.write({"n": 1})
    other.write({"n": 2})
    one.write({"n": 3}, page=8).finish()
    run(topic.target, job="one").open().write({"n": 4}).finish()
    assert topic.numbers() == [1, 2, 3, 4]


def test_large_batches_arrive(topic, run):
    each = run(topic.target).open()
    each.write(*({"n": n, "text": "x" * 20_000} for n in range(1000)))
    assert topic.numbers() == list(range(1000))


def test_items_of_one_key_stay_in_order(topic, run):
    each = run(topic.target.replace("#", "?key=sku#")).open()
    for page in range(5):
        each.write(*({"sku": f"book {n}", "n": page} for n in range(20)), page=page)
    order: dict[str, list[int]] = {}
    for key, record in topic.messages():
        order.setdefault(key, []).append(record["n"])
    assert order == {f"book {n}": [0, 1, 2, 3, 4] for n in range(20)}


def test_what_is_too_large_is_bad_and_the_rest_is_written(topic, run):
    each = run(topic.target).open()
    items = each.items({"n": 1}, {"n": 2, "text": "x" * 1_000_001}, {"n": 3, "text": "y" * 990_000})
    with pytest.raises(BadItemsError) as bad:
        each.sink.write(items)
    assert list(bad.value.reasons) == [2]
    each.sink.write([items[0], items[2]])
    assert topic.numbers() == [1, 3]


def test_a_server_that_is_not_there_is_away(run, monkeypatch):
    monkeypatch.setattr("skitter.sinks.streams.kafka_transactions._SECONDS", 1.0)
    with pytest.raises(SinkUnavailableError) as unavailable:
        run("kafka://me:hush@127.0.0.1:1#books").open()
    assert "127.0.0.1:1" in str(unavailable.value)
    assert "hush" not in str(unavailable.value) + unavailable.value.hint


def test_a_topic_that_is_not_there_is_an_error(topic, run):
    with pytest.raises(SinkError) as error:
        run(f"{topic.url}#no-{topic.name}").open()
    assert not isinstance(error.value, SinkUnavailableError)
    assert "create the topic" in error.value.hint


def test_progress_that_the_broker_does_not_know_is_an_error(topic, run):
    each = run(topic.target).open().write({"n": 1})
    each.progress = type(each.progress)(each.progress.position, b'["0000000000000000",1]')
    with pytest.raises(SinkError, match="has lost"):
        each.open()


def test_a_topic_cannot_be_overwritten(topic, run):
    with pytest.raises(SinkError, match="cannot be emptied"):
        run(topic.target, overwrite=True).open()


@pytest.mark.parametrize(
    "target",
    [
        "kafka://h",
        "kafka:///#books",
        "kafka://h/x#books",
        "kafka://h?color=red#books",
        "kafka://h?max_message_bytes=x#b",
    ],
)
def test_what_is_no_topic_is_a_usage_error(run, target):
    with pytest.raises(UsageError) as error:
        run(target)
    assert error.value.hint
