"""Search of a Redis for the value of a job that cannot be read: the type of every key, and what it holds.

1_job.lua has the legend of the keys. What scripts pack is unpacked by a script (find_damage.lua), the rest here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from skitter.dedup.hyperloglog import checked_registers
from skitter.frontier.damage_errors import SEARCH_SECONDS, SearchDeadline, check_job, checked_time, problem_of
from skitter.frontier.redis import codec
from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.jobs import scan_keys
from skitter.frontier.redis.payload_prefix import restore_prefix
from skitter.frontier.tables import public_job
from skitter.model.item import ItemKind
from skitter.model.job import JobSpec
from skitter.model.outcome import RobotsRecord
from skitter.model.request import decode
from skitter.model.worker import WorkerHeartbeat

_TYPES = {
    "string": "job spec dropped begun ended filter distinct",
    "hash": (
        "hosts pages records robots heartbeats requests addresses reasons holds answers sinks marks tally errors"
        " targets needs intakes intake_marks proxies host_proxies jars jar_domains sessions"
    ),
    "list": "q q_for staged items permits",
    "set": "seen kept generation delivered held alone permitted",
    "zset": (
        "workers due returned returned_for delayed suspects suspects_for away failed tops tops_for ready ready_for"
        " waiting parked given_up deadlines notable jar_order"
    ),
}
_TYPE_OF = {name: kind for kind, names in _TYPES.items() for name in names.split()}
_PACKED_BY_SCRIPTS = ("hosts", "pages", "requests", "holds")
_NAMED = {
    # Whose members are fields of another hash.
    **dict.fromkeys(("failed", "delayed", "suspects", "suspects_for", "away"), "requests"),
    **dict.fromkeys(("ready", "ready_for", "waiting", "given_up", "notable"), "hosts"),
    "held": "holds",
    "due": "pages",
}
_OF_ALL_RUNS = ("hosts", "pages")
_MAX_ELEMENTS = 1000
"""The most elements of one key that are checked, except for those that scripts pack."""
_NO_SPEC = msgspec.msgpack.encode(JobSpec(name="", spider=""))
_decode_robots = msgspec.msgpack.Decoder(RobotsRecord).decode
_decode_heartbeat = msgspec.msgpack.Decoder(WorkerHeartbeat).decode


async def find_damage(server: RedisServer, prefix: str, *, whole: bool = False) -> str:
    """The first value that cannot be read, as ``KEY of the hash or list: why``; empty: none was found.

    ``whole``: however long it takes, and without a look at what names what, which is a matter of consistency.
    """
    deadline = SearchDeadline(math.inf if whole else SEARCH_SECONDS)
    # The types of all first: what is of another one cannot be asked for what it holds.
    for question in (_wrong_type, _wrong_job, functools.partial(_wrong_value, whole=whole)):
        async for keys in scan_keys(server, prefix):
            for key in sorted(keys):
                if deadline.is_over():
                    return ""
                if problem := await question(server, prefix, key):
                    return f"{_shown(key)}{problem}"
    return ""


def _name_of(prefix: str, key: bytes) -> tuple[str, str]:
    """The ``RUN:`` before the name of a key, or nothing, and the name without ``:HOST`` or ``:CLASS`` behind it."""
    words = key.removeprefix(prefix.encode()).decode(errors="replace").split(":")
    return (f"{words[0]}:", words[1]) if words[0].isdigit() and len(words) > 1 else ("", words[0])


async def _wrong_type(server: RedisServer, prefix: str, key: bytes) -> str:
    expected = _TYPE_OF.get(_name_of(prefix, key)[1])
    kind = (await server.command("TYPE", key)).decode()
    return "" if expected is None or kind in (expected, "none") else f": a {kind}, expected a {expected}"


async def _wrong_job(server: RedisServer, prefix: str, key: bytes) -> str:
    if key != f"{prefix}job".encode():
        return ""
    record, spec = await server.command("MGET", key, prefix + "spec")
    if spec is None and prefix.endswith(":0}:"):
        return f": there is no {prefix}spec"
    # Of the shards of a job only the lead has one.
    spec = _NO_SPEC if spec is None else spec
    if problem := problem_of(lambda: msgspec.msgpack.decode(spec, type=JobSpec)):
        return f" is intact, but {prefix}spec: {problem}"
    if problem := problem_of(lambda: _check_job(record, spec)):
        return f": {problem}"
    return await _unpacked(server, prefix, key, "job")


def _check_job(record: bytes, spec: bytes) -> None:
    codec.shards_of(record)
    check_job(public_job(codec.job_row(record, codec.read_spec(spec))))
    msgspec.msgpack.decode(record, type=codec.ScriptsRecord)


async def _wrong_value(server: RedisServer, prefix: str, key: bytes, *, whole: bool) -> str:
    run, name = _name_of(prefix, key)
    kind = _TYPE_OF.get(name, "")
    if name in _PACKED_BY_SCRIPTS:
        return await _unpacked(server, prefix, key, name, whole=whole)
    check, named = _CHECKS.get(name, _anything), None if whole else _NAMED.get(name)
    found = await _elements(server, key, kind) if name in _CHECKS or named else []
    for field, value in found:
        if problem := problem_of(lambda: check(field, value)):  # noqa: B023  called at once
            return f" at {_shown(field)}: {problem}"
    if named and found:
        hash_key = prefix + (named if named in _OF_ALL_RUNS else run + named)
        members = [field or value for field, value in found]
        for member, record in zip(members, await server.command("HMGET", hash_key, *members), strict=True):
            if record is None:
                return f": it names {_shown(member)}, which is not a field of {hash_key}"
    return ""


def _shown(name: bytes) -> str:
    return name.decode(errors="backslashreplace")


async def _unpacked(server: RedisServer, prefix: str, key: bytes, name: str, *, whole: bool = False) -> str:
    cursor, deadline = b"0", SearchDeadline(math.inf if whole else SEARCH_SECONDS)
    while not deadline.is_over():
        cursor, *found = await server.run("find_damage", prefix + "job", "", key, name, cursor)
        if found:
            return f" at {_shown(found[0])}: {found[1].decode(errors='replace')}"
        if cursor == b"0":
            break
    return ""


async def _elements(server: RedisServer, key: bytes, kind: str) -> Sequence[tuple[bytes, bytes]]:
    """(field, value) of a hash, (member, score) of a sorted set, (index, value) of a list, ("", value) of others."""
    if kind == "string":
        return [(b"", await server.command("GET", key))]
    if kind == "list":
        return [(b"%d" % n, value) for n, value in enumerate(await server.command("LRANGE", key, 0, _MAX_ELEMENTS - 1))]
    if kind == "set":
        return [(b"", value) for value in (await server.command("SSCAN", key, 0, "COUNT", _MAX_ELEMENTS))[1]]
    flat = (await server.command("HSCAN" if kind == "hash" else "ZSCAN", key, 0, "COUNT", _MAX_ELEMENTS))[1]
    return list(zip(flat[::2], flat[1::2], strict=True))


def _anything(_: bytes, element: bytes) -> object:
    return element


def _request(_: bytes, element: bytes) -> object:
    # 5 bytes sequence, 8 bytes id; without its host a slim payload is still whole.
    return decode(restore_prefix(element[13:], b"http://a"))


_CHECKS: dict[str, Callable[[bytes, bytes], Any]] = {
    "records": lambda _, value: codec.decode_page_record(value),
    "due": lambda _, due_at: checked_time(float(due_at)),
    "distinct": lambda _, value: checked_registers(value),
    "begun": lambda _, value: msgspec.msgpack.decode(value, type=codec.BegunRecord),
    "robots": lambda host, value: (host.decode(), _decode_robots(value)),
    "heartbeats": lambda worker, value: (worker.decode(), _decode_heartbeat(value)),
    "sinks": lambda target, value: (target.decode(), codec.decode_sink(value)),
    "intakes": lambda source, value: (source.decode(), codec.decode_intake(value)),
    "proxies": lambda proxy, value: (proxy.decode(), codec.decode_proxy(value)),
    "host_proxies": lambda host, value: (host.decode(), codec.decode_host_proxies(value)),
    "jars": lambda name, value: codec.read_jar(name.decode().partition(" ")[0], name.decode().partition(" ")[2], value),
    "sessions": lambda name, value: (name.decode(), codec.decode_session(value)),
    "jar_order": lambda name, rank: (name.decode(), int(float(rank))),
    "jar_domains": lambda name, value: (name.decode(), [int(word) for word in value.split(b" ", 1)]),
    "reasons": lambda host, value: (host.decode(), msgspec.msgpack.decode(value, type=tuple[str, str])),
    "permits": lambda _, value: value.decode(),
    "permitted": lambda _, value: value.decode(),
    "tally": lambda name, value: (name.decode(), int(value)),
    "errors": lambda name, value: (name.decode(), int(value)),
    "addresses": lambda name, value: (name.decode(), int(value)),
    "workers": lambda worker, heard_at: (worker.decode(), checked_time(float(heard_at))),
    "waiting": lambda host, _: host.decode(),
    "given_up": lambda host, _: host.decode(),
    "ready": lambda host, _: host.decode(),
    "ready_for": lambda host, _: host.decode(),
    "needs": lambda name, value: (name.decode(), int(value)),
    "notable": lambda host, _: host.decode(),
    "tops": lambda priority, _: float(priority),
    "tops_for": lambda priority, _: float(priority),
    "q": _request,
    "q_for": _request,
    "items": lambda _, element: ItemKind(element[12]),
    "staged": lambda _, element: ItemKind(element[0]),
}
