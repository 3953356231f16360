"""What the scheduler reads of a Scrapy project: its job, its frontier, its politeness."""

from __future__ import annotations

from typing import Any

import pytest

scrapy = pytest.importorskip("scrapy")

from scrapy.settings import Settings as ScrapySettings  # noqa: E402

from skitter.contrib.scrapy.scheduler_settings import idle_seconds, read_settings, start_urls_server  # noqa: E402
from skitter.errors import SettingsError, UsageError  # noqa: E402


def read(spider: Any = None, **values: Any) -> Any:
    return read_settings(ScrapySettings(values), spider or scrapy.Spider(name="books"))


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ({}, "sqlite:.skitter/books.db"),
        ({"SKITTER_FRONTIER": "jobs.db"}, "sqlite:jobs.db"),
        ({"SKITTER_FRONTIER": "redis://r/1", "REDIS_URL": "redis://other"}, "redis://r/1"),
        ({"REDIS_URL": "redis://r:6380/2"}, "redis://r:6380/2"),
        ({"REDIS_HOST": "r", "REDIS_PARAMS": {"password": "p", "db": 3}}, "redis://:p@r:6379/3"),
    ],
)
def test_the_frontier_is_the_own_setting_or_that_of_scrapy_redis_or_a_file(values: dict[str, Any], url: str) -> None:
    assert read(**values).frontier == url


def test_the_job_is_the_spiders_and_polite_as_scrapy_is() -> None:
    found = read(DOWNLOAD_DELAY=2, CONCURRENT_REQUESTS=5, CONCURRENT_REQUESTS_PER_DOMAIN=3, SKITTER_RUN_KEY="monday")
    assert (found.spec.name, found.spec.spider, found.spec.run_keys) == ("books", "scrapy:books", ["monday"])
    politeness = found.settings.politeness
    assert (politeness.delay_seconds, politeness.per_host, politeness.obey_robots) == (2.0, 3, False)
    assert (found.slots, found.fresh, found.outputs) == (10, False, [])
    spider = scrapy.Spider(name="books", download_delay=0.5)
    assert read(spider, DOWNLOAD_DELAY=2).settings.politeness.delay_seconds == 0.5
    other = read(SKITTER_JOB="other", SCHEDULER_FLUSH_ON_START=True, SKITTER_SETTINGS={"lease_seconds": 7})
    assert (other.spec.name, other.fresh, other.lease_seconds) == ("other", True, 7.0)
    assert [target.name for target in read(SKITTER_SINKS="a.jsonl").outputs] == ["a.jsonl"]


@pytest.mark.parametrize(
    ("values", "error", "told"),
    [
        ({"SKITTER_FRONTIER": "memory:"}, UsageError, "exists inside one process only: memory:"),
        ({"SKITTER_SETTINGS": 7}, SettingsError, "bad value: SKITTER_SETTINGS"),
        ({"SKITTER_SETTINGS": {"dely": 1}}, SettingsError, "unknown setting in SKITTER_SETTINGS: dely"),
        ({"SKITTER_SINKS": [{"key": "x"}]}, SettingsError, "an output without a target in SKITTER_SINKS"),
    ],
)
def test_what_cannot_be_meant_is_named(values: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        read(**values)


def test_a_key_of_start_urls_is_in_the_redis_of_the_settings_or_of_the_frontier() -> None:
    assert start_urls_server(ScrapySettings({"REDIS_URL": "redis://r/1", "SKITTER_FRONTIER": "a.db"})) == "redis://r/1"
    assert start_urls_server(ScrapySettings({"SKITTER_FRONTIER": "redis://r/2"})) == "redis://r/2"
    assert start_urls_server(ScrapySettings({})) == "redis://127.0.0.1:6379/0"
    assert idle_seconds(ScrapySettings({})) is None
    assert idle_seconds(ScrapySettings({"MAX_IDLE_TIME_BEFORE_CLOSE": 5})) == 5.0
    assert idle_seconds(ScrapySettings({"SCHEDULER_IDLE_BEFORE_CLOSE": 3})) == 3.0
