"""The Redis intake, ``redis://HOST:PORT/DB#KEY``: a list, a set, a sorted set or a stream, by the type of the key.

A key that does not exist yet is waited for; ``?type=`` says what it will be. Dead letters go to the list
``KEY:dead-letters``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlencode

from redis import Redis, exceptions

from skitter.cluster.process_identity import worker_id
from skitter.errors import IntakeError, IntakeUnavailableError, UsageError
from skitter.intakes.contract import Backlog, DeadLetter, Message
from skitter.intakes.dead_letters import encode_letter
from skitter.intakes.redis.queue import QUEUES, BecameStreamError, QueueReader, has_hash_tag
from skitter.intakes.redis.stream import StreamReader
from skitter.intakes.sources import Source
from skitter.redis_driver.address import Address, parse_address
from skitter.redis_driver.connections import blocking_client
from skitter.redis_driver.errors import TROUBLES, Remedy, connection_trouble, is_reply, reply_code

_OWN_OPTIONS = ("type", "group", "claim_seconds")
CLAIM_SECONDS = 60.0
"""After so long of silence, what a reader holds goes to others. Longer than a server or a frontier is usually
unavailable;
a message that comes again by mistake is known by then."""
_TYPES = (*QUEUES, "stream")
_NO_PERMISSION = (
    "it needs TYPE, EVALSHA, EVAL, SCRIPT and TIME, the commands of the key's type on KEY and on *KEY*:skitter:*, and"
    " RPUSH on KEY:dead-letters"
)


class RedisIntake:
    """Reads one key; which way is known when the key exists."""

    shared = True
    is_exhausted = False

    def __init__(self, source: Source) -> None:
        self.source = source.name
        self._key = source.fragment
        self._expected = source.options.get("type", "")
        self._group = source.options.get("group", f"skitter-{source.job}")
        if not self._key:
            raise UsageError(f"no key is named: {source.name}", hint="redis://HOST:PORT/DB#KEY")
        if self._expected not in ("", *_TYPES):
            raise UsageError(f"unknown type of key: type={self._expected}: {source.name}", hint=", ".join(_TYPES))
        self._claim_seconds = _claim_seconds(source)
        self._address = _address(source)
        if self._address.cluster and "}" in self._key and not has_hash_tag(self._key):
            raise UsageError(
                f"the intake's own keys cannot be in the slot of this key: {self._key}: {source.name}",
                hint="in a Redis Cluster, use a key without braces, or with a hash tag: {urls}:shop",
            )
        self._consumer = f"{worker_id()}:{secrets.token_hex(4)}"
        self._client: Redis | None = None
        self._reader: QueueReader | StreamReader | None = None

    def open(self, mark: bytes) -> None:  # noqa: ARG002  the server remembers
        with self._intake_errors():
            if self._client is not None:
                self._client.close()
            self._client = client = blocking_client(self._address)
            kind: Any = client.type(self._key)
            if kind == b"none":
                kind = self._expected.encode()
            if kind == b"stream" and self._expected in ("", "stream"):
                self._reader = StreamReader(client, self._key, self._group, self._consumer, self._claim_seconds)
            else:
                self._reader = QueueReader(
                    *(client, self._key, self._consumer),
                    expected=self._expected,
                    claim_seconds=self._claim_seconds,
                    source=self.source,
                )
            self._reader.open()

    def read(self, limit: int, timeout_seconds: float) -> list[Message]:
        with self._intake_errors():
            try:
                return self._opened.read(limit, timeout_seconds)
            except BecameStreamError:
                # The key did not exist yet when it was opened.
                self.open(b"")
                return self._opened.read(limit, timeout_seconds)

    def ack(self, messages: Sequence[Message]) -> bytes:
        with self._intake_errors():
            self._opened.ack(messages)
        return b""

    def dead_letter(self, letters: Sequence[DeadLetter]) -> None:
        assert self._client is not None, "open() comes first"
        with self._intake_errors():
            self._client.rpush(f"{self._key}:dead-letters", *(encode_letter(self.source, letter) for letter in letters))

    def backlog(self) -> Backlog:
        with self._intake_errors():
            return self._opened.backlog()

    def close(self) -> None:
        # A server that is unavailable gives back by itself what this reader holds, when its time has run out.
        with suppress(exceptions.RedisError, OSError, IntakeError):
            if self._reader is not None:
                self._reader.close()
        if self._client is not None:
            self._client.close()
        self._reader = self._client = None

    @property
    def _opened(self) -> QueueReader | StreamReader:
        assert self._reader is not None, "open() comes first"
        return self._reader

    # ---- errors

    @contextmanager
    def _intake_errors(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.RedisError, OSError) as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> IntakeError:
        """Convert a driver error to an intake error."""
        code = reply_code(error)
        trouble = TROUBLES.get(code)
        if trouble is not None:
            kind = IntakeError if trouble.remedy is Remedy.CHANGE else IntakeUnavailableError
            hint = _NO_PERMISSION if code == "NOPERM" else trouble.hint
            return kind(f"the Redis of {self.source} {trouble.text}", hint=hint)
        if code == "NOGROUP":
            # The stream was deleted, and its group with it; both are made again.
            return IntakeUnavailableError(f"the consumer group was deleted: {self.source}", hint="it is created again")
        if is_reply(error):
            return IntakeError(f"Redis says: {error}: {self.source}", hint="run with -v for the details")
        reason, hint = connection_trouble(error, tls=self._address.tls)
        return IntakeUnavailableError(
            f"Redis cannot be reached: {self.source}: {reason}", hint=f"{hint}; nothing is lost"
        )


def _claim_seconds(source: Source) -> float:
    text = source.options.get("claim_seconds", "")
    if text and not (text.isdecimal() and int(text)):
        raise UsageError(
            f"not a number of seconds: claim_seconds={text}: {source.name}", hint="give a whole number from 1"
        )
    return float(text) if text else CLAIM_SECONDS


def _address(source: Source) -> Address:
    """The address of the server; UsageError if it is none."""
    head = source.text.partition("#")[0].partition("?")[0]
    # With the options as they were written: a password file among them.
    options = {name: value for name, value in source.url_options.items() if name not in _OWN_OPTIONS}
    return parse_address(f"{head}?{urlencode(options)}" if options else head)
