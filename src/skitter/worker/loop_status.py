"""Shared memory in which a worker notes what its event loop is doing, read by its supervisor.

A page that holds the interpreter (a runaway regular expression, a slow query) stops every thread of its process, so the
process itself cannot report which page that is. The supervisor reads it here. The loop ticks, and every step of a
lease's task is counted and names its lease while it lasts: a record that stays the same, byte for byte, belongs to a
loop that stands still.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
from collections.abc import Coroutine
from typing import Any

from skitter.model.lease import Lease, Work
from skitter.worker.shared_memory import new_shared_memory

TICK_SECONDS = 0.4
"""A loop that turns has ticked long before anybody would call it held."""
STATUS_BYTES = 1024
_TICKS, _STEPS, _EPOCH = range(3)
"""Numbers of eight bytes. Epochs begin at 1; 0: no step of a lease is under way."""
_LEASE = struct.Struct("=qqHH")
"""Epoch, id, work, length of the host key, which follows."""
_LEASE_AT = 8 * _EPOCH


def new_status() -> int:
    """A file descriptor of an empty status, to be handed to one worker process."""
    return new_shared_memory("skitter-loop-status", STATUS_BYTES)


class LoopStatus:
    """One side's view of the status: the worker writes, the supervisor reads."""

    def __init__(self, descriptor: int = -1) -> None:
        """Without a descriptor the status is this process's own, and nobody reads it."""
        self._bytes = mmap.mmap(descriptor, STATUS_BYTES)
        self._numbers = memoryview(self._bytes).cast("q")

    # ---- the worker's side

    async def tick(self) -> None:
        """Run in the loop, until cancelled."""
        try:
            while True:
                self._numbers[_TICKS] += 1
                await asyncio.sleep(TICK_SECONDS)
        finally:
            # What comes after the work (closing connections, say) is not measured.
            self._numbers[_TICKS] = 0

    def noted(self, work: Coroutine[Any, Any, Any], lease: Lease) -> Coroutine[Any, Any, Any]:
        """The same coroutine, with each of its steps noted as one of this lease."""
        return _NotedCoroutine(work, self._bytes, self._numbers, _packed(lease))

    # ---- the supervisor's side

    def read(self) -> bytes:
        """The whole record, to be compared with a later one."""
        return self._bytes[:]

    def close(self) -> None:
        self._numbers.release()
        self._bytes.close()


def is_ticking(record: bytes) -> bool:
    """Whether the worker's loop has begun and not ended its work."""
    return any(record[:8])


def lease_of(record: bytes) -> Lease | None:
    """The lease whose step was under way, without its payload; None: there was none, or the record is torn."""
    epoch, number, work, length = _LEASE.unpack_from(record, _LEASE_AT)
    try:
        start = _LEASE_AT + _LEASE.size
        key = record[start : start + length].decode()
        return Lease(work=Work(work), id=number, epoch=epoch, host_key=key) if epoch else None
    except ValueError:
        return None


def _packed(lease: Lease) -> bytes:
    key = lease.host_key.encode()[: STATUS_BYTES - _LEASE_AT - _LEASE.size]
    return _LEASE.pack(lease.epoch, lease.id, lease.work, len(key)) + key


class _NotedCoroutine(Coroutine[Any, Any, Any]):
    """Passes every step on, and notes the lease while it lasts."""

    __slots__ = ("_bytes", "_end", "_numbers", "_packed", "_send", "_work")

    def __init__(
        self, work: Coroutine[Any, Any, Any], shared: mmap.mmap, numbers: memoryview[int], packed: bytes
    ) -> None:
        self._work = work
        self._send = work.send
        self._bytes = shared
        self._numbers = numbers
        self._packed = packed
        self._end = _LEASE_AT + len(packed)

    def send(self, value: Any) -> Any:
        self._begin()
        try:
            return self._send(value)
        finally:
            self._numbers[_EPOCH] = 0

    def throw(self, *error: Any) -> Any:
        self._begin()
        try:
            return self._work.throw(*error)
        finally:
            self._numbers[_EPOCH] = 0

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Any:
        return self._work.__await__()

    def _begin(self) -> None:
        self._numbers[_STEPS] += 1
        self._bytes[_LEASE_AT : self._end] = self._packed
