"""The rules that a worker keeps at hand: bounded, and always those of the leases it has just been given."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from skitter.model.lease import Lease, Work
from skitter.model.outcome import RobotsRecord
from skitter.policy.robots import Robots
from skitter.settings import Settings
from skitter.worker import robots_gate
from skitter.worker.robots_gate import RobotsGate


class Source:
    """Every host has as many rules as its number says, and forbids /0."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def robots(self, keys: list[str]) -> dict[str, RobotsRecord]:
        self.asked += keys
        return {key: RobotsRecord(self._text(key), version=1) for key in keys}

    @staticmethod
    def _text(key: str) -> bytes:
        rules = range(int(key.rpartition("h")[2]))
        return ("User-agent: *\n" + "".join(f"Disallow: /{rule}\n" for rule in rules)).encode()


def lease(number: int) -> Lease:
    return Lease(work=Work.PAGE, id=number, epoch=number, host_key=f"http://h{number}", robots_version=1)


async def test_rules_are_bounded_and_those_of_the_leases_are_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_gate, "_MAX_RULES", 20)
    source = Source()
    keeper = RobotsGate(source=source, fetcher=Any, settings=Settings())  # type: ignore[arg-type]
    for numbers in ([5, 6], [7, 5], [30, 40], [5], [6]):
        leases = [lease(number) for number in numbers]
        await keeper.load(leases)
        for held in leases:
            rule = keeper.rule_against(held, f"{held.host_key}/0")
            assert rule is not None
            assert rule.line == 2
    assert source.asked == [f"http://h{number}" for number in (5, 6, 7, 30, 40, 5, 6)]
    assert keeper._size == 11


async def test_a_few_huge_files_do_not_push_out_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_gate, "_MAX_RULES", 100)
    source = Source()
    keeper = RobotsGate(source=source, fetcher=Any, settings=Settings())  # type: ignore[arg-type]
    for numbers in ([3], [4], [90], [91], [92], [3, 4]):
        await keeper.load([lease(number) for number in numbers])
    assert source.asked == [f"http://h{number}" for number in (3, 4, 90, 91, 92)]


async def test_a_large_file_is_parsed_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    parse = robots_gate.Robots.parse

    def noting(text: bytes, agent: str) -> Robots:
        threads.append(threading.current_thread().name)
        return parse(text, agent)

    monkeypatch.setattr(robots_gate.Robots, "parse", noting)
    keeper = RobotsGate(source=Source(), fetcher=Any, settings=Settings())  # type: ignore[arg-type]
    await keeper.load([lease(3)])
    await keeper.load([lease(3_000)])
    here = threading.current_thread().name
    assert [thread == here for thread in threads] == [True, False]
    assert keeper.rule_against(lease(3_000), "http://h3000/0") is not None
