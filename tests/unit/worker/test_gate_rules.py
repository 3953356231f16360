"""The rules that a worker keeps at hand: bounded, and always those of the leases it has just been given."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.model.lease import Lease, Work
from skitter.model.outcome import RobotsRecord
from skitter.settings import Settings
from skitter.worker import gate
from skitter.worker.gate import Gatekeeper


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
    monkeypatch.setattr(gate, "_MAX_RULES", 20)
    source = Source()
    keeper = Gatekeeper(source=source, fetcher=Any, settings=Settings())  # type: ignore[arg-type]
    for numbers in ([5, 6], [7, 5], [30, 40], [5], [6]):
        leases = [lease(number) for number in numbers]
        await keeper.load(leases)
        for held in leases:
            rule = keeper.rule_against(held, f"{held.host_key}/0")
            assert rule is not None
            assert rule.line == 2
    assert source.asked == [f"http://h{number}" for number in (5, 6, 7, 30, 40, 5, 6)]
    assert keeper._size == 11
