"""Sets in Redis: on one server, on a master found through Sentinel, or on one node of a Redis Cluster.

Each call is one Lua script, and therefore one atomic step for all processes that use the set. A call is never retried
automatically: if its reply was lost, the keys may have been added, and adding them again reports them as seen.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import msgspec
from redis import exceptions

from skitter.dedup.bloom import warn_nearly_full
from skitter.dedup.bloom_layout import layout, stats_of
from skitter.dedup.hyperloglog import DistinctCount
from skitter.dedup.lua_files import PACKED_SETTING, bucket_mean, lua
from skitter.dedup.seen_set import Key, SeenSet, new_secret
from skitter.errors import DedupError, UsageError
from skitter.model.bloom_stats import NEARLY_FULL, BloomStats
from skitter.policy.generations import GENERATIONS, generation_seconds
from skitter.redis_driver.address import parse_address
from skitter.redis_driver.connections import blocking_client
from skitter.redis_driver.errors import TROUBLES, WRONG_TYPE, connection_trouble, is_reply, reply_code

_BATCH = 500
"""Maximum keys per script. A script takes a few milliseconds, during which all other clients wait."""
_DRIVER_ERRORS = (exceptions.RedisError, OSError)
_MERGE = b"""-- Merge a count that lies in another slot: its bytes come along.
redis.call('SET', KEYS[1] .. ':merged', ARGV[1])
redis.call('PFMERGE', KEYS[1], KEYS[1] .. ':merged')
redis.call('DEL', KEYS[1] .. ':merged')"""


class _State(msgspec.Struct):
    """Stored state of a set besides its keys. ``record`` belongs to the Lua file of its kind."""

    kind: str
    secret: str
    made_with: str
    record: dict[str, Any]


class _Server:
    """Redis server and the key of one set on it. Converts the errors of the driver."""

    def __init__(self, url: str, name: str, suffix: str) -> None:
        if not name or "{" in name or "}" in name:
            raise UsageError(f"invalid name of a set: {name!r}", hint="use a name without { and }")
        self._address = parse_address(url)
        self.name = name
        # All keys of a set have this hash tag, so that a Redis Cluster keeps them together.
        self.key = f"skitter:dedup:{{{name}}}:{suffix}"
        with self.errors():
            self.client = blocking_client(self._address)

    def run(self, source: bytes, *arguments: Any) -> Any:
        """Run a script by its hash. The source is sent if the server does not have it."""
        sha = hashlib.sha1(source, usedforsecurity=False).hexdigest()
        with self.errors():
            try:
                return self.client.evalsha(sha, 1, self.key, *arguments)
            except exceptions.NoScriptError:
                return self.client.eval(source.decode(), 1, self.key, *arguments)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert errors of the driver to DedupError."""
        try:
            yield
        except _DRIVER_ERRORS as error:
            where, code = str(self._address), reply_code(error)
            if code in TROUBLES:
                raise DedupError(f"the Redis at {where} {TROUBLES[code].text}", hint=TROUBLES[code].hint) from error
            if code == WRONG_TYPE or is_reply(error):
                raise DedupError(
                    f"Redis says: {error}: {where}", hint=f"was {self.key} written by this version of skitter?"
                ) from error
            reason, hint = connection_trouble(error, tls=self._address.tls)
            raise DedupError(f"the Redis cannot be reached: {where}: {reason}", hint=hint) from error


class _RedisSet(SeenSet):
    """Set whose calls are scripts. Processes that use the same name share the set and its secret."""

    is_shared = True

    def __init__(
        self, url: str, name: str, kind: str, made_with: str, clock: Callable[[], float] | None = None
    ) -> None:
        self._server = _Server(url, name, "state")
        self._clock = clock
        state = self._open(_State(kind, new_secret().hex(), made_with, self._new_record()))
        if state.kind != kind or state.made_with != made_with:
            raise UsageError(
                f"the set {name} already exists with other parameters: {state.kind} {state.made_with}".rstrip(),
                hint="open it with these parameters, or choose another name",
            )
        super().__init__(bytes.fromhex(state.secret))

    def add_ids(self, ids: Sequence[int]) -> list[bool]:
        return self._call("add", ids)

    def contains_ids(self, ids: Sequence[int]) -> list[bool]:
        return self._call("has", ids)

    def drop(self) -> None:
        """Remove the set from Redis."""
        with self._server.errors():
            # First what says that there is a set: a call that comes meanwhile finds none.
            self._server.client.delete(self._server.key)
            literal = re.sub(r"([*?\[\]^\\])", r"\\\1", self._server.key.removesuffix("state"))
            for key in self._server.client.scan_iter(match=f"{literal}*", count=1000):
                self._server.client.unlink(key)

    def close(self) -> None:
        self._server.client.close()

    def _new_record(self) -> dict[str, Any]:
        raise NotImplementedError

    def _words(self, ids: Sequence[int]) -> list[bytes]:
        """Return ids in the form that the scripts of this kind expect."""
        return [b"%d" % each for each in ids]

    def _call(self, act: str, ids: Sequence[int]) -> list[bool]:
        answers: list[bool] = []
        now = self._clock() if self._clock is not None else ""
        for first in range(0, len(ids), _BATCH):
            reply = self._server.run(_script(), act, now, *self._words(ids[first : first + _BATCH]))
            if reply is None:
                raise self._gone()
            answers += [digit == ord("1") for digit in reply[0]]
            self._heard(reply[1])
        return answers

    def _heard(self, items: int) -> None:
        """Process the number of items that a reply contains."""

    def _open(self, new: _State) -> _State:
        with self._server.errors():
            self._server.client.set(self._server.key, msgspec.msgpack.encode(new), nx=True)
        return self._state()

    def _state(self) -> _State:
        with self._server.errors():
            stored: Any = self._server.client.get(self._server.key)
        if stored is None:
            raise self._gone()
        try:
            return msgspec.msgpack.decode(stored, type=_State)
        except msgspec.MsgspecError as error:
            raise DedupError(
                f"the key was not written by this version of skitter: {self._server.key}", hint="give another name"
            ) from error

    def _gone(self) -> DedupError:
        return DedupError(
            f"the set no longer exists: {self._server.name}", hint="was the set dropped, or the Redis emptied?"
        )


