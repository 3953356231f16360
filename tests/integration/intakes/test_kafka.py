"""The Kafka intake: offsets are committed behind what is acked, and readers join and leave without a loss."""

from __future__ import annotations

import time
from contextlib import contextmanager
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rig.servers.streams import OwnKafka
from skitter.errors import IntakeError, IntakeUnavailableError, UsageError
from skitter.intakes.contract import DeadLetter
from skitter.intakes.kafka import intake as module
from skitter.intakes.sources import intake_of, parse_source
from skitter.testing import IntakeContract, IntakePlace

# The first test may have to install the server.
pytestmark = pytest.mark.timeout(900)

PARTITIONS = 3


class Topic:
    """A topic of its own, with plain clients."""

    def __init__(self, url):
        self.url, self.name = url, f"urls-{uuid4().hex[:12]}"
        self.source = f"{url}#{self.name}"
        self._servers = {"bootstrap.servers": url.removeprefix("kafka://"), "log_level": 0}
        self.admin = AdminClient(self._servers)
        self.producer = Producer(self._servers | {"enable.idempotence": True})
        self.make()

    def make(self):
        self.admin.create_topics([NewTopic(self.name, PARTITIONS, 1)])[self.name].result(30)

    def put(self, *bodies, key=None, headers=None):
        for body in bodies:
            self.producer.produce(self.name, body, key or body, headers=headers)
        assert self.producer.flush(30) == 0

    def read(self, name, partitions):
        consumer, found, ends = Consumer(self._servers | {"group.id": "x", "enable.partition.eof": True}), [], 0
        try:
            consumer.assign([TopicPartition(name, number, OFFSET_BEGINNING) for number in range(partitions)])
            while ends < partitions:
                message = consumer.poll(30)
                assert message is not None, "no answer in time"
                if message.error() is not None:
                    ends += 1
                else:
                    found.append(message)
        finally:
            consumer.close()
        return found


class TopicPlace(IntakePlace):
    def __init__(self, topic):
        self.topic = topic

    def intake(self):
        return intake_of(parse_source(self.topic.source, job=self.topic.name))

    def put(self, *bodies):
        self.topic.put(*bodies)

    def dead_letters(self):
        letters = self.topic.read(f"{self.topic.name}.dead-letters", 1)
        return [(letter.value(), dict(letter.headers())["x-skitter-reason"].decode()) for letter in letters]

    def kill(self, intake):
        # The brokers would find a killed reader after its session.timeout.ms; it leaves at once, and commits nothing.
        intake.close()


class TestContract(IntakeContract):
    @pytest.fixture
    def place(self, topic):
        return TopicPlace(topic)


@pytest.fixture
def topic(services):
    return Topic(services.need("kafka")["url"])


@contextmanager
def reading(source, job="shop"):
    # A group of its own: one reader that a failed test left behind would hold up the sharing for everybody.
    intake = intake_of(parse_source(source, job=f"{job}-{source.partition('#')[2]}"))
    intake.open(b"")
    try:
        yield intake
    finally:
        intake.close()


def take(intake, count):
    """So many messages, as they come."""
    found, deadline = [], time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} came"
        found += intake.read(count - len(found), 0.5)
    return found


def bodies(messages):
    return sorted(message.body for message in messages)


URLS = [b"http://h/%03d" % n for n in range(200)]


def test_messages_that_are_not_acked_come_again_to_the_next_reader(topic):
    topic.put(*URLS)
    with reading(topic.source) as intake:
        first = take(intake, 150)
        intake.ack(first[:100])
        assert intake.backlog().messages == 100
    with reading(topic.source) as intake:
        again = take(intake, 100)
        assert bodies([*first[:100], *again]) == URLS
        assert {message.id for message in again} >= {message.id for message in first[100:]}, "an id stays"
        intake.ack(again)
        assert intake.backlog().messages == 0
    with reading(topic.source, job="other") as intake:
        assert bodies(take(intake, 200)) == URLS, "another job is another group"


def test_an_offset_is_not_committed_over_one_that_was_not_acked(topic):
    topic.put(*URLS[:20], key=b"one partition")
    with reading(topic.source) as intake:
        messages = take(intake, 20)
        intake.ack(messages[10:])
    with reading(topic.source) as intake:
        assert bodies(take(intake, 20)) == URLS[:20]


def test_readers_join_and_leave_under_load_and_nothing_is_lost(topic):
    done = []
    with reading(topic.source) as one:
        topic.put(*URLS)
        done += (first := take(one, 50))
        one.ack(first)
        held = one.read(20, 5.0)
        with reading(topic.source) as other:
            deadline = time.monotonic() + 60
            # The joining takes partitions away from the first, which may come to hold them again.
            while not (found := other.read(500, 0.2)) and time.monotonic() < deadline:
                one.read(0, 0.05)
            other.ack(found)
            done += found
            one.ack(held)  # late: its partition may have another reader by now
            done += held
        # What was acknowledged too late comes again, although all URLs may be known by then.
        while len(set(bodies(done))) < len(URLS) or one.backlog().messages:
            assert time.monotonic() < deadline, f"{len(set(bodies(done)))} of {len(URLS)}, {one.backlog()}"
            found = one.read(500, 0.5)
            one.ack(found)
            done += found
    assert sorted(set(bodies(done))) == URLS


