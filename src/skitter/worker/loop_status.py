"""Shared memory in which a worker notes which page is on its event loop, read by its supervisor.

A page that holds the interpreter (a runaway regular expression, a slow query) stops every thread of its process, so the
process itself cannot report which page that is. The supervisor reads it here. The loop ticks, and every step of what
reads a page is counted and names the page while it lasts: a record that stays the same, byte for byte, belongs to a
loop that stands still.
"""

from __future__ import annotations

import asyncio
import mmap
import struct
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from skitter.model.lease import Lease, Work
from skitter.observe import node_counters
from skitter.worker.shared_memory import new_shared_memory

TICK_SECONDS = 0.4
"""A loop that turns has ticked long before anybody would call it held."""
STATUS_BYTES = 1024
_RECORD = struct.Struct("=qqqqqq")
"""Numbers of eight bytes each, before the host key of the page."""
_STEP = struct.Struct("=qqqq")
"""Those of them that a step writes."""
_TICKS, _STEPS, _EPOCH, _ID, _WORK, _KEY_BYTES = range(6)
"""Epochs begin at 1; 0: no page is on the loop."""
_MAX_KEY_BYTES = STATUS_BYTES - _RECORD.size

Result = TypeVar("Result")


def new_status() -> int:
    """A file descriptor of an empty status, to be handed to one worker process, with room for its counters."""
    return new_shared_memory("skitter-loop-status", node_counters.OFFSET + node_counters.COUNTER_BYTES)


class LoopStatus:
    """One side's view of the status: the worker writes, the supervisor reads."""

    def __init__(self, descriptor: int = -1) -> None:
        """Without a descriptor the status is this process's own, and nobody reads it."""
        self._bytes = mmap.mmap(descriptor, STATUS_BYTES)
        self._numbers = memoryview(self._bytes).cast("q")
        self._steps = 0
        self._host_key = ""

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

    @types.coroutine
    def noted(self, work: Coroutine[Any, Any, Result], lease: Lease) -> Generator[Any, Any, Result]:
        """Await a coroutine, with each of its steps noted as one of this lease."""
        numbers = self._numbers
        step: Any = work.send
        argument: Any = None
        while True:
            self._enter(lease)
            try:
                awaited = step(argument)
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                numbers[_EPOCH] = 0
            try:
                argument = yield awaited
                step = work.send
            except BaseException as error:  # noqa: BLE001  whatever is thrown is the coroutine's, also its cancellation
                step, argument = work.throw, error

    def _enter(self, lease: Lease) -> None:
        if lease.host_key != self._host_key:
            self._host_key = lease.host_key
            key = lease.host_key.encode()[:_MAX_KEY_BYTES]
            self._bytes[_RECORD.size : _RECORD.size + len(key)] = key
            self._numbers[_KEY_BYTES] = len(key)
        self._steps += 1
        _STEP.pack_into(self._bytes, 8 * _STEPS, self._steps, lease.epoch, lease.id, lease.work)

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
    """The lease of the page that was on the loop, without its payload; None: there was none, or the record is torn."""
    _, _, epoch, number, work, length = _RECORD.unpack_from(record)
    try:
        key = record[_RECORD.size : _RECORD.size + length].decode()
        return Lease(work=Work(work), id=number, epoch=epoch, host_key=key) if epoch else None
    except ValueError:
        return None
