"""A Redis list, set or sorted set as a source, as scrapy-redis uses them for start URLs.

A read moves messages into the taken list of this reader, in one step of the server, and an acknowledgement removes them
there. What a reader has taken goes back when the reader was not heard from for the claim's time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import resources
from typing import Any

from redis import Redis

from skitter.errors import IntakeError
from skitter.intakes.contract import Backlog, Message

POLL_SECONDS = 0.1
"""Between two looks at a key that is empty."""
SCRAPY_REDIS = ":start_urls"
"""The end of the keys that scrapy-redis reads; there, unknown fields are form data."""
QUEUES = ("list", "set", "zset")


class BecameStreamError(Exception):
    """The key is a stream, which is read in another way."""


def has_hash_tag(key: str) -> bool:
    """Whether a part of the key alone says in which slot a Redis Cluster has it: the first in braces, if not empty."""
    tag, brace, _ = key.partition("{")[2].partition("}")
    return bool(tag and brace)


class QueueReader:
    """Reads a key whose messages are removed when they are read."""

    def __init__(
        self, client: Redis, key: str, reader: str, *, expected: str, claim_seconds: float, source: str
    ) -> None:
        """``expected``: the type of the key; empty: any of ``QUEUES``."""
        self._client = client
        self._key = key
        self._reader = reader
        self._expected = expected
        self._claim_seconds = claim_seconds
        self._source = source
        # In the slot of the key, where a Redis Cluster has it.
        base = key if has_hash_tag(key) else f"{{{key}}}"
        self._readers = f"{base}:skitter:readers"
        self._taken = f"{base}:skitter:taken:"
        script = resources.files(__package__).joinpath("take.lua").read_text(encoding="utf-8")
        self._take = client.register_script(script)

    def open(self) -> None:
        self._step("put back", 0)

    def read(self, limit: int, timeout_seconds: float) -> list[Message]:
        until = time.monotonic() + timeout_seconds
        while True:
            kind, found = self._step("take", limit)
            if found or time.monotonic() + POLL_SECONDS > until:
                return [self._message(kind, taken) for taken in found]
            time.sleep(POLL_SECONDS)

    def _step(self, step: str, limit: int) -> tuple[str, list[bytes]]:
        keys = [self._key, self._readers, self._taken]
        answer: Any = self._take(keys=keys, args=[step, self._reader, self._claim_seconds, limit])
        kind = answer[0].decode()
        if kind == "stream" and not self._expected:
            raise BecameStreamError
        if kind != "none" and kind not in ((self._expected,) if self._expected else QUEUES):
            expected = self._expected or "list, set, sorted set or stream"
            raise IntakeError(f"not a {expected}, but a {kind}: {self._source}", hint="name another key after #")
        return kind, answer[1]

    def _message(self, kind: str, taken: bytes) -> Message:
        form = self._key.endswith(SCRAPY_REDIS)
        if kind != "zset":
            return Message(taken, form=form)
        score, _, body = taken.partition(b" ")
        # Of infinite scores, and of those that no store could keep, the nearest.
        priority = int(max(-(2.0**62), min(2.0**62, float(score))))
        return Message(body, priority=priority, form=form)

    def ack(self, messages: Sequence[Message]) -> None:
        # They are its first: a batch is acknowledged before the next one is read.
        self._client.ltrim(self._taken + self._reader, len(messages), -1)

    def backlog(self) -> Backlog:
        counts = {"list": self._client.llen, "set": self._client.scard, "zset": self._client.zcard}
        kind: Any = self._client.type(self._key)
        waiting: Any = counts[kind.decode()](self._key) if kind.decode() in counts else 0
        readers: Any = self._client.zrange(self._readers, 0, -1)
        taken: Any = [self._client.llen(self._taken + reader.decode().partition("/")[2]) for reader in readers]
        return Backlog(waiting + sum(taken))

    def close(self) -> None:
        self._step("put back", 0)
