"""When a worker hands over what it has done."""

from __future__ import annotations

import asyncio

import pytest

from skitter.worker import batching
from skitter.worker.batching import MOST_OUTCOMES, PLENTY, SOON_SECONDS, Batching


class Slots:
    """A worker's slots, as Batching sees them."""

    def __init__(self, under_way: int) -> None:
        self.waiting, self.under_way = 0, under_way
        self.handed_over: list[int] = []
        self.batching = Batching(lambda: (self.waiting, self.under_way), self._hand_over)
        self._asked = asyncio.Event()

    def end(self, count: int = 1) -> None:
        for _ in range(count):
            self.waiting += 1
            self.under_way -= 1
            self.batching.look()

    def _hand_over(self) -> None:
        self.handed_over.append(self.waiting)
        self._asked.set()

    def take(self) -> None:
        self.batching.handed_over()
        self.waiting = 0

    async def asked(self) -> None:
        async with asyncio.timeout(60):
            await self._asked.wait()
        self._asked.clear()


async def a_round() -> None:
    await asyncio.sleep(0)


@pytest.fixture
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "SOON_SECONDS", 60.0)


@pytest.mark.usefixtures("no_hurry")
async def test_as_much_as_is_under_way_is_enough_when_no_more_comes() -> None:
    slots = Slots(10)
    slots.end(4)
    await a_round()
    assert slots.handed_over == []
    slots.end()
    assert slots.handed_over == [], "one round of the loop may bring more"
    await a_round()
    assert slots.handed_over == [5]


@pytest.mark.usefixtures("no_hurry")
async def test_what_has_arrived_is_read_first_but_some_is_left_to_work_on() -> None:
    slots = Slots(16)
    slots.end(8)
    for _ in range(3):
        slots.end()
        await a_round()
        assert slots.handed_over == []
    slots.end()
    assert slots.handed_over == [12]
    assert slots.waiting == PLENTY * slots.under_way


@pytest.mark.usefixtures("no_hurry")
async def test_so_many_are_enough() -> None:
    slots = Slots(1000)
    slots.end(MOST_OUTCOMES - 1)
    assert slots.handed_over == []
    slots.end()
    assert slots.handed_over == [MOST_OUTCOMES]


async def test_a_few_are_handed_over_soon() -> None:
    slots = Slots(50)
    began = asyncio.get_running_loop().time()
    slots.end()
    await slots.asked()
    assert slots.handed_over == [1]
    assert asyncio.get_running_loop().time() - began >= SOON_SECONDS * 0.9


async def test_whoever_could_not_take_them_is_asked_again() -> None:
    slots = Slots(50)
    slots.end()
    await slots.asked()
    slots.batching.look()
    await slots.asked()
    assert slots.handed_over == [1, 1]


async def test_what_was_handed_over_is_not_asked_for_again() -> None:
    slots = Slots(50)
    slots.end()
    slots.take()
    await asyncio.sleep(2 * SOON_SECONDS)
    assert slots.handed_over == []


@pytest.mark.usefixtures("no_hurry")
async def test_outcomes_that_come_after_a_handover_in_the_same_round_are_not_forgotten() -> None:
    slots = Slots(20)
    for _ in range(2):
        slots.end(10)
        # For another reason, while it is about to look again.
        slots.take()
        slots.under_way = 2
        slots.end()
        await slots.asked()
        assert slots.handed_over[-1] == 1
        slots.take()
        slots.under_way = 20


async def test_nothing_is_not_handed_over() -> None:
    slots = Slots(0)
    slots.batching.look()
    await a_round()
    assert slots.handed_over == []
