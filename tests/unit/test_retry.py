"""When a failure is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import SettingsError
from skitter.policy.retry import (
    BLOCK_STATUSES,
    RETRY_ERROR_CLASSES,
    UNREACHABLE_ERROR_CLASSES,
    backoff_seconds,
    error_class,
    retry_after_seconds,
)
from skitter.settings import Retry, Settings, read_statuses

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the date of the RFC


def test_the_retried_statuses_are_the_promised_ones() -> None:
    assert {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524} == read_statuses(Retry().retry_statuses)
    assert read_statuses(Retry().retry_statuses) > BLOCK_STATUSES


@pytest.mark.parametrize("text", ["5xx", "500-", "-500", "500-400", "200", "0", "99999999999999999999", "four"])
def test_what_are_no_statuses_to_try_again_is_an_error_of_settings(text: str) -> None:
    with pytest.raises(SettingsError, match="retry_statuses"):
        Settings.from_layers([("here", {"retry_statuses": text})])


def test_statuses_are_listed_with_ranges() -> None:
    assert read_statuses(" 404, 500-502 ,") == {404, 500, 501, 502}
    assert read_statuses("") == set()
    settings = Settings.from_layers([("here", {"retry_statuses": [500, 404], "retry_priority": "-1"})])
    assert (settings.retry.retry_statuses, settings.retry.retry_priority) == ("500,404", -1)


def test_final_kinds_are_not_retried() -> None:
    assert not RETRY_ERROR_CLASSES & {"too_large", "guard", "redirect"}
    assert UNREACHABLE_ERROR_CLASSES < RETRY_ERROR_CLASSES


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("-5", 0.0),
        ("86401", 86_400.0),
        ("9" * 5_000, 86_400.0),
        ("0" * 5_000 + "5", 5.0),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60.0),
        ("Sun Nov  6 08:50:37 1994", 60.0),
        ("Sun, 06 Nov 1994 09:50:37 +0100", 60.0),
        ("Sun, 06 Nov 1994 08:50:37 -0000", 60.0),
        ("Sat, 05 Nov 1994 08:49:37 GMT", 0.0),
        ("Fri, 31 Dec 2999 23:59:59 GMT", 86_400.0),
    ],
)
def test_retry_after_is_read_in_both_forms(value: str, seconds: float) -> None:
    assert retry_after_seconds(value, NOW) == seconds


DATES = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
LATER = ["Sun, 06 Nov 1994 08:50:37 GMT", "Sunday, 06-Nov-94 08:50:37 GMT", "Sun Nov  6 08:50:37 1994"]


@pytest.mark.parametrize("date", DATES)
@pytest.mark.parametrize("value", LATER)
@pytest.mark.parametrize("wrong", [-3600.0, 0.0, 3600.0, -NOW, 1e12])
def test_a_date_is_so_long_after_the_date_of_the_answer(value: str, date: str, wrong: float) -> None:
    assert retry_after_seconds(value, NOW + wrong, date) == 60.0


@pytest.mark.parametrize("date", [None, "", "now", "Sun, 99 Nov 1994 08:49:37 GMT", "120", "\x00"])
def test_without_a_date_of_the_answer_a_date_is_after_now(date: str | None) -> None:
    assert retry_after_seconds(LATER[0], NOW, date) == 60.0
    assert retry_after_seconds(LATER[0], NOW + 30, date) == 30.0


@pytest.mark.parametrize(
    ("value", "seconds"), [("Sat, 05 Nov 1994 08:49:37 GMT", 0.0), ("Fri, 31 Dec 2999 23:59:59 GMT", 86_400.0)]
)
def test_a_date_in_the_past_or_far_away_is_bounded(value: str, seconds: float) -> None:
    assert retry_after_seconds(value, NOW, DATES[0]) == seconds


def test_seconds_need_no_clock() -> None:
    assert retry_after_seconds("60", 0.0, "Fri, 31 Dec 2999 23:59:59 GMT") == 60.0


@pytest.mark.parametrize(
    "value", [None, "", " ", "soon", "1.5", "1e3", "12 s", "٣", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov", "\x00"]
)
def test_malformed_retry_after_is_none(value: str | None) -> None:
    assert retry_after_seconds(value, NOW) is None


@given(st.text(max_size=60) | st.sampled_from(DATES), st.none() | st.text(max_size=60) | st.sampled_from(DATES))
def test_retry_after_never_raises(value: str, date: str | None) -> None:
    seconds = retry_after_seconds(value, NOW, date)
    assert seconds is None or 0 <= seconds <= 86_400


def test_backoff_doubles_between_half_and_full() -> None:
    assert [backoff_seconds(attempt, 1.0, 0.0) for attempt in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 4.0]
    assert backoff_seconds(3, 2.0, 0.5) == 6.0


@given(st.integers(0, 10_000), st.floats(0, 1e6), st.floats(0, 1, exclude_max=True))
def test_backoff_is_bounded_by_an_hour(attempt: int, base: float, jitter: float) -> None:
    assert 0 <= backoff_seconds(attempt, base, jitter) <= 3_600


@pytest.mark.parametrize(
    ("status", "name"), [(400, "http_4xx"), (499, "http_4xx"), (500, "http_5xx"), (599, "http_5xx")]
)
def test_error_classes(status: int, name: str) -> None:
    assert error_class(status) == name
