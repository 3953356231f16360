"""What the calls of a worker carry: tokens of their own, and the mark of the permits that it knows."""

from __future__ import annotations

import msgspec
import pytest

from skitter.model.job import State
from skitter.model.lease import Grant
from skitter.worker.call_state import CallState

GRANT = Grant(leases=[], state=State.RUNNING, run=2, ask_again_seconds=1.0, permits=3, store="one")


def mark_of(state: CallState) -> tuple[int, int]:
    call = state.next()
    return call.run, call.permits


def test_no_two_calls_have_the_same_token_not_even_those_of_two_lives_of_a_worker() -> None:
    states = [CallState(), CallState()]
    assert len({state.next().token for state in states for _ in range(10)}) == 20


def test_a_call_says_the_permits_that_the_last_grant_told() -> None:
    state = CallState()
    assert mark_of(state) == (0, 0)
    state.learn(GRANT)
    assert mark_of(state) == (2, 3)


def test_after_another_life_of_the_store_permits_are_counted_from_the_start() -> None:
    state = CallState()
    state.learn(GRANT)
    state.learn(msgspec.structs.replace(GRANT, store="two"))
    assert mark_of(state) == (0, 0)
    state.learn(msgspec.structs.replace(GRANT, store="two"))
    assert mark_of(state) == (2, 3)


def test_a_call_says_how_many_leases_the_worker_works_on_at_a_time() -> None:
    assert CallState(16).next().slots == 16


def test_a_call_says_what_the_worker_can_serve_at_the_moment() -> None:
    state = CallState()
    assert state.next().needs == ()
    state.needs = ["session", "browser", "session"]
    assert state.next().needs == state.needs == ("browser", "session")
    state.needs = ()
    assert state.next().needs == ()


@pytest.mark.parametrize("need", ["", "a b", "a:b", "x" * 65])
def test_what_is_no_name_of_a_need_cannot_be_served(need: str) -> None:
    with pytest.raises(ValueError, match="invalid name of a need"):
        CallState().needs = [need]
