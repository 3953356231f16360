"""How rows and leases are packed: columns for what an index or a filter needs, the rest as one msgpack value.

That costs half as much to bind and to read as a column each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from skitter.frontier.tables import LeaseRow, RequestState, Row
from skitter.model.lease import Work

SEQ_BITS = 40
"""Of requests.number; the job's number is above them."""
SEQ_MASK = (1 << SEQ_BITS) - 1
NEEDY_PLACE = len(RequestState)
"""The requests.place of a queued request that has a need."""

_encode = msgspec.msgpack.encode
_encode_list = msgspec.json.Encoder().encode


def encode(value: object) -> bytearray:
    """As msgpack. Not bytes: sqlite3 looks for an adapter of all but ints, floats, texts and bytearrays, 0.4 us each.

    Also of a bool and of the member of an enum: in rows of requests and leases, ``+`` makes an int of them.
    """
    return bytearray(_encode(value))


def listed(values: Sequence[int | str]) -> str:
    """For json_each."""
    return _encode_list(values).decode()


class _LeaseRecord(msgspec.Struct, array_like=True, gc=False):
    """holds.record: what of a lease is in no column, its request's row included."""

    host_key: str
    leased_at: float
    staged: bool
    seq: int
    priority: int
    not_before: float
    error_class: str
    history: bytes
    address: str = ""
    need: str = ""
    proxy: str = ""
    session: str = ""


_STATES = [*RequestState, RequestState.QUEUED]
_WORKS = list(Work)
_decode_history = msgspec.msgpack.Decoder(tuple[int, int, int, int, int, float, float, int, str]).decode
_decode_lease = msgspec.msgpack.Decoder(_LeaseRecord).decode


def history_of(row: Row) -> bytearray:
    return encode(
        (
            row.attempts,
            row.losses,
            row.losses_alone,
            row.blocks,
            row.proxy_failures,
            row.added_at,
            row.ended_at,
            row.status,
            row.error,
        )
    )


def row_of(
    number: int,
    request_id: int,
    host_key: str,
    priority: int,
    payload: bytes,
    state: int,
    not_before: float,
    error_class: str,
    history: bytes,
    need: str = "",
) -> Row:
    attempts, losses, losses_alone, blocks, proxy_failures, added_at, ended_at, status, error = _decode_history(history)
    return Row(
        number & SEQ_MASK,
        request_id,
        host_key,
        priority,
        payload,
        _STATES[state],
        attempts,
        losses,
        losses_alone,
        blocks,
        not_before,
        added_at,
        ended_at,
        status,
        error_class,
        error,
        need,
        proxy_failures,
    )


def place_of(row: Row) -> int:
    """The requests.place of a request that has a need."""
    return NEEDY_PLACE if row.state is RequestState.QUEUED else +row.state


def lease_record(lease: LeaseRow) -> bytearray:
    row = lease.row
    if row is None:
        need = ""
        told: tuple[Any, ...] = (lease.host_key, lease.leased_at, lease.staged, 0, 0, 0.0, "", b"")
    else:
        need = row.need
        told = (
            lease.host_key,
            lease.leased_at,
            lease.staged,
            row.seq,
            row.priority,
            row.not_before,
            row.error_class,
            history_of(row),
        )
    # Most leases are counted under no address and no proxy, have no session, and most requests have no need.
    if lease.session or lease.proxy:
        told += (lease.address, need, lease.proxy, lease.session)
    elif need or lease.address:
        told += (lease.address, need) if need else (lease.address,)
    return encode(told)


def lease_of(
    work: int, request_id: int, epoch: int, worker: str, deadline: float, alone: int, record: bytes
) -> LeaseRow:
    r = _decode_lease(record)
    row = None
    if r.history:
        host_key, leased = r.host_key, RequestState.LEASED
        row = row_of(
            r.seq, request_id, host_key, r.priority, b"", leased, r.not_before, r.error_class, r.history, r.need
        )
    return LeaseRow(
        _WORKS[work],
        request_id,
        epoch,
        worker,
        r.host_key,
        r.leased_at,
        deadline,
        bool(alone),
        r.staged,
        row,
        r.address,
        r.proxy,
        r.session,
    )
