"""A Redis stream as a source: a consumer group per job, of which each reader is a consumer.

What a consumer has read and not acknowledged for the time of a claim is taken over by another one. Entries stay in the
stream: how many of them are kept is its owner's affair.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from redis import Redis, exceptions

from skitter.intakes.contract import Backlog, Message

CLAIM_POLL_SECONDS = 5.0
"""Between two looks for what dead consumers hold."""
FORGET_SECONDS = 3600.0
"""A consumer that holds nothing and was silent for so long is removed from the group."""
_COUNTED = 1000
"""Entries that are counted at most where the server does not tell how many wait: then there are so many or more."""
_HELD = 10_000
"""Entries that a reader hands back at most; a batch has fewer."""
WHOLE = "message"
"""The field that holds a whole message; an entry without it has the fields of a request."""
_IN_JSON = frozenset(("priority", "headers", "cookies", "meta", "cb_kwargs", "dont_filter", "is_list"))
"""Fields of a request whose values are written as JSON."""


class StreamReader:
    """Reads a stream as one consumer of a group."""

    def __init__(self, client: Redis, key: str, group: str, consumer: str, claim_seconds: float) -> None:
        self._client: Any = client
        self._key = key
        self._group = group
        self._consumer = consumer
        self._idle_milliseconds = int(1000 * claim_seconds)
        self._pending_after = "0"
        """Of what this consumer holds, as far as it was read again; empty: all was."""
        self._claimed_at = -CLAIM_POLL_SECONDS

    def open(self) -> None:
        try:
            # From the first entry that is there.
            self._client.xgroup_create(self._key, self._group, id="0", mkstream=True)
        except exceptions.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        for consumer in self._client.xinfo_consumers(self._key, self._group):
            if not consumer["pending"] and consumer["idle"] > 1000 * FORGET_SECONDS:
                self._client.xgroup_delconsumer(self._key, self._group, consumer["name"])
        # What was read over an earlier connection comes first.
        self._pending_after = "0"

    def read(self, limit: int, timeout_seconds: float) -> list[Message]:
        if limit == 0:
            return []
        if self._pending_after:
            found = self._read_entries(self._pending_after, limit, None)
            self._pending_after = found[-1].id if found else ""
            if found:
                return found
        now = time.monotonic()
        if now - self._claimed_at >= CLAIM_POLL_SECONDS:
            if claimed := self._claim(limit):
                return claimed
            self._claimed_at = now
        return self._read_entries(">", limit, max(1, int(1000 * timeout_seconds)))

    def _claim(self, limit: int) -> list[Message]:
        answer = self._client.xautoclaim(
            self._key, self._group, self._consumer, self._idle_milliseconds, "0-0", count=limit
        )
        return [_message(entry, fields) for entry, fields in answer[1] if fields]

    def _read_entries(self, after: str, limit: int, block_milliseconds: int | None) -> list[Message]:
        answer = self._client.xreadgroup(
            self._group, self._consumer, {self._key: after}, count=limit, block=block_milliseconds
        )
        entries = [(entry, fields) for _, found in answer or () for entry, fields in found]
        # An entry that was deleted from the stream before it was acknowledged: there is nothing left to read.
        if gone := [entry for entry, fields in entries if not fields]:
            self._client.xack(self._key, self._group, *gone)
        return [_message(entry, fields) for entry, fields in entries if fields]

    def ack(self, messages: Sequence[Message]) -> None:
        self._client.xack(self._key, self._group, *(message.ref for message in messages))

    def backlog(self) -> Backlog:
        group = next((one for one in self._client.xinfo_groups(self._key) if one["name"].decode() == self._group), None)
        if group is None:
            return Backlog()
        first = None
        if group["pending"]:
            first = self._client.xpending(self._key, self._group)["min"]
        elif following := self._client.xrange(self._key, f"({group['last-delivered-id'].decode()}", count=1):
            first = following[0][0]
        if first is None:
            return Backlog(0, 0.0)
        seconds, microseconds = self._client.time()
        lag = max(0.0, seconds + microseconds / 1e6 - int(first.partition(b"-")[0]) / 1000)
        waiting = group.get("lag")
        if waiting is None:
            # Redis before 7.0 does not tell it, and no Redis after entries in the middle were deleted.
            following = self._client.xrange(self._key, f"({group['last-delivered-id'].decode()}", count=_COUNTED)
            waiting = len(following)
        return Backlog(group["pending"] + waiting, lag)

    def close(self) -> None:
        # The stream may have been deleted, and the group with it.
        with suppress(exceptions.ResponseError):
            held = self._client.xpending_range(self._key, self._group, "-", "+", _HELD, self._consumer)
            if ids := [entry["message_id"] for entry in held]:
                # As if it had been silent for long: so others claim it at once. The consumer has to stay for it.
                idle = {"idle": self._idle_milliseconds, "justid": True}
                self._client.xclaim(self._key, self._group, self._consumer, 0, ids, **idle)
            else:
                self._client.xgroup_delconsumer(self._key, self._group, self._consumer)


def _message(entry: bytes, fields: dict[bytes, bytes]) -> Message:
    name = entry.decode()
    if (whole := fields.get(WHOLE.encode())) is not None:
        return Message(whole, ref=entry, id=name)
    # As JSON, which is what messages are. What is no text stays bytes, and is refused there.
    request: dict[str, Any] = {}
    for field, value in fields.items():
        text = field.decode(errors="replace")
        request[text] = value.decode(errors="replace")
        if text in _IN_JSON:
            with suppress(msgspec.DecodeError):
                request[text] = msgspec.json.decode(value)
    return Message(msgspec.json.encode(request), ref=entry, id=name)