class RedisExactSet(_RedisSet):
    """Set of all keys in Redis. It stores a 64-bit hash of each key."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url, name, "exact", "")

    def __len__(self) -> int:
        return int(self._state().record["count"])

    def _new_record(self) -> dict[str, Any]:
        return {"buckets": 1, "round": 1, "mean": _bucket_mean_of(self._server), "count": 0}


class RedisBloomFilter(_RedisSet):
    """Bloom filter in Redis. At an error rate of 0.0001 it needs 2.7 bytes per key.

    The error rate is the share of new keys that are reported as seen. A key that was added is never reported as new.
    Beyond its capacity the filter grows and keeps its error rate.
    """

    def __init__(self, url: str, name: str, *, capacity: int, error_rate: float = 0.0001) -> None:
        self._layout = layout(capacity, error_rate)
        self._error_rate = error_rate
        self._warned = False
        super().__init__(url, name, "bloom", f"capacity={capacity} error_rate={error_rate}")

    def __len__(self) -> int:
        return self.stats().items

    def stats(self) -> BloomStats:
        """Return the number of items and bits, the fill, and the error rate that the fill implies."""
        record = self._state().record
        return stats_of(self._layout, record["items"], record["ones"], self._error_rate)

    def _new_record(self) -> dict[str, Any]:
        return {"layout": msgspec.to_builtins(self._layout), "items": [0], "ones": [0]}

    def _words(self, ids: Sequence[int]) -> list[bytes]:
        return [each.to_bytes(8, "big", signed=True) for each in ids]

    def _heard(self, items: int) -> None:
        if not self._warned and items >= NEARLY_FULL * self._layout[0].capacity:
            self._warned = True
            warn_nearly_full(self.stats(), self._server.name)


class RedisExpiringSet(_RedisSet):
    """Set in Redis of the keys that were added in the last ``seconds``, by the clock of the server.

    Adding a key again does not restart its time. Keys are grouped in generations, each an eighth of the time long, and
    expire with their generation: a key is kept for at least ``seconds``, and at most an eighth longer. Expired keys
    are removed by later calls, so a set that is no longer used keeps its memory.
    """

    forgets = True

    def __init__(self, url: str, name: str, *, seconds: float, clock: Callable[[], float] | None = None) -> None:
        self._span = generation_seconds(seconds)
        super().__init__(url, name, "expiring", f"seconds={seconds}", clock)

    def _new_record(self) -> dict[str, Any]:
        mean = _bucket_mean_of(self._server)
        return {"span": self._span, "kept": GENERATIONS, "mean": mean, "number": 0, "generations": []}


class RedisHyperLogLog(DistinctCount):
    """Count of distinct keys in 12 KiB of Redis, with a standard error of 0.81 % (PFADD, PFCOUNT)."""

    is_shared = True

    def __init__(self, url: str, name: str) -> None:
        self._server = _Server(url, name, "count")

    def add_many(self, keys: Iterable[Key]) -> None:
        listed = [key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key for key in keys]
        with self._server.errors():
            for first in range(0, len(listed), _BATCH):
                self._server.client.pfadd(self._server.key, *listed[first : first + _BATCH])

    def count(self) -> int:
        """Return the approximate number of distinct keys that were added."""
        with self._server.errors():
            return int(self._server.client.pfcount(self._server.key))

    def merge(self, other: Self) -> None:
        """Add the keys of another count, which may be on another Redis server, to this one."""
        with other._server.errors():
            counted: Any = other._server.client.get(other._server.key)
        if counted is not None:
            self._server.run(_MERGE, counted)

    def drop(self) -> None:
        """Remove the count from Redis."""
        with self._server.errors():
            self._server.client.delete(self._server.key)

    def close(self) -> None:
        """Close connections. The data in Redis is kept."""
        self._server.client.close()


@cache
def _script() -> bytes:
    return "\n".join(map(lua, ("exact", "bloom", "expiring", "call"))).encode()


def _bucket_mean_of(server: _Server) -> int:
    with server.errors():
        try:
            found: Any = server.client.config_get(PACKED_SETTING)
        except exceptions.ResponseError:
            # Managed servers forbid CONFIG.
            found = {}
    packed = found.get(PACKED_SETTING)
    return bucket_mean(int(packed) if packed is not None else None)
