"""AMQP messages: confirmed, persistent, each with the key of its item; and what a broker may say instead."""

from __future__ import annotations

import json
import socket
import ssl
from uuid import uuid4

import pika
import pytest

from certificates import Authority
from rig.servers.streams import OwnRabbitmq
from skitter.errors import BadItemsError, SinkError, SinkUnavailableError, UsageError

# The first test may have to install the server.
pytestmark = pytest.mark.timeout(900)


class Queue:
    """A durable queue of its own, bound to an exchange of its own, read by a plain client."""

    def __init__(self, url):
        self.url, self.name = url, f"books-{uuid4().hex[:12]}"
        self.target = f"{url}#{self.name}/new.books"
        self.connection = pika.BlockingConnection(pika.URLParameters(f"{url}/%2F"))
        self.channel = self.connection.channel()
        self.channel.exchange_declare(self.name, "topic", durable=True)
        self.channel.queue_declare(self.name, durable=True)
        self.channel.queue_bind(self.name, self.name, "new.*")

    def messages(self):
        """All of them, which are gone then."""
        found = []
        while True:
            method, properties, body = self.channel.basic_get(self.name, auto_ack=True)
            if method is None:
                return found
            found.append((properties, json.loads(body)))

    def numbers(self):
        return [record["n"] for _, record in self.messages()]


@pytest.fixture
def queue(services):
    made = Queue(services.need("rabbitmq")["url"])
    yield made
    made.connection.close()


def test_a_message_has_the_key_and_the_record(queue, run):
    run(queue.target).open().write({"title": "Über", "price": 12.5}, {"n": 2}).finish()
    (first, record), (second, _) = queue.messages()
    assert record == {"title": "Über", "price": 12.5}
    assert (first.message_id, second.message_id) == ("0000000000000007-0", "0000000000000007-1")
    assert (first.content_type, first.delivery_mode, first.app_id) == ("application/json", 2, "skitter")


def test_a_batch_that_comes_again_has_the_same_ids(queue, run):
    each = run(queue.target).open().write({"n": 1}, {"n": 2}, recorded=False)
    assert not each.sink.exact
    each.open().write({"n": 1}, {"n": 2}, {"n": 3}).finish()
    ids = {properties.message_id: record["n"] for properties, record in queue.messages()}
    assert sorted(ids.values()) == [1, 2, 3]


def test_large_batches_arrive_in_order(queue, run):
    each = run(queue.target).open()
    for page in range(5):
        each.write(*({"n": page * 1000 + n, "text": "x" * 300} for n in range(1000)), page=page)
    assert queue.numbers() == list(range(5000))


def test_a_queue_may_be_named_without_an_exchange(queue, run):
    run(f"{queue.url}#/{queue.name}").open().write({"n": 1}).finish()
    assert queue.numbers() == [1]


def test_a_key_of_fields_may_be_longer_than_an_id(queue, run):
    long = "ü" * 300
    each = run(queue.target.replace("#", "?key=sku#")).open()
    each.write({"sku": long, "n": 1}, {"sku": long + "x", "n": 2}, {"sku": "short", "n": 3}).finish()
    ids = [properties.message_id for properties, _ in queue.messages()]
    assert len(set(ids)) == 3
    assert all(len(each.encode()) <= 255 for each in ids)
    assert ids[2] == "short"


def test_what_the_broker_finds_too_large_is_bad_and_the_rest_is_written(queue, run):
    each = run(queue.target).open()
    items = each.items({"n": 1}, {"n": 2, "text": "x" * (OwnRabbitmq.max_message_bytes + 1)}, {"n": 3})
    with pytest.raises(BadItemsError) as bad:
        each.sink.write(items)
    assert list(bad.value.reasons) == [2]
    each.sink.write([items[0], items[2]])
    assert queue.numbers()[-2:] == [1, 3]


