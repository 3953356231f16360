"""An outage is told once, whoever reports it and however often."""

from __future__ import annotations

import pytest

from skitter.observe.outage_reports import OutageReports


@pytest.fixture
def reports() -> OutageReports:
    return OutageReports()


def test_it_begins_once_and_ends_once_whoever_reports_it(reports: OutageReports) -> None:
    begins = [reports.tells_begin(reason, 100.0 + number) for number, reason in enumerate(("gone", "silent", "gone"))]
    assert begins == [True, False, False]
    assert [reports.tells_end(105.0), reports.tells_end(105.1)] == [True, False]


def test_a_store_that_fails_again_and_again_is_in_the_same_outage(reports: OutageReports) -> None:
    assert reports.tells_begin("gone", 100.0)
    assert reports.tells_end(103.0)
    for again in range(5):
        assert not reports.tells_begin("gone", 104.0 + 8 * again)
        assert not reports.tells_end(110.0 + 8 * again)
    assert reports.tells_begin("gone", 200.0), "this is another one"
    assert reports.tells_end(201.0)


def test_a_store_that_fails_again_and_stays_away_is_told_again(reports: OutageReports) -> None:
    assert reports.tells_begin("gone", 100.0)
    assert reports.tells_end(103.0)
    assert not reports.tells_begin("gone", 104.0)
    assert reports.tells_begin("gone", 113.0)
    assert reports.tells_end(120.0)


def test_another_reason_is_told_when_it_has_gone_on_for_long(reports: OutageReports) -> None:
    """The server is there again, and refuses the password: nobody would look for that otherwise."""
    assert reports.tells_begin("gone", 100.0)
    assert not reports.tells_begin("refuses the password", 130.0)
    assert not reports.tells_begin("gone", 160.0)
    assert reports.tells_begin("refuses the password", 161.0)
    assert not reports.tells_begin("refuses the password", 300.0)
