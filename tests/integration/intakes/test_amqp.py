"""The AMQP intake: nothing is acked before it is asked for, poison is kept, and a queue that goes away comes back."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from uuid import uuid4

import pika
import pytest

from rig.servers.streams import OwnRabbitmq
from skitter.errors import IntakeError, IntakeUnavailableError, UsageError
from skitter.intakes.amqp import intake as module
from skitter.intakes.contract import DeadLetter
from skitter.intakes.sources import intake_of, parse_source
from skitter.testing import IntakeContract, IntakePlace

# The first test may have to install the server.
pytestmark = pytest.mark.timeout(900)


class Queue:
    """A durable queue of its own, with a plain client."""

    def __init__(self, url, kind="classic", **arguments):
        self.url, self.name, self.kind = url, f"urls-{uuid4().hex[:12]}", kind
        self.source = f"{url}#{self.name}"
        self.connection = pika.BlockingConnection(pika.URLParameters(f"{url}/%2F"))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.arguments = {"x-queue-type": kind, **arguments}
        self.declare()

    def declare(self):
        self.channel.queue_declare(self.name, durable=True, arguments=self.arguments)

    def put(self, *bodies, **properties):
        for body in bodies:
            self.channel.basic_publish("", self.name, body, pika.BasicProperties(delivery_mode=2, **properties))

    def ready(self, name=""):
        return self.channel.queue_declare(name or self.name, passive=True).method.message_count

    def get(self, name):
        return self.channel.basic_get(name, auto_ack=True)


class QueuePlace(IntakePlace):
    """A queue; its messages have ids because its publisher gives them one."""

    def __init__(self, queue):
        self.queue = queue

    def intake(self):
        return intake_of(parse_source(self.queue.source, job="shop"))

    def put(self, *bodies):
        for body in bodies:
            self.queue.put(body, message_id=uuid4().hex)

    def dead_letters(self):
        name, found = f"{self.queue.name}.dead-letters", []
        while (letter := self.queue.channel.basic_get(name))[0] is not None:
            found.append(letter)
        self.queue.channel.basic_nack(0, multiple=True)
        return [(body, properties.headers["x-skitter-reason"]) for _, properties, body in found]

    def kill(self, intake):
        intake._connection._connection._transport._sock.shutdown(socket.SHUT_RDWR)
        intake.close()


class TestContract(IntakeContract):
    @pytest.fixture(params=["quorum", pytest.param("classic", marks=pytest.mark.soak)])
    def place(self, services, request):
        queue = Queue(services.need("rabbitmq")["url"], request.param)
        yield QueuePlace(queue)
        queue.connection.close()


@pytest.fixture(params=["classic", "quorum"])
def queue(services, request):
    made = Queue(services.need("rabbitmq")["url"], request.param)
    yield made
    made.connection.close()


@pytest.fixture
def classic(services):
    made = Queue(services.need("rabbitmq")["url"], **{"x-max-priority": 5})
    yield made
    made.connection.close()


@contextmanager
def reading(source):
    intake = intake_of(parse_source(source, job="shop"))
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
    return [message.body for message in messages]


def test_messages_that_are_not_acked_come_again_in_order(queue):
    queue.put(*(b"http://h/%d" % n for n in range(100)), message_id="m")
    with reading(queue.source) as intake:
        first = take(intake, 60)
        intake.ack(first[:40])
        assert intake.backlog().messages == 60
    with reading(queue.source) as intake:
        again = take(intake, 60)
        assert bodies(again) == [b"http://h/%d" % n for n in range(40, 100)]
        assert again[0].id == "m"
        intake.ack(again)
    assert queue.ready() == 0


def test_two_readers_share_a_queue(queue):
    with (
        reading(f"{queue.url}?prefetch=10#{queue.name}") as one,
        reading(f"{queue.url}?prefetch=10#{queue.name}") as other,
    ):
        assert one.read(10, 0.1) == other.read(10, 0.1) == []
        queue.put(*(b"http://h/%d" % n for n in range(40)))
        found = [*take(one, 10), *take(other, 10)]
        assert len(set(bodies(found))) == 20
        assert one.read(10, 0.1) == [], "ten are prefetched, and none was acked"


def test_a_queue_is_not_taken_for_empty_while_another_consumer_may_hold_messages(queue, monkeypatch):
    queue.put(b"http://h/1")
    with reading(queue.source) as one, reading(queue.source) as other:
        (held,) = take(one, 1)
        assert other.read(10, 0.1) == []
        assert other.backlog().messages == 1
        # A broker has noticed by then whose machine is gone.
        monkeypatch.setattr(module, "HEARTBEAT_SECONDS", -10)
        assert other.backlog().messages == 0
        one.ack([held])


def test_acks_of_an_earlier_connection_are_ignored(queue):
    queue.put(b"http://h/1", b"http://h/2")
    with reading(queue.source) as intake:
        old = take(intake, 2)
        intake.open(b"")
        new = take(intake, 2)
        intake.ack(old)
        assert intake.backlog().messages == 2
        intake.ack(new)
        assert intake.backlog().messages == 0


def test_an_ack_without_a_connection_says_so_and_the_messages_come_again(queue):
    queue.put(b"http://h/1")
    with reading(queue.source) as intake:
        messages = take(intake, 1)
        intake.close()
        with pytest.raises(IntakeUnavailableError, match="not connected"):
            intake.ack(messages)
        intake.open(b"")
        intake.ack(take(intake, 1))
    assert queue.ready() == 0


def test_the_priority_of_a_message_is_its_request_s(classic):
    classic.put(b"http://h/low")
    classic.put(b"http://h/high", priority=4)
    with reading(classic.source) as intake:
        high, low = take(intake, 2)
        assert (high.body, high.priority, low.priority) == (b"http://h/high", 4, None)


def test_a_dead_letter_keeps_what_the_message_had_and_obeys_none_of_it(queue):
    headers = {"CC": [queue.name], "tenant": "a"}
    queue.put(b"poison", message_id="7", headers=headers, expiration="600000", user_id="skitter", correlation_id="c")
    letters = f"{queue.name}.dead-letters"
    with reading(queue.source) as intake:
        messages = take(intake, 1)
        intake.dead_letter([DeadLetter(message, "no url") for message in messages])
        assert queue.ready(letters) == 1, "confirmed before anything is acked"
        intake.ack(messages)
        assert intake.read(10, 0.2) == []
    _, properties, body = queue.get(letters)
    assert (body, properties.message_id, properties.correlation_id) == (b"poison", "7", "c")
    assert properties.headers["x-skitter-reason"] == "no url"
    assert properties.headers["tenant"] == "a"
    assert (properties.delivery_mode, properties.expiration, properties.user_id) == (2, None, None)


def test_dead_letters_that_no_queue_takes_are_not_lost(queue):
    queue.put(b"poison")
    letters = f"{queue.name}.dead-letters"
    queue.channel.queue_declare(letters, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    queue.channel.basic_publish("", letters, b"full")
    with reading(queue.source) as intake:
        with pytest.raises(IntakeUnavailableError, match="refuses messages"):
            intake.dead_letter([DeadLetter(message, "no url") for message in take(intake, 1)])
        queue.channel.queue_purge(letters)
        intake.open(b"")
        messages = take(intake, 1)
        intake.dead_letter([DeadLetter(message, "no url") for message in messages])
        intake.ack(messages)
    assert (queue.ready(), queue.ready(letters)) == (0, 1)


def test_a_queue_that_was_deleted_is_read_again_when_it_is_there(queue):
    with reading(queue.source) as intake:
        assert intake.read(10, 0.1) == []
        queue.channel.queue_delete(queue.name)
        with pytest.raises(IntakeUnavailableError, match="queue was deleted"):
            take(intake, 1)
        with pytest.raises(IntakeUnavailableError, match="no queue") as unavailable:
            intake.open(b"")
        assert "declare the queue again" in unavailable.value.hint
        queue.declare()
        queue.put(b"http://h/1")
        intake.open(b"")
        assert bodies(take(intake, 1)) == [b"http://h/1"]


def test_a_queue_is_declared_durable_where_somebody_asks_for_it(queue):
    name = f"{queue.name}-new"
    with pytest.raises(IntakeError, match="no queue") as error, reading(f"{queue.url}#{name}"):
        pytest.fail("it is not there")
    assert not isinstance(error.value, IntakeUnavailableError)
    with reading(f"{queue.url}?declare={queue.kind}#{name}") as intake:
        # It would be refused if it were transient, or of another kind.
        queue.channel.queue_declare(name, durable=True, arguments={"x-queue-type": queue.kind})
        queue.channel.queue_delete(name)
        with pytest.raises(IntakeUnavailableError):
            take(intake, 1)
        intake.open(b"")
        assert queue.ready(name) == 0


@pytest.mark.parametrize(
    ("kind", "options", "key", "headers"),
    [
        ("direct", "binding=shop", "shop", {}),
        ("topic", "binding=shop.%23", "shop.new.urls", {}),
        ("fanout", "", "", {}),
        ("headers", "headers=kind:url,lang:de&match=all", "", {"kind": "url", "lang": "de"}),
    ],
)
def test_a_queue_is_bound_to_each_kind_of_exchange(classic, kind, options, key, headers):
    exchange = f"in-{uuid4().hex[:8]}"
    source = f"{classic.url}?exchange={exchange}&exchange_type={kind}&{options}".removesuffix("&")
    with reading(f"{source}#{classic.name}") as intake:
        properties = pika.BasicProperties(headers=headers)
        classic.channel.basic_publish(exchange, key, b"http://h/1", properties, mandatory=True)
        assert bodies(take(intake, 1)) == [b"http://h/1"]


def test_what_nobody_asks_for_goes_back_after_a_while(queue, monkeypatch):
    monkeypatch.setattr(module, "HOLD_SECONDS", 0.0)
    queue.put(*(b"http://h/%d" % n for n in range(20)))
    with reading(queue.source) as intake:
        messages = take(intake, 5)
        intake.read(0, 0.1)
        intake.read(0, 0.1)
        intake.ack(messages)
        assert queue.ready() == 15, "another reader may have them"
        # In any order: of what goes back in two pieces, either may be put before the other.
        assert sorted(bodies(take(intake, 15))) == sorted(b"http://h/%d" % n for n in range(5, 20))


def test_a_broker_that_stands_still_is_away_and_nothing_hangs(own_server, monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 1)
    server = own_server(OwnRabbitmq)
    queue = Queue(server.url)
    queue.put(b"http://h/1")
    queue.connection.close()
    with reading(queue.source) as intake:
        messages = take(intake, 1)
        server.freeze()
        began = time.monotonic()
        with pytest.raises(IntakeUnavailableError):
            take(intake, 1)
        with pytest.raises(IntakeUnavailableError):
            intake.open(b"")
        assert time.monotonic() - began < 60
        server.thaw()
        intake.open(b"")
        assert take(intake, 1)[0].body == messages[0].body, "it was not acked"


@pytest.mark.parametrize(
    "source",
    [
        "amqp://h",
        "amqp://h,#q",
        "amqp://h?declare=transient#q",
        "amqp://h?max_priority=5#q",
        "amqp://h?declare=quorum&max_priority=5#q",
        "amqp://h?prefetch=0#q",
        "amqp://h?binding=x#q",
        "amqp://h?exchange=e&exchange_type=round#q",
        "amqp://h?exchange=e&headers=x#q",
        "amqp://me:hush@h?color=red#q",
    ],
)
def test_what_is_no_queue_is_a_usage_error(source):
    with pytest.raises(UsageError) as error:
        intake_of(parse_source(source))
    assert error.value.hint
    assert "hush" not in f"{error.value}{error.value.hint}"


def test_a_server_that_is_not_there_is_away_and_a_wrong_password_is_not(queue):
    with pytest.raises(IntakeUnavailableError) as unavailable, reading("amqp://me:hush@127.0.0.1:1#q"):
        pytest.fail("it is not there")
    assert "hush" not in f"{unavailable.value}{unavailable.value.hint}"
    with pytest.raises(IntakeError) as refused, reading(queue.source.replace("pa55", "hush")):
        pytest.fail("it must not be let in")
    assert not isinstance(refused.value, IntakeUnavailableError)
    assert "password" in refused.value.hint
