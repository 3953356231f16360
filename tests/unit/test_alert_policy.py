"""Alert rules: which are refused, and when an alert fires and resolves."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from skitter.alert_rules import AlertRule
from skitter.app.alerts import check_rules
from skitter.cli.alert_tables import read_alerts
from skitter.errors import SettingsError
from skitter.policy.alerts import AlertState
from skitter.settings import Settings


def rule(**fields: Any) -> AlertRule:
    return AlertRule(**({"name": "a", "figure": "failure_ratio", "pause": True} | fields))


def changes(of: AlertRule, values: list[float | None]) -> list[str]:
    """What becomes of an alert whose figure has these values, one a second."""
    state = AlertState()
    return [str(state.update(of, value, 100.0 + second) or "") for second, value in enumerate(values)]


def test_an_alert_fires_once_stays_silent_inside_the_hysteresis_and_resolves_once() -> None:
    of = rule(above=10, clears_at=5)
    assert changes(of, [9, 11, 12, 7, 11, 6, 5, 7, 10, 11]) == [
        *("", "firing", "", "", "", "", "resolved", "", "", "firing")
    ]
    of = rule(below=5, clears_at=8)
    assert changes(of, [5, 4, 6, 7, 8, 6]) == ["", "firing", "", "", "resolved", ""]


def test_a_figure_must_be_beyond_the_threshold_without_a_break() -> None:
    of = rule(above=10, for_seconds=3)
    assert changes(of, [11, 11, 10, 11, 11, 11, 11, 11]) == ["", "", "", "", "", "", "firing", ""]
    assert changes(of, [11, 11, None, 11, 11]) == [""] * 5


def test_a_figure_that_is_gone_resolves_and_a_rest_begins_the_time_anew() -> None:
    assert changes(rule(above=1), [2, None]) == ["firing", "resolved"]
    state, of = AlertState(), rule(above=1, for_seconds=2)
    state.update(of, 5, 0.0)
    state.rest()
    assert state.update(of, 5, 2.0) is None
    assert state.update(of, 5, 4.0) == "firing"
    state.rest()
    assert state.firing_since == 4.0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "either above or below"),
        ({"above": 1, "below": 2}, "either above or below"),
        ({"above": 1, "clears_at": 2}, "would fire again at once"),
        ({"below": 1, "clears_at": 0}, "would fire again at once"),
        ({"above": 1, "pause": False}, "does nothing"),
        ({"above": 1, "webhook": "ftp://x/"}, "not an http or https URL"),
        ({"above": 1, "name": "two words"}, "invalid alert name"),
        ({"above": 1, "sound": "loud"}, "unknown field"),
        ({"above": "much"}, "Expected"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_without_its_webhook(fields: dict[str, Any], says: str) -> None:
    table = {"name": "a", "figure": "failure_ratio", "pause": True, "webhook": "https://h/token"} | fields
    if fields.get("pause") is False:
        del table["webhook"]
    with pytest.raises(SettingsError) as raised:
        Settings.from_layers([("skitter.toml", {"alerts": [table]})])
    assert says in raised.value.hint
    assert "token" not in str(raised.value) + raised.value.hint


def test_figures_and_names_are_checked() -> None:
    check_rules([rule(above=1), rule(above=1, name="b", figure="requests:queued")])
    with pytest.raises(SettingsError, match="no such figure: requests:queud") as raised:
        check_rules([rule(above=1, figure="requests:queud")])
    assert raised.value.hint == "did you mean requests:queued ?"
    with pytest.raises(SettingsError, match="two alerts have the same name"):
        check_rules([rule(above=1), rule(below=1)])
    assert rule(above=1, job="shop-*").is_for("shop-1")
    assert not rule(above=1, job="shop-*").is_for("news")
    assert "token" not in repr(rule(above=1, webhook="https://h/token"))


def test_the_alerts_of_the_how_to_page_can_be_used() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "alerts.md"
    tables = tomllib.loads(page.read_text().partition("```toml\n")[2].partition("```")[0])["alert"]
    read = read_alerts("alerts.md", tables, {"SLACK_WEBHOOK": "https://hooks.example.com/token"})
    settings = Settings.from_layers([("alerts.md", {"alerts": read})])
    check_rules(settings.run.alerts)
    assert [rule.name for rule in settings.run.alerts] == ["many-failures", "slow", "blocked"]
    assert settings.run.alerts[1].command == ["mail", "-s", "a crawl is slow", "ops@example.com"]
