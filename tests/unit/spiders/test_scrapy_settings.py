"""What Scrapy's settings and spiders say is done here, or named with what to use instead."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.errors import SettingsError, SpiderError
from skitter.settings import Settings, names
from skitter.spiders.base import Spider
from skitter.spiders.foreign_settings import COUNTERPARTS, FOREIGN
from skitter.spiders.loading import check_spider
from skitter.spiders.scrapy_names import META, REFUSED, SETTINGS, WARNED, WARNED_METHODS
from skitter.spiders.scrapy_settings import of_spider, translated


def read(**values: Any) -> tuple[dict[str, Any], list[Any], list[str]]:
    warnings: list[str] = []
    (_, known), sinks, _ = translated("settings.py", values, warnings)
    Settings.from_layers([("settings.py", known)])
    return known, sinks, warnings


def spider(**attributes: Any) -> Spider:
    kind: type[Spider] = type("Books", (Spider,), {"start_urls": ["http://a.example/"], "parse": print, **attributes})
    return kind()


# ---- settings


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("DEBUG", "debug"),
        ("INFO", "info"),
        ("warning", "warning"),
        ("WARN", "warning"),
        ("ERROR", "error"),
        ("CRITICAL", "error"),
        (10, "debug"),
        (20, "info"),
        (25, "notice"),
        (50, "error"),
    ],
)
def test_a_log_level_is_ours(value: Any, level: str) -> None:
    assert read(LOG_LEVEL=value) == ({"log_level": level}, [], [])


def test_a_log_level_that_there_is_not_is_named() -> None:
    with pytest.raises(SettingsError, match=r"bad value in settings.py: LOG_LEVEL='LOUD'"):
        read(LOG_LEVEL="LOUD")


@pytest.mark.parametrize(("value", "file"), [("crawl.log", "crawl.log"), (None, "-")])
def test_a_log_file_is_ours(value: Any, file: str) -> None:
    assert read(LOG_FILE=value) == ({"log_file": file}, [], [])


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ({"HTTPCACHE_ENABLED": True}, {"cache_dir": ".skitter/cache"}),
        ({"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": "pages"}, {"cache_dir": "pages"}),
        ({"HTTPCACHE_ENABLED": False, "HTTPCACHE_DIR": "pages"}, {"cache_dir": ""}),
        ({"HTTPCACHE_EXPIRATION_SECS": 60}, {"cache_seconds": 60.0}),
        ({"HTTPCACHE_EXPIRATION_SECS": 0}, {"cache_seconds": None}),
        ({"AUTOTHROTTLE_ENABLED": True}, {"target_concurrency": 1.0}),
        ({"AUTOTHROTTLE_ENABLED": False, "AUTOTHROTTLE_TARGET_CONCURRENCY": 2}, {"target_concurrency": None}),
        (
            {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_TARGET_CONCURRENCY": 4, "AUTOTHROTTLE_MAX_DELAY": 20},
            {"target_concurrency": 4.0, "max_delay_seconds": 20},
        ),
    ],
)
def test_autothrottle_is_the_pace_by_latency(values: dict[str, Any], known: dict[str, Any]) -> None:
    assert read(**values) == (known, [], [])


def test_what_of_autothrottle_has_no_counterpart_is_told_what_bounds_the_pace() -> None:
    known, _, warnings = read(AUTOTHROTTLE_START_DELAY=5, AUTOTHROTTLE_DEBUG=True, AUTOTHROTTLE_TARGET_CONCURRENCY=2)
    assert known == {}
    told = "\n".join(warnings)
    assert "AUTOTHROTTLE_START_DELAY has no effect: hosts that answer 429 or 503 are slowed down automatically" in told
    assert "delay_seconds" in told
    assert "AUTOTHROTTLE_DEBUG has no effect: skitter why" in told
    assert "AUTOTHROTTLE_TARGET_CONCURRENCY has no effect without AUTOTHROTTLE_ENABLED; target_concurrency" in told


def test_a_name_that_means_nothing_here_is_named() -> None:
    assert read(MY_OWN="x")[2] == ["settings.py: ignored, because skitter has no equivalent: MY_OWN"]


def test_limits_and_statistics_of_scrapy_are_settings() -> None:
    found = read(CLOSESPIDER_ITEMCOUNT=5, CLOSESPIDER_TIMEOUT=60, CLOSESPIDER_ERRORCOUNT=0, MEMUSAGE_LIMIT_MB=100)[0]
    assert found == {
        "close_after_items": 5,
        "close_after_seconds": 60,
        "close_after_errors": None,
        "memory_limit_bytes": 104_857_600,
    }
    (warning,) = read(EXTENSIONS={})[2]
    assert warning.startswith("settings.py: EXTENSIONS has no effect: use hooks = ")


def test_the_tables_lead_to_settings_that_exist() -> None:
    assert {*SETTINGS.values(), *(setting for setting, _ in FOREIGN.values())} <= set(names())


# ---- feeds


@pytest.mark.parametrize(
    ("feed", "options", "target"),
    [
        ("books.csv", {"format": "csv"}, "books.csv"),
        ("books.json", {"format": "json", "encoding": "utf8", "indent": None}, "books.json"),
        ("out/books.jsonl", {"format": "jsonlines"}, "out/books.jsonl"),
        ("books.jl", {"format": "jl"}, "books.jl"),
        ("books.jsonl.gz", {"format": "jsonlines", "postprocessing": ["x.GzipPlugin"]}, "books.jsonl.gz"),
        ("books.csv", {}, "books.csv"),
        ("file:///tmp/my%20books.csv", {"format": "csv"}, "/tmp/my books.csv"),
        ("stdout:", {"format": "jsonlines"}, "-"),
    ],
)
def test_a_feed_whose_format_is_ours_is_an_output(feed: str, options: dict[str, Any], target: str) -> None:
    assert read(FEEDS={feed: options}) == ({}, [{"target": target, "overwrite": False}], [])
    assert read(FEEDS={feed: {**options, "overwrite": True}})[1] == [{"target": target, "overwrite": True}]


@pytest.mark.parametrize(
    ("feed", "options", "why"),
    [
        ("books.xml", {"format": "xml"}, "skitter writes no xml, but csv, jl, json"),
        ("books.pickle", {"format": "pickle"}, "skitter writes no pickle"),
        ("books.json", {"format": "jsonlines"}, "the suffix selects the format, and jsonlines is .jsonl"),
        ("s3://shop/books.csv", {"format": "csv"}, "only files are supported here, not s3://"),
        ("%(name)s-%(time)s.csv", {"format": "csv"}, "are not filled in"),
        ("stdout:", {"format": "csv"}, "standard output has JSON lines, not csv"),
    ],
)
def test_a_feed_that_cannot_be_written_as_it_is_meant_is_told_why(feed: str, options: Any, why: str) -> None:
    known, sinks, (warning,) = read(FEEDS={feed: options})
    assert (known, sinks) == ({}, [])
    assert warning.startswith(f"settings.py: FEEDS: not written: {feed}: ")
    assert why in warning


def test_the_password_of_a_feed_is_not_shown() -> None:
    _, _, (warning,) = read(FEEDS={"ftp://ann:hunter2@files.example/books.csv": {"format": "csv"}})
    assert "files.example/books.csv" in warning
    assert "hunter2" not in warning


def test_options_of_a_feed_that_there_are_not_are_named() -> None:
    _, sinks, (warning,) = read(FEEDS={"books.csv": {"format": "csv", "fields": ["isbn"], "batch_item_count": 9}})
    assert [sink["target"] for sink in sinks] == ["books.csv"]
    assert (
        warning == "settings.py: FEEDS: books.csv: options without an equivalent are ignored: batch_item_count, fields"
    )


@pytest.mark.parametrize("feeds", ["books.csv", ["books.csv"], {"books.csv": "csv"}])
def test_feeds_of_another_shape_are_an_error(feeds: Any) -> None:
    with pytest.raises(SettingsError, match=r"bad value in settings.py: FEEDS"):
        read(FEEDS=feeds)


# ---- a spider's own


def own(made: Spider) -> tuple[dict[str, Any], list[Any], list[str]]:
    warnings: list[str] = []
    (origin, known), sinks, _ = of_spider("books.py:Books", made, warnings)
    assert origin == "books.py:Books"
    return known, sinks, warnings


def test_attributes_that_scrapy_reads_are_settings_and_custom_settings_win() -> None:
    made = spider(download_delay=2, user_agent="me/1", custom_settings={"USER_AGENT": "me/2", "per_host": 1})
    assert own(made) == ({"delay_seconds": 2, "user_agent": "me/2", "per_host": 1}, [], [])
    given = type(spider(user_agent=None))(download_timeout="5")
    assert own(given)[0] == {"timeout_seconds": "5"}, "by -a"


def test_an_attribute_with_the_name_of_a_setting_is_not_ignored_in_silence() -> None:
    known, _, warnings = own(spider(delay_seconds=3, item_functions=[len]))
    assert known == {}
    assert warnings == ["Books.delay_seconds is not a setting here: put it into custom_settings"]


@pytest.mark.parametrize(
    ("attributes", "sinks"),
    [
        ({"sinks": ["a.jsonl"]}, ["a.jsonl"]),
        ({"sinks": "a.jsonl"}, ["a.jsonl"]),
        ({"sinks": ["a.jsonl"], "custom_settings": {"sinks": ["b.csv"]}}, ["b.csv"]),
        (
            {"sinks": ["a.jsonl"], "custom_settings": {"FEEDS": {"c.csv": {"format": "csv"}}}},
            [{"target": "c.csv", "overwrite": False}],
        ),
        ({}, []),
    ],
)
def test_a_spiders_targets_are_those_of_its_settings_or_its_own(attributes: dict[str, Any], sinks: list[Any]) -> None:
    assert own(spider(**attributes))[1] == sinks


def test_custom_settings_may_be_none_and_nothing_else_than_a_mapping() -> None:
    assert own(spider(custom_settings=None)) == ({}, [], [])
    with pytest.raises(SettingsError, match="custom_settings is not a mapping: Books"):
        own(spider(custom_settings=["DOWNLOAD_DELAY"]))
    with pytest.raises(SettingsError, match=r"invalid name of a setting in books.py:Books: 7"):
        own(spider(custom_settings={7: 1}))


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_scrapy_would_crawl_by_is_refused_by_name(name: str) -> None:
    with pytest.raises(SpiderError, match=f"{name} of Scrapy's spiders does not work here: Books") as caught:
        check_spider(spider(**{name: [1]}))
    assert REFUSED[name] in caught.value.hint
    check_spider(spider(**{name: ()}))


@pytest.mark.parametrize("name", sorted(WARNED | WARNED_METHODS))
def test_what_a_crawl_goes_on_without_is_warned_of_by_name(name: str) -> None:
    value: Any = print if name in WARNED_METHODS else ["x"]
    assert own(spider(**{name: value}))[2] == [f"Books.{name} has no effect: {(WARNED | WARNED_METHODS)[name]}"]
    assert own(spider(**{name: False}))[2] == []


def test_every_name_has_a_counterpart_in_words() -> None:
    for table in (META, REFUSED, WARNED, WARNED_METHODS, COUNTERPARTS):
        assert all(table.values())
