"""A shard's status comes with its answers, and an answer without one is never taken for one with."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.frontier.redis.shards.shard import Shard, ShardStatus

FIELDS: list[Any] = [
    *(3, 1, b"running", 5, 2, 7, 2, 0, -1, 0, 9, 4, 1, 100, 0, b"4", 0, None, 0, 0, b"0.5", 0, b"secret"),
    *(b"browser:-3 session:9007199254740992", 1, b"7:0a1b2c3d4e.5f60718293", 12),
]


class AnsweringServer:
    """A server whose scripts answer what the test says."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def run(self, *_: Any) -> Any:
        return self.answer


def shard_that_is_answered(answer: Any) -> Shard:
    return Shard(AnsweringServer(answer), "job", None, "prefix:", 1)  # type: ignore[arg-type]


async def test_the_status_of_an_answer_is_noted_and_taken_off() -> None:
    shard = shard_that_is_answered([b"status", [b"some", b"answer"], FIELDS])
    assert await shard.ask("peek") == [b"some", b"answer"]
    assert (shard.status.version, shard.status.state, shard.status.due_seconds) == (3, "running", 0.5)
    assert (shard.status.intakes, shard.status.is_idle) == (1, False)
    assert (shard.status.reigns, shard.status.foreign) == ("7:0a1b2c3d4e.5f60718293", 12)
    assert len(FIELDS) == len(ShardStatus.__struct_fields__)


async def test_the_priority_that_is_ready_is_that_of_what_the_worker_serves() -> None:
    shard = shard_that_is_answered([b"status", b"", FIELDS])
    await shard.ask("peek")
    assert shard.status.top_for([]) == shard.status.top_for(["browser", "other"]) == 4
    assert shard.status.top_for(["browser", "session"]) == 2**53
    shard = shard_that_is_answered([b"status", b"", [*FIELDS[:15], None, *FIELDS[16:]]])
    await shard.ask("peek")
    assert shard.status.top_for([]) is None
    assert shard.status.top_for(["browser"]) == -3


@pytest.mark.parametrize("answer", [[b"shards", FIELDS], [1, FIELDS], [b"x"], [], 7, b"status"])
async def test_an_answer_without_a_status_stays_as_it_is_whatever_its_shape(answer: Any) -> None:
    shard = shard_that_is_answered(answer)
    assert await shard.ask("peek") == answer
    assert not shard.has_status
