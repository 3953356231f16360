"""Settings: one name each, typed, joined in layers."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from skitter import settings
from skitter.errors import SettingsError
from skitter.settings import Settings, names, values_of


def made(**values: Any) -> Settings:
    return Settings.from_layers([("the test", values)])


def test_the_defaults_are_the_promised_ones() -> None:
    found = Settings.from_layers([])
    assert found == Settings()
    assert (found.limits.lease_seconds, found.limits.callback_seconds) == (30, 60)
    assert (found.retry.max_attempts, found.retry.retry_delay_seconds) == (4, 1)
    assert (found.fetch.timeout_seconds, found.fetch.max_body_bytes, found.fetch.allow_private) == (30, 33554432, False)
    assert (found.politeness.per_host, found.politeness.delay_seconds) == (None, None)
    assert found.politeness.host_backoff_seconds == 60
    assert (found.run.workers, found.run.concurrency) == (1, 64)


def test_every_name_belongs_to_one_group() -> None:
    names = settings.names()
    assert len(names) == len(set(names))
    groups = [getattr(Settings(), group).__struct_fields__ for group in Settings.__struct_fields__]
    assert sorted(names) == sorted(name for group in groups for name in group)


def test_a_later_layer_wins() -> None:
    found = Settings.from_layers(
        [("the spider", {"per_host": 2, "delay_seconds": 3}), ("skitter.toml", {}), ("--set", {"per_host": "5"})]
    )
    assert (found.politeness.per_host, found.politeness.delay_seconds) == (5, 3)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("per_host", "3", 3),
        ("delay_seconds", "0.5", 0.5),
        ("delay_seconds", "2", 2.0),
        ("obey_robots", "false", False),
        ("allow_private", "1", True),
        ("max_pages", "none", None),
        ("max_pages", "100", 100),
        ("user_agent", "me/1", "me/1"),
    ],
)
def test_text_is_read_as_what_it_means(name: str, text: str, value: object) -> None:
    found = made(**{name: text})
    (group,) = [group for group in Settings.__struct_fields__ if hasattr(getattr(found, group), name)]
    assert getattr(getattr(found, group), name) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("per_host", 0),
        ("per_host", "many"),
        ("per_host", 1.5),
        ("delay_seconds", -1),
        ("delay_seconds", "nan"),
        ("timeout_seconds", 0),
        ("obey_robots", "perhaps"),
        ("max_pages", 0),
        ("max_attempts", None),
        ("user_agent", 7),
        ("user_agent", "a\r\nX-Injected: 1"),
        ("user_agent", "*"),
        ("contact", "https://a.example/\nX-Injected: 1"),
        ("contact", "somebody"),
        ("target_concurrency", 0),
    ],
)
def test_a_bad_value_names_its_setting_and_where_it_came_from(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=f"bad value in the test: {name}=") as caught:
        made(**{name: value})
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("per_host", "many", "per_host takes a whole number from 1, or none"),
        ("max_pages", 0, "max_pages takes a whole number from 1, or none"),
        ("delay_seconds", -1, "delay_seconds takes a number from 0, or none"),
        ("obey_robots", "perhaps", "obey_robots takes true or false"),
        ("log_level", "loud", "log_level takes one of: debug, error, info, notice, warning"),
        ("user_agent", 7, "user_agent takes text"),
    ],
)
def test_a_hint_says_in_plain_words_what_is_expected(name: str, value: object, hint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        made(**{name: value})
    assert caught.value.hint == hint


def test_an_unknown_name_is_an_error_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match="unknown setting in the test: delay_second") as caught:
        made(delay_second=1)
    assert caught.value.hint == "did you mean delay_seconds?"


def test_an_unknown_name_that_is_like_none_brings_the_nearest_there_are() -> None:
    with pytest.raises(SettingsError) as caught:
        made(zzz=1)
    assert caught.value.hint.startswith("settings with similar names: ")
    assert set(caught.value.hint.partition(": ")[2].split(", ")) <= set(names())


def test_every_setting_says_in_words_what_it_takes() -> None:
    number = r"a (whole )?number( (from|to|above|below) -?[\d.]+)*"
    one = rf"(text|a list of texts|tables|true or false|none|one of: .*|{number})"
    for name in names():
        assert re.fullmatch(f"{one}(, or {one})?", values_of(name)), (name, values_of(name))


def test_what_the_job_stores_makes_the_same_settings_again() -> None:
    found = made(per_host=3, max_pages=7, user_agent="me", workers=4)
    stored = found.job_wide()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(stored)) == stored, "plain values"
    again = Settings.from_layers([("the job", stored)])
    assert again == msgspec.structs.replace(found, run=Settings().run), "a node's own share is not the job's"
