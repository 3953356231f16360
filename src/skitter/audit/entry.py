"""Entries of the trail: bounded, without secrets, each sealed by a hash that covers the one before it."""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple

import msgspec

from skitter.model.audit import MAX_ACTOR_CHARS, Actor
from skitter.model.secrets import MASK, is_credential_header, without_secrets

FORMAT = 1
GENESIS = "0" * 64
"""What the first entry follows; the head of a trail without entries."""
MAX_ENTRY_BYTES = 8_192
MAX_TEXT_CHARS = 300
MAX_MEMBERS = 64
"""Of a dict or a list; what is left out is counted."""
MAX_NESTING = 6
DONE = "done"
PRUNE = "audit.prune"
"""The action of an entry that says up to where older ones were removed: it is what the oldest one left follows."""
_SECRET_NAME = re.compile(r"passw(or)?d|pwd|secret|token|api[_-]?key|access[_-]?key|credential|authori[sz]ation|cookie")


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry is to say."""

    actor: Actor
    action: str
    job: str = ""
    details: dict[str, Any] = {}
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    outcome: str = ""
    """Empty: intended; another entry, with ``of``, tells how it ended."""
    of: int = 0


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry as it is stored, as JSON; the hash is that of these bytes."""

    format: int
    seq: int
    previous: str
    """Hash of the entry before."""
    at: float
    actor: str
    action: str
    claim: str = ""
    job: str = ""
    details: dict[str, Any] = {}
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    outcome: str = ""
    of: int = 0
    """The number of the entry whose outcome this is."""


class Stored(NamedTuple):
    """An entry as a store has it. What somebody has changed may be anything."""

    seq: int
    body: bytes
    hash: str


_decode = msgspec.json.Decoder(Entry).decode
_encode = msgspec.json.Encoder().encode


def sealed(draft: Draft, last: Stored | None, now: float) -> Stored:
    """Return the entry that follows the last one. Its time is never before that one's."""
    before = read_entry(last) if last is not None else None
    entry = Entry(
        format=FORMAT,
        seq=1 if last is None else last.seq + 1,
        previous=GENESIS if last is None else last.hash,
        at=round(max(now, before.at if before is not None else 0.0), 6),
        actor=_clipped(draft.actor.name, MAX_ACTOR_CHARS),
        claim=_clipped(draft.actor.claim, MAX_ACTOR_CHARS),
        action=draft.action,
        job=draft.job,
        details=plain(draft.details),
        before=plain(draft.before),
        after=plain(draft.after),
        outcome=_clipped(without_secrets(draft.outcome), MAX_TEXT_CHARS),
        of=draft.of,
    )
    body = _encode(entry)
    if len(body) > MAX_ENTRY_BYTES:
        # Who, what, when and how it ended are always there.
        short = {name: _left_out(getattr(entry, name)) for name in ("details", "before", "after")}
        body = _encode(msgspec.structs.replace(entry, **short))
    return Stored(entry.seq, body, hash_of(body))


def hash_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def read_entry(stored: Stored) -> Entry | None:
    """Return the entry; None: it is none."""
    try:
        return _decode(stored.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, RecursionError):
        return None


def line_of(stored: Stored) -> bytes:
    """Return an entry as a line of an export: its bytes, with the hash as the last member."""
    return stored.body[:-1] + b',"hash":"' + stored.hash.encode() + b'"}'


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as they may be stored: JSON, bounded, and without secrets."""
    return {name: _masked(name, value, MAX_NESTING) for name, value in values.items()}


def _masked(name: str, value: Any, depth: int, *, is_header: bool = False) -> Any:
    if value is None or isinstance(value, bool | int):
        return value if not isinstance(value, int) or abs(value) < 2**63 else str(value)[:MAX_TEXT_CHARS]
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)  # noqa: PLR0124  NaN
    if _SECRET_NAME.search(name.lower()) or (is_header and is_credential_header(name)):
        return MASK
    if isinstance(value, str):
        return _clipped(without_secrets(value), MAX_TEXT_CHARS)
    if not depth:
        return "…"
    if isinstance(value, dict):
        inside_headers = name.lower().endswith("headers")
        some = {
            _clipped(without_secrets(str(key)), MAX_TEXT_CHARS): _masked(
                str(key), member, depth - 1, is_header=inside_headers
            )
            for key, member in list(value.items())[:MAX_MEMBERS]
        }
        return some | ({"…": len(value) - MAX_MEMBERS} if len(value) > MAX_MEMBERS else {})
    if isinstance(value, list | tuple | set | frozenset):
        members = [_masked(name, member, depth - 1) for member in list(value)[:MAX_MEMBERS]]
        return members + ([f"… and {len(value) - MAX_MEMBERS} more"] if len(value) > MAX_MEMBERS else [])
    return _clipped(without_secrets(str(value)), MAX_TEXT_CHARS)


def _clipped(text: str, limit: int) -> str:
    # What JSON cannot say is escaped: a lone surrogate of a command line.
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _left_out(values: dict[str, Any]) -> dict[str, Any]:
    short = {name: value for name, value in values.items() if not isinstance(value, dict | list)}
    fits = dict(list(short.items())[:8])
    return fits if len(fits) == len(values) else fits | {"…": len(values) - len(fits)}
