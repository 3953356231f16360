"""The first failure of each kind is told with its traceback, the others are counted, and no spider floods the log."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from skitter.worker.callback_failure_log import MAX_KINDS, CallbackFailures, failure_kind


def error_of(raises: Callable[[], Any]) -> str:
    try:
        raises()
    except Exception:  # noqa: BLE001  whatever it is
        return traceback.format_exc()
    raise AssertionError("it did not raise")


def in_several_lines() -> None:
    raise ValueError("one\n  two\nKeyError: three")


def chained() -> None:
    try:
        in_several_lines()
    except ValueError:
        {}["price"]


@pytest.mark.parametrize(
    ("raises", "begins"),
    [
        (in_several_lines, "ValueError in in_several_lines, test_callback_failures.py line "),
        (chained, "KeyError in chained, test_callback_failures.py line "),
    ],
)
def test_a_kind_is_the_class_and_the_line_that_raised(raises: Callable[[], Any], begins: str) -> None:
    assert failure_kind(error_of(raises)).startswith(begins)


def test_what_is_no_traceback_is_a_kind_by_its_words() -> None:
    assert failure_kind("the spider has no callback of this name: x\n") == "the spider has no callback of this name: x"


def test_each_kind_is_told_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    failures = CallbackFailures("w1")
    with caplog.at_level(logging.INFO):
        for page in range(3):
            failures.failed(f"http://a/{page}", error_of(in_several_lines))
        failures.failed("http://a/3", error_of(chained))
        told = [record.event.fields["url"] for record in caplog.records]  # type: ignore[attr-defined]
        assert told == ["http://a/0", "http://a/3"]
        caplog.clear()
        failures.tell_repeated()
    (again,) = [record.event for record in caplog.records]  # type: ignore[attr-defined]
    assert again.fields["pages"] == 3
    assert again.fields["failure"].startswith("ValueError in in_several_lines")


def test_kinds_without_end_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    failures = CallbackFailures("w1")
    with caplog.at_level(logging.INFO):
        for page in range(1000):
            failures.failed(f"http://a/{page}", f"not a price: {page}")
        assert len(caplog.records) == MAX_KINDS + 1
        failures.tell_repeated()
    assert caplog.records[-1].event.fields["pages"] == 1000 - MAX_KINDS  # type: ignore[attr-defined]
