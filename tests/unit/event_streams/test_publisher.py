"""The publisher of events: in order, never in the crawl's way, and honest about what it could not publish."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from skitter.errors import EventStreamError, EventStreamUnavailableError, UsageError
from skitter.event_streams import publisher as module
from skitter.event_streams.contract import EventMessage
from skitter.event_streams.publisher import EventPublisher
from skitter.event_streams.stream_urls import event_stream_of
from skitter.observe import events


class Stream:
    """A stream in memory, whose server can become unavailable."""

    name = "memory"

    def __init__(self) -> None:
        self.published: list[EventMessage] = []
        self.batches = 0
        self.logger = f"driver.{id(self)}"
        """Of its own: a thread of an earlier test may still say something."""
        self.trouble: EventStreamError | None = None
        self.hold = threading.Event()
        self.hold.set()

    def open(self) -> None:
        if self.trouble is not None:
            raise self.trouble

    def publish(self, messages: Sequence[EventMessage]) -> None:
        self.hold.wait(600)
        if self.trouble is not None:
            raise self.trouble
        logging.getLogger(self.logger).warning("said while it publishes")
        self.published += messages
        self.batches += 1

    def close(self) -> None:
        pass

    @property
    def numbers(self) -> list[int]:
        return [json.loads(message.body)["run"] for message in self.published]


class Told(logging.Handler):
    """The log of the node, which is published too."""

    def __init__(self, publisher: EventPublisher, stream: Stream) -> None:
        super().__init__()
        self._stream = stream
        self.kinds: list[str] = []
        self.fields: list[dict[str, Any]] = []
        self._publisher = publisher

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("driver.") and record.name != self._stream.logger:
            return
        event = events.of_record(record)
        self.kinds.append(event.kind.name)
        self.fields.append(event.fields)
        self._publisher.publish(event)


@contextmanager
def running(stream: Stream) -> Iterator[tuple[EventPublisher, Told]]:
    publisher = EventPublisher(stream, "shop")
    told = Told(publisher, stream)
    logging.getLogger().addHandler(told)
    try:
        with publisher:
            yield publisher, told
    finally:
        logging.getLogger().removeHandler(told)


def numbered(number: int) -> events.Event:
    return events.JOB_BEGUN(begun="new", run=number)


def until(is_so: Any) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.01)
    monkeypatch.setattr(module, "LONGEST_AWAY_SECONDS", 0.02)


def test_events_are_published_in_order_and_numbered() -> None:
    stream = Stream()
    with running(stream) as (publisher, _):
        for number in range(2000):
            publisher.publish(numbered(number))
    assert stream.numbers == list(range(2000))
    records = [json.loads(message.body) for message in stream.published]
    assert [record["sequence"] for record in records] == list(range(1, 2001))
    assert len({record["publisher"] for record in records}) == 1
    assert len({message.id for message in stream.published}) == 2000
    assert (records[0]["job"], records[0]["event"], records[0]["level"]) == ("shop", "job.begun", "info")
    assert stream.published[0][1:4] == ("shop", "job.begun", "info")


def test_what_is_said_while_publishing_is_not_published() -> None:
    stream = Stream()
    with running(stream) as (publisher, told):
        publisher.publish(numbered(0))
        until(lambda: stream.published)
    assert [message.event for message in stream.published] == ["job.begun"]
    assert told.kinds == ["log"]


def test_a_server_that_comes_back_gets_what_waited_and_the_absence_is_told_once() -> None:
    stream = Stream()
    with running(stream) as (publisher, told):
        stream.trouble = EventStreamUnavailableError("unavailable")
        for number in range(10):
            publisher.publish(numbered(number))
        until(lambda: "events.unavailable" in told.kinds)
        publisher.publish(numbered(10))
        stream.trouble = None
        until(lambda: len(stream.published) == 11)
    assert stream.numbers == list(range(11))
    assert [kind for kind in told.kinds if kind != "log"] == ["events.unavailable", "events.back"]


def test_beyond_the_buffer_the_oldest_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFER_BYTES", 20_000)
    monkeypatch.setattr(module, "BATCH", 1)
    stream = Stream()
    with running(stream) as (publisher, told):
        stream.trouble = EventStreamUnavailableError("unavailable")
        for number in range(1000):
            publisher.publish(numbered(number))
        until(lambda: "events.dropped" in told.kinds)
        stream.trouble = None
        until(lambda: stream.numbers[-1:] == [999])
    (back,) = [fields for kind, fields in zip(told.kinds, told.fields, strict=True) if kind == "events.back"]
    assert back["dropped"] == 1000 - len(stream.published) > 0
    assert stream.numbers == sorted(stream.numbers)
    assert told.kinds.count("events.dropped") == 1


def test_publishing_never_waits_and_the_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.2)
    stream = Stream()
    stream.hold.clear()
    began = time.monotonic()
    with running(stream) as (publisher, told):
        for number in range(100):
            publisher.publish(numbered(number))
    assert time.monotonic() - began < 60
    stream.hold.set()
    assert told.kinds == ["events.dropped"]
    assert told.fields[0]["events"] == 100


def test_a_server_that_stays_away_does_not_keep_the_crawl_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.2)
    stream = Stream()
    stream.trouble = EventStreamUnavailableError("unavailable")
    with running(stream) as (publisher, told):
        publisher.publish(numbered(0))
        until(lambda: told.kinds)
    assert told.kinds == ["events.unavailable", "events.dropped"]
    assert told.fields[-1]["events"] == 1


def test_a_refusal_is_told_before_the_crawl_begins() -> None:
    stream = Stream()
    stream.trouble = EventStreamError("no such exchange")
    with pytest.raises(EventStreamError, match="no such exchange"), running(stream):
        pytest.fail("it must not begin")


def test_a_refusal_that_comes_late_is_waited_for_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(module, "FLUSH_SECONDS", 0.1)
    answer = threading.Event()

    class Slow(Stream):
        def open(self) -> None:
            answer.wait(60)
            raise EventStreamError("no such exchange")

    with running(Slow()) as (_, told):
        answer.set()
        until(lambda: "events.unavailable" in told.kinds)


@pytest.mark.parametrize(
    "url",
    [
        "file:x#y",
        "amqp://h",
        "amqp://h?exchange_type=round#e",
        "amqp://h?color=red#e",
        "amqp://h:x#e",
        "kafka://h/x#t",
        "kafka://h?partitions=0#t",
        "redis://h/x#s",
        "redis://h?maxlen=-1#s",
        "redis://me:hush@h,i#s",
    ],
)
def test_what_is_no_stream_of_events_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError) as error:
        event_stream_of(url)
    assert error.value.hint
    assert "hush" not in f"{error.value}{error.value.hint}"