def test_a_reader_that_rests_stays_in_its_group(topic):
    with reading(topic.source) as intake:
        assert intake.read(10, 0.1) == []
        topic.put(*URLS[:10])
        for _ in range(5):
            assert intake.read(0, 0.1) == []
        assert bodies(take(intake, 10)) == URLS[:10]


def test_a_dead_letter_keeps_its_key_and_headers(topic):
    topic.put(b"poison", key=b"shop.example", headers={"tenant": b"a"})
    with reading(topic.source) as intake:
        messages = take(intake, 1)
        intake.dead_letter([DeadLetter(messages[0], "no url")])
        (letter,) = topic.read(f"{topic.name}.dead-letters", 1)
        intake.ack(messages)
        assert intake.backlog().messages == 0
    assert (letter.value(), letter.key()) == (b"poison", b"shop.example")
    assert dict(letter.headers()) == {
        "tenant": b"a",
        "x-skitter-reason": b"no url",
        "x-skitter-id": messages[0].id.encode(),
    }


def test_a_dead_letter_that_does_not_fit_is_an_error_and_nothing_is_acked(topic):
    letters = f"{topic.name}.dead-letters"
    small = NewTopic(letters, 1, 1, config={"max.message.bytes": "100"})
    topic.admin.create_topics([small])[letters].result(30)
    topic.put(b"x" * 1000)
    with reading(topic.source) as intake:
        messages = take(intake, 1)
        with pytest.raises(IntakeError, match="too large") as error:
            intake.dead_letter([DeadLetter(messages[0], "no url")])
        assert "max.message.bytes" in error.value.hint
        intake.open(b"")
        assert bodies(take(intake, 1)) == [b"x" * 1000]


def test_a_topic_is_made_with_its_partitions_where_somebody_asks_for_it(topic):
    name = f"{topic.name}-new"
    with pytest.raises(IntakeError) as error, reading(f"{topic.url}#{name}"):
        pytest.fail("it is not there")
    assert not isinstance(error.value, IntakeUnavailableError)
    assert "create the topic" in error.value.hint
    for _ in range(2):
        with reading(f"{topic.url}?partitions=4&replication=1#{name}"):
            assert len(topic.admin.list_topics(name).topics[name].partitions) == 4


def test_a_tombstone_is_an_empty_message(topic):
    topic.put(None, key=b"k")
    with reading(topic.source) as intake:
        assert bodies(take(intake, 1)) == [b""]


@pytest.mark.soak
def test_brokers_that_stand_still_are_away_and_nothing_hangs(own_server, monkeypatch):
    monkeypatch.setattr(module, "COMMIT_SECONDS", 2.0)
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.5)
    monkeypatch.setattr(module, "_SETTINGS", module._SETTINGS | {"socket.timeout.ms": 1500, "session.timeout.ms": 6000})
    server = own_server(OwnKafka)
    topic = Topic(server.url)
    topic.put(*URLS[:20])
    with reading(topic.source) as intake:
        messages = take(intake, 20)
        server.freeze()
        began = time.monotonic()
        with pytest.raises(IntakeUnavailableError):
            intake.ack(messages)
        assert time.monotonic() - began < 60
        server.thaw()
        while True:
            try:
                intake.open(b"")
                break
            except IntakeUnavailableError:
                assert time.monotonic() - began < 240
        topic.put(URLS[20])
        found = set()
        while URLS[20] not in found:
            assert time.monotonic() - began < 240
            found |= {message.body for message in intake.read(50, 0.5)}
        # The commit that nobody answered may have been made all the same, when the brokers went on.
        assert found - {URLS[20]} in (set(URLS[:20]), set())


@pytest.mark.parametrize(
    "source",
    ["kafka://h", "kafka:///#t", "kafka://h/x#t", "kafka://me:hush@h?color=red#t", "kafka://h?partitions=x#t"],
)
def test_what_is_no_topic_is_a_usage_error(source):
    with pytest.raises(UsageError) as error:
        intake_of(parse_source(source))
    assert error.value.hint
    assert "hush" not in f"{error.value}{error.value.hint}"


def test_a_server_that_is_not_there_is_away(monkeypatch):
    monkeypatch.setattr("skitter.kafka_driver.client.find_topic.__defaults__", (1.0,))
    with pytest.raises(IntakeUnavailableError) as unavailable, reading("kafka://me:hush@127.0.0.1:1#t"):
        pytest.fail("it is not there")
    assert "hush" not in f"{unavailable.value}{unavailable.value.hint}"
