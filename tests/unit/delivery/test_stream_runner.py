"""Items for a program: confirmed when the next one is asked for, one batch at a time, and never further."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from skitter.delivery.item_buffer import ItemBuffer, Waiting
from skitter.delivery.stream_runner import BATCH, StreamRunner
from skitter.errors import SinkError
from skitter.extract.items import encode_item
from skitter.extract.rejected_items import encode_reject
from skitter.model.item import Item, ItemKind
from skitter.model.job import SinkProgress
from skitter.sinks.contract import Rejected


class FakeOutbox:
    """An outbox with one target."""

    def __init__(self, records: int) -> None:
        self.stored = [Item(n, n, 0, encode_item({"n": n})) for n in range(1, records + 1)]
        self.progress = SinkProgress()
        self.owner: str | None = None
        self.words: list[SinkProgress] = []

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        if self.owner not in (None, owner):
            return None
        self.owner = owner
        return self.progress

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        if self.owner != owner:
            return None
        return [item for item in self.stored if item.position > self.progress.position][:limit]

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        if self.owner != owner:
            return False
        self.progress = progress
        self.words.append(progress)
        return True

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        self.owner = None


class FakeRejects:
    def __init__(self) -> None:
        self.lines: list[Rejected] = []

    def add(self, rejected: Sequence[Rejected]) -> None:
        self.lines += rejected


def make(outbox: FakeOutbox, owner: str = "me") -> tuple[StreamRunner, ItemBuffer, FakeRejects]:
    buffer, rejects = ItemBuffer(), FakeRejects()
    return StreamRunner(outbox, owner, buffer, rejects), buffer, rejects


def take(buffer: ItemBuffer) -> int:
    buffer.confirm()
    found = buffer.take()
    assert isinstance(found, dict)
    number: int = found["n"]
    return number


async def test_what_is_in_hand_is_not_recorded_and_what_was_before_it_is() -> None:
    outbox = FakeOutbox(5)
    runner, buffer, _ = make(outbox)
    await runner.open(anew=False)
    assert await runner.deliver() == 5
    assert [take(buffer) for _ in range(3)] == [1, 2, 3]
    await runner.close()
    assert (outbox.progress.position, outbox.owner) == (2, None)
    again, buffer, _ = make(outbox)
    await again.open(anew=False)
    await again.deliver()
    assert take(buffer) == 3
    buffer.confirm()
    await again.close()
    await again.close()
    assert outbox.progress.position == 3


async def test_the_next_batch_is_read_when_the_last_is_through() -> None:
    outbox = FakeOutbox(BATCH + 1)
    runner, buffer, _ = make(outbox)
    await runner.open(anew=False)
    assert await runner.deliver() == BATCH
    assert await runner.deliver() == 0, "nothing ahead of the program"
    for _ in range(BATCH):
        take(buffer)
    assert await runner.deliver() == 0, "the last one is in hand"
    waiting = buffer.take()
    assert isinstance(waiting, Waiting)
    buffer.confirm()
    assert await runner.deliver() == 1
    assert waiting.changed.done()
    assert take(buffer) == BATCH + 1


async def test_the_end_is_complete_only_if_the_program_has_taken_everything() -> None:
    for confirms in (False, True):
        outbox = FakeOutbox(1)
        runner, buffer, _ = make(outbox)
        await runner.open(anew=False)
        await runner.deliver()
        take(buffer)
        if confirms:
            buffer.confirm()
        else:
            buffer.leave()
        await runner.finish(complete=True, hurry=asyncio.Event())
        assert (outbox.progress.position, outbox.progress.closed) == ((1, True) if confirms else (0, False))


async def test_a_hurry_does_not_wait_for_the_program() -> None:
    outbox = FakeOutbox(3)
    runner, buffer, _ = make(outbox)
    await runner.open(anew=False)
    hurry = asyncio.Event()
    finishing = asyncio.create_task(runner.finish(complete=True, hurry=hurry))
    if isinstance(waiting := buffer.take(), Waiting):
        await asyncio.wrap_future(waiting.changed)
    assert take(buffer) == 1
    hurry.set()
    runner.nudged.set()
    await finishing
    assert (outbox.progress.position, outbox.progress.closed) == (0, False)


async def test_what_could_not_be_stored_is_written_down_before_its_position_is_passed() -> None:
    outbox = FakeOutbox(2)
    reject = encode_reject({"n": 3}, "too large", "https://a.example/")
    outbox.stored.append(Item(3, 3, 0, reject, ItemKind.REJECT))
    runner, buffer, rejects = make(outbox)
    await runner.open(anew=False)
    await runner.deliver()
    assert [take(buffer), take(buffer)] == [1, 2]
    buffer.confirm()
    await runner.finish(complete=True, hurry=asyncio.Event())
    assert [line.reason for line in rejects.lines] == ["too large"]
    assert (outbox.progress.position, runner.rejected) == (3, 1)


async def test_a_store_that_forgot_its_newest_words_gives_nothing_twice() -> None:
    outbox = FakeOutbox(4)
    runner, buffer, _ = make(outbox)
    await runner.open(anew=False)
    await runner.deliver()
    assert [take(buffer) for _ in range(4)] == [1, 2, 3, 4]
    buffer.confirm()
    await runner.deliver()
    assert outbox.progress.position == 4
    # A replica took over: it knows of two, and a page was fetched again, with others before it.
    outbox.progress = SinkProgress(2)
    outbox.stored[2:] = [Item(3, 9, 0, encode_item({"n": 9})), Item(4, 3, 0, encode_item({"n": 3}))]
    assert await runner.deliver() == 2
    assert take(buffer) == 9
    buffer.confirm()
    assert await runner.deliver() == 0
    assert outbox.progress.position == 4


async def test_another_owner_is_an_error() -> None:
    outbox = FakeOutbox(1)
    outbox.owner = "other"
    runner, _, _ = make(outbox)
    with pytest.raises(SinkError, match="another program is reading the items"):
        await runner.open(anew=False)
    outbox.owner = None
    await runner.open(anew=False)
    outbox.owner = "other"
    with pytest.raises(SinkError, match="has taken over"):
        await runner.deliver()
