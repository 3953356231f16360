"""The Redis stream sink, ``redis://HOST:PORT/DB#STREAM``: each item is one entry, added once.

Each batch of a run has a number, which the mark knows. One script adds the batch, and notes its number and its items
beside the stream. So a batch that was added and not recorded is known when it comes again, also where readers have
deleted its entries, other producers have added theirs, or ``MAXLEN`` has cut it off. The note is a key of its own,
``STREAM:skitter:RUN``, and goes when the run is complete.

Ids are explicit, ``MILLISECONDS-POSITION``: above every id that was there, and with the item's position in its job.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from typing import Any

import msgspec
from redis import exceptions

from skitter.errors import SinkError, SinkUnavailableError, UsageError
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.redis_driver.address import Address, locate
from skitter.redis_driver.connections import blocking_client
from skitter.redis_driver.errors import TROUBLES, WRONG_TYPE, Remedy, connection_trouble, is_reply, reply_code
from skitter.sinks.databases.machine_lock import MachineLock
from skitter.sinks.databases.sql_statements import certificate_error, driver_message
from skitter.sinks.streams.messages import in_pieces, known_options, messages_of
from skitter.sinks.targets import Target
from skitter.sinks.whole_file import decode_mark

_PIECE_BYTES = 4 << 20
"""A script holds up everybody else at its server, for some milliseconds here."""
_OPTIONS = ("maxlen", "ca", "client_cert", "client_key", "db")
_NO_CLUSTER = "it is a node of a Redis Cluster, which this output does not support"
_HINTS = {
    # By the code of an error reply, where this sink has a better hint than the driver.
    "NOPERM": "it needs TYPE, EVALSHA, SCRIPT, TIME, EXISTS, XADD, XINFO, XTRIM, HSET, HGET, HEXISTS and DEL, on the"
    " stream and on STREAM:skitter:*",
    WRONG_TYPE: "the key has another type: choose another name after #",
    "MOVED": _NO_CLUSTER,
    "CROSSSLOT": _NO_CLUSTER,
}


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    run: str
    batch: int
    """The number of the last batch that is recorded."""


class RedisSink:
    """A sink that adds to a Redis stream. ``?maxlen=N`` keeps about the last N entries."""

    exact = True

    def __init__(self, target: Target) -> None:
        if not target.fragment:
            raise UsageError(f"no stream is named: {target.name}", hint="redis://HOST:PORT/DB#STREAM")
        self.target = target.name
        self._target = target
        self._stream = target.fragment
        self._maxlen = _maxlen(known_options(target, *_OPTIONS).get("maxlen"), target)
        self._lock = MachineLock(target.job, self.target)
        self._client = blocking_client(_address(target))
        source = resources.files(__package__).joinpath("append.lua").read_text(encoding="utf-8")
        self._append = self._client.register_script(source)
        self._run = ""
        self._batch = 0

    def take(self) -> None:
        self._lock.take()

    def open(self, progress: SinkProgress) -> bytes:
        with self._sink_errors():
            kind: Any = self._client.type(self._stream)
            if kind not in (b"none", b"stream"):
                raise SinkError(f"not a stream, but a {kind.decode()}: {self.target}", hint=_HINTS[WRONG_TYPE])
            if progress.mark and not progress.closed:
                self._resume(decode_mark(progress.mark, _Mark, self.target))
            else:
                self._run, self._batch = secrets.token_hex(8), 0
                self._client.hset(self._state, "batch", "0")
                if self._target.overwrite and not progress.mark:
                    # Consumer groups stay, and ids go on growing.
                    self._client.xtrim(self._stream, maxlen=0, approximate=False)
        return self._mark()

    def _resume(self, mark: _Mark) -> None:
        self._run = mark.run
        noted: Any = self._client.hget(self._state, "batch")
        if noted is None or int(noted) < mark.batch:
            raise self._lost()
        # Usually it is the recorded one, or the next: the writer died in between. A frontier that was set back may be
        # further behind, and then the last batch is all that is known.
        self._batch = max(mark.batch, int(noted) - 1)

    def write(self, items: Sequence[Item]) -> bytes:
        messages = messages_of(items, self._target.key_fields, self.target)
        number = self._batch + 1
        with self._sink_errors():
            for piece in in_pieces(messages, _PIECE_BYTES):
                words = [word for each in piece for word in (each.position, each.item, each.key, each.body)]
                answer: Any = self._append(keys=[self._stream, self._state], args=[number, self._maxlen, *words])
                if int(answer) < 0:
                    raise self._lost()
        self._batch = number
        return self._mark()

    def finish(self) -> None:
        """Do nothing: every entry was added by ``write``."""

    def close(self, *, complete: bool = False) -> None:
        if complete:
            # A note that stays is in nobody's way.
            with suppress(exceptions.RedisError, OSError):
                self._client.delete(self._state)
        self._client.close()
        self._lock.release()

    @property
    def _state(self) -> str:
        return f"{self._stream}:skitter:{self._run}"

    def _mark(self) -> bytes:
        return msgspec.json.encode(_Mark(self._run, self._batch))

    # ---- errors

    def _lost(self) -> SinkError:
        return SinkError(
            f"Redis has lost its record of this run: {self.target}",
            hint="did it start without its data, or were the keys deleted? see appendonly and appendfsync there;"
            " continue without the lost items: skitter deliver --rest; or start over with --fresh",
        )

    @contextmanager
    def _sink_errors(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.RedisError, OSError) as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> SinkError:
        """Convert a driver error to a sink error."""
        code = reply_code(error)
        trouble = TROUBLES.get(code)
        if trouble is not None and trouble.remedy is Remedy.WAIT:
            return SinkUnavailableError(
                f"Redis does not accept data now: {self.target}: it {trouble.text}",
                hint="nothing is lost; skitter tries again",
            )
        if is_reply(error):
            hint = trouble.hint if trouble is not None else "run with -v for the details"
            return SinkError(
                f"Redis says: {driver_message(self._target, error)}: {self.target}", hint=_HINTS.get(code, hint)
            )
        if refused := certificate_error(self._target, error, "ca"):
            return refused
        reason, _ = connection_trouble(error, tls=False)
        return SinkUnavailableError(
            f"Redis cannot be reached: {self.target}: {driver_message(self._target, Exception(reason))}",
            hint="is it running? check host, port and network; nothing is lost",
        )


def _address(target: Target) -> Address:
    """The address of the server that a target names. UsageError if it names none."""
    scheme, _, kind = target.scheme.partition("+")
    is_socket = scheme == "unix"
    if ":," in f"{target.hosts}," and not is_socket:
        raise _not_an_address(target)
    try:
        address = locate("unix" if is_socket else kind, target.hosts, target.path, db=target.options.get("db", ""))
    except ValueError as error:
        raise _not_an_address(target) from error
    return msgspec.structs.replace(
        address,
        username=target.user or None,
        password=target.password,
        tls=scheme == "rediss",
        ca=target.options.get("ca"),
        cert=target.options.get("client_cert"),
        key=target.options.get("client_key"),
    )


def _not_an_address(target: Target) -> UsageError:
    return UsageError(
        f"not the address of a Redis stream: {target.name}",
        hint="redis://USER:PASSWORD@HOST:PORT/DB#STREAM, rediss://…, unix:///PATH?db=N#STREAM,"
        " redis+sentinel://HOST,HOST/MASTER/DB#STREAM",
    )


def _maxlen(text: str | None, target: Target) -> int:
    if text is None:
        return 0
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"not a number of entries: maxlen={text}: {target.name}", hint="for example maxlen=1000000")
    return int(text)