def test_messages_that_no_queue_takes_are_an_error(queue, run):
    each = run(f"{queue.url}#{queue.name}/old.books").open()
    with pytest.raises(SinkError, match="no queue accepts") as error:
        each.write({"n": 1})
    assert not isinstance(error.value, SinkUnavailableError)
    queue.channel.queue_bind(queue.name, queue.name, "old.*")
    each.write({"n": 1})
    assert queue.numbers() == [1]


def test_a_full_queue_is_waited_for(queue, run):
    name = f"{queue.name}-full"
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue.channel.queue_declare(name, durable=True, arguments=full)
    each = run(f"{queue.url}#/{name}").open().write({"n": 1})
    items = each.items({"n": 2}, page=8)
    with pytest.raises(SinkUnavailableError, match="refuses messages"):
        each.sink.write(items)
    queue.channel.queue_purge(name)
    each.sink.write(items)


def test_a_server_that_is_not_there_is_away(run):
    with pytest.raises(SinkUnavailableError) as unavailable:
        run("amqp://me:hush@127.0.0.1:1#books/new").open()
    assert "127.0.0.1:1" in str(unavailable.value)
    assert "hush" not in str(unavailable.value) + unavailable.value.hint


def test_of_several_hosts_one_that_answers_is_enough(queue, run):
    each = run(queue.target.replace("@", "@127.0.0.1:1,")).open().write({"n": 1})
    each.sink._connection.close()  # as if that node had gone; the next connection begins at the one that is not there
    with pytest.raises(SinkUnavailableError):
        each.sink.write(each.items({"n": 2}, page=8))
    each.write({"n": 2}, page=8)
    assert queue.numbers() == [1, 2]


def test_a_connection_that_was_cut_is_made_again(queue, run):
    each = run(queue.target).open().write({"n": 1})
    each.sink._connection._connection._transport._sock.shutdown(socket.SHUT_RDWR)  # between two batches
    items = each.items({"n": 2}, page=8)
    with pytest.raises(SinkUnavailableError):
        each.sink.write(items)
    each.sink.write(items)
    assert queue.numbers() == [1, 2]


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda target, name: target.replace("pa55", "hush"), "password"),
        (lambda target, name: target.replace(f"#{name}", f"#no-{name}"), "declare"),
        (lambda target, name: target.replace("#", "/nowhere#"), "virtual host"),
        (lambda target, name: target.split("#")[0] + f"#/no-{name}", "declare"),
    ],
)
def test_what_waiting_does_not_mend_is_an_error(queue, run, change, hint):
    with pytest.raises(SinkError) as error:
        run(change(queue.target, queue.name)).open()
    assert not isinstance(error.value, SinkUnavailableError)
    assert hint in error.value.hint
    assert "hush" not in f"{error.value}{error.value.hint}{error.value.__cause__}"


def test_messages_go_over_tls_and_a_stranger_is_refused(own_server, run, tmp_path):
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    server = own_server(OwnRabbitmq, authority.issue("server"))
    context = ssl.create_default_context(cafile=authority.file)
    where = pika.URLParameters(f"{server.url}/%2F")
    where.ssl_options = pika.SSLOptions(context, "127.0.0.1")
    with pika.BlockingConnection(where) as connection:
        connection.channel().queue_declare("books", durable=True)
        run(f"{server.url}?ca={authority.file}#/books").open().write({"n": 1}).finish()
        assert connection.channel().queue_declare("books", passive=True).method.message_count == 1
    with pytest.raises(SinkError, match="certificate of the server is refused") as error:
        run(f"{server.url}?ca={stranger.file}#/books").open()
    assert not isinstance(error.value, SinkUnavailableError), "waiting would not help"


def test_what_was_sent_cannot_be_overwritten(queue, run):
    with pytest.raises(SinkError, match="cannot be removed"):
        run(queue.target, overwrite=True).open()


@pytest.mark.parametrize(
    "target", ["amqp://h", "amqp://h#books", "amqp://h#/", "amqp://a,#books/new", "amqp://h?color=red#books/new"]
)
def test_what_is_no_exchange_is_a_usage_error(run, target):
    with pytest.raises(UsageError) as error:
        run(target)
    assert error.value.hint
