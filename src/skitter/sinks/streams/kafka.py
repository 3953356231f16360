"""The Kafka sink, ``kafka://HOST:PORT#TOPIC``: each item is one message, written once, by transactions.

Each batch of a run has a number, which the mark knows. One transaction writes the messages and, as the offset of a
consumer group that nobody reads with, the number; what the batch was stands beside it. So a batch that was committed
and not recorded is known when it comes again. The transactional id is the run's: whoever opens it ends the
transaction that a killed writer has left, and shuts out one that only stood still.

Readers see each item once with ``isolation.level=read_committed``. Without, they also see what was given up.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

import msgspec

from skitter.errors import BadItemsError, SinkError, UsageError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.databases.machine_lock import MachineLock
from skitter.sinks.streams.kafka_transactions import BatchNote, KafkaTopic
from skitter.sinks.streams.messages import Message, messages_of
from skitter.sinks.targets import Target
from skitter.sinks.whole_file import decode_mark


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    run: str
    batch: int
    """The number of the last batch that is recorded."""


class KafkaSink:
    """A sink that writes to a topic. Topics cannot be emptied: ``-O`` is refused."""

    exact = True

    def __init__(self, target: Target) -> None:
        if not target.hosts or not target.fragment or target.path.strip("/"):
            raise UsageError(f"no topic is named: {target.name}", hint="kafka://HOST:PORT,HOST:PORT#TOPIC")
        self.target = target.name
        self._target = target
        self._lock = MachineLock(target.job, self.target)
        self._topic = KafkaTopic(target)
        self._run = ""
        self._batch = 0

    def take(self) -> None:
        if self._target.overwrite:
            raise SinkError(
                f"a topic cannot be emptied: {self.target}", hint="use -o instead of -O, or delete the topic"
            )
        self._lock.take()

    def open(self, progress: SinkProgress) -> bytes:
        self._topic.close()
        if progress.mark and not progress.closed:
            mark = decode_mark(progress.mark, _Mark, self.target)
            self._run, self._batch = mark.run, mark.batch
        else:
            self._run, self._batch = secrets.token_hex(8), 0
        noted = self._topic.open(self._run)
        if noted.batch < self._batch:
            raise self._lost()
        # Usually it is the recorded one, or the next: the writer died in between. A frontier that was set back may be
        # further behind, and then the last batch is all that is known.
        self._batch = max(self._batch, noted.batch - 1)
        return self._mark()

    def write(self, items: Sequence[Item]) -> bytes:
        messages = messages_of(items, self._target.key_fields, self.target)
        large = [each.position for each in messages if not self._topic.has_room_for(each)]
        if large:
            raise BadItemsError(self.target, dict.fromkeys(large, "it is larger than max_message_bytes"))
        number = self._batch + 1
        # After an error nobody knows whether the batch was committed: it is asked for again.
        noted = self._topic.noted or self._topic.open(self._run)
        if noted.batch < self._batch:
            raise self._lost()
        written = _already(noted, number, messages)
        if written < len(messages):
            self._topic.write(messages[written:], BatchNote(number, len(messages), _digest(messages)))
        self._batch = number
        return self._mark()

    def finish(self) -> None:
        """Do nothing: every batch was committed by ``write``."""

    def close(self, *, complete: bool = False) -> None:  # noqa: ARG002  offsets of a group go by themselves, after days
        self._topic.close()
        self._lock.release()

    def _mark(self) -> bytes:
        return msgspec.json.encode(_Mark(self._run, self._batch))

    def _lost(self) -> SinkError:
        return SinkError(
            f"Kafka has lost its record of this run: {self.target}",
            hint="was the run interrupted for longer than offsets.retention.minutes there (7 days)?"
            " continue without the lost items: skitter deliver --rest; or start over with --fresh",
        )


def _already(noted: BatchNote, number: int, messages: Sequence[Message]) -> int:
    """Return how many messages of a batch the topic holds; a repeated batch begins with the same items."""
    if noted.batch == number and noted.digest == _digest(messages[: noted.size]):
        return noted.size
    return 0


def _digest(messages: Sequence[Message]) -> str:
    items = "\n".join(each.item for each in messages)
    return hashlib.blake2b(items.encode(), digest_size=16).hexdigest()
