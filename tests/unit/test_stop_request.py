"""A request to stop reaches whatever is at work: at once, or as soon as something can be stopped."""

from __future__ import annotations

import pytest

from skitter.stop_request import StopRequest


@pytest.fixture
def calls() -> list[str]:
    return []


def set_handlers(request: StopRequest, calls: list[str], name: str) -> None:
    request.set_handlers(lambda: calls.append(f"stop {name}"), lambda: calls.append(f"kill {name}"))


def test_stopping_twice_stops_once_and_a_kill_is_passed_on(calls) -> None:
    request = StopRequest()
    set_handlers(request, calls, "work")
    request.stop()
    request.stop()
    assert (calls, request.requested, request.forced) == (["stop work"], True, False)
    request.kill()
    assert (calls, request.forced) == (["stop work", "kill work"], True)


def test_a_request_that_came_early_reaches_what_is_aimed_at_later(calls) -> None:
    request = StopRequest()
    request.stop()
    set_handlers(request, calls, "work")
    request.kill()
    set_handlers(request, calls, "delivery")
    assert calls == ["stop work", "kill work", "stop delivery", "kill delivery"]


def test_a_request_that_is_held_waits_for_the_next_handlers(calls) -> None:
    request = StopRequest()
    set_handlers(request, calls, "preparation")
    request.hold()
    request.stop()
    assert calls == []
    set_handlers(request, calls, "work")
    assert calls == ["stop work"]


def test_what_stops_for_a_reason_of_its_own_stops_nothing_after_it(calls) -> None:
    request = StopRequest()
    set_handlers(request, calls, "work")
    request.stop_current()
    set_handlers(request, calls, "delivery")
    assert (calls, request.requested) == (["stop work"], False)


def test_work_that_begins_after_its_sink_has_failed_is_stopped_and_what_follows_is_not(calls) -> None:
    request = StopRequest()
    request.hold()
    request.stop_current()
    set_handlers(request, calls, "work")
    set_handlers(request, calls, "delivery")
    assert calls == ["stop work"]
