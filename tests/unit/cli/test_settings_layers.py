"""Settings come from six places, and the higher rank wins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from skitter.cli.arguments import Override
from skitter.cli.settings_layers import Collected, collect, read_project
from skitter.errors import SettingsError
from skitter.node.auto_workers import auto_workers, this_machine
from skitter.settings import names
from skitter.spiders.scrapy_settings import FOREIGN


def collected(folder: Path, *, spider: dict[str, Any] | None = None, **given: Any) -> Collected:
    return collect(
        spider=("the spider", spider or {}),
        project=read_project(folder),
        environment=given.get("environment", {}),
        config=given.get("config"),
        overrides=given.get("overrides", []),
        one_process=given.get("one_process", ""),
    )


def test_each_layer_beats_the_one_below(folder) -> None:
    values = ["concurrency", "per_host", "max_pages", "max_depth", "max_redirects"]
    (folder / "skitter.toml").write_text("\n".join(f"{name} = 1" for name in values))
    (folder / "old.py").write_text(
        "CONCURRENT_REQUESTS_PER_DOMAIN = 2\nCLOSESPIDER_PAGECOUNT = 2\nDEPTH_LIMIT = 2\nREDIRECT_MAX_TIMES = 2"
    )
    settings = collected(
        folder,
        spider={"max_pages": 3, "max_depth": 3, "max_redirects": 3},
        environment={"SKITTER_MAX_DEPTH": "4", "SKITTER_MAX_REDIRECTS": "4", "HOME": "x"},
        config="old.py",
        overrides=[Override("--set", "max_redirects", "5")],
    ).settings
    assert settings.fetch.timeout_seconds == 30, "the default"
    assert settings.run.concurrency == 1, "skitter.toml"
    assert settings.politeness.per_host == 2, "--config"
    assert settings.limits.max_pages == 3, "the spider's own"
    assert settings.limits.max_depth == 4, "the environment"
    assert settings.fetch.max_redirects == 5, "the command line"


def test_workers_may_be_left_to_the_machine(folder) -> None:
    (folder / "skitter.toml").write_text('workers = "auto"')
    found = collected(folder)
    assert (found.settings.run.workers, found.worker_note) == auto_workers(this_machine())
    alone = collected(folder, one_process="memory: is for one process")
    assert (alone.settings.run.workers, alone.worker_note) == (1, "1 worker: memory: is for one process")
    fixed = collected(folder, overrides=[Override("--workers", "workers", "3")])
    assert (fixed.settings.run.workers, fixed.worker_note) == (3, "")
    again = collected(
        folder, environment={"SKITTER_WORKERS": "3"}, overrides=[Override("--workers", "workers", "auto")]
    )
    assert again._replace(origins={}) == found._replace(origins={})
    assert again.origins["workers"].place == "--workers"


def test_toml_may_be_flat_or_in_groups(folder) -> None:
    (folder / "skitter.toml").write_text("workers = 2\n[politeness]\ndelay_seconds = 0.5\n[limits]\nmax_pages = 7")
    settings = collected(folder).settings
    assert (settings.run.workers, settings.politeness.delay_seconds, settings.limits.max_pages) == (2, 0.5, 7)


def test_pyproject_counts_where_there_is_no_skitter_toml(folder) -> None:
    (folder / "pyproject.toml").write_text('[tool.skitter]\nworkers = 4\nspiders = "mine"\n[tool.other]\nx = 1')
    assert collected(folder).settings.run.workers == 4
    assert read_project(folder).spider_paths == ["mine"]
    (folder / "skitter.toml").write_text("concurrency = 3")
    assert collected(folder).settings.run.workers == 1


def test_an_empty_variable_is_not_set(folder) -> None:
    assert collected(folder, environment={"SKITTER_MAX_PAGES": ""}).settings.limits.max_pages is None


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("workers = ", "invalid TOML: skitter.toml"),
        ("workrs = 2", "unknown setting in skitter.toml: workrs"),
        ("workers = 0", "bad value in skitter.toml: workers=0"),
        ("[politness]\nper_host = 1", "unknown table in skitter.toml: politness"),
        ("spiders = 3", "bad value in skitter.toml: spiders=3"),
    ],
)
def test_a_mistake_in_the_file_is_named(folder, toml, message) -> None:
    (folder / "skitter.toml").write_text(toml)
    with pytest.raises(SettingsError, match=message) as caught:
        collected(folder)
    assert caught.value.hint


def test_a_mistake_in_the_environment_names_the_variable(folder) -> None:
    with pytest.raises(SettingsError, match=r"\(SKITTER_WORKRS\): workrs"):
        collected(folder, environment={"SKITTER_WORKRS": "2"})


def test_a_foreign_module_is_mapped_and_the_rest_named_once(folder) -> None:
    (folder / "settings.py").write_text(
        "import os\nBOT_NAME = 'x'\nADDONS = {}\nRETRY_TIMES = 2\nDEPTH_LIMIT = 0\nDOWNLOAD_MAXSIZE = 0\n"
        "ITEM_PIPELINES = {'shop.pipes.B': 20, 'shop.pipes.A': 10, 'shop.C': None}\n"
        "ROBOTSTXT_OBEY = False\nUSER_AGENT = 'me/1.0'\n_PRIVATE = 1\nlower = 2\n"
    )
    settings, warnings, *_ = collected(folder, config="settings.py", spider={"max_pages": 3})
    assert settings.retry.max_attempts == 3
    assert (settings.limits.max_depth, settings.limits.max_pages) == (None, 3)
    assert settings.fetch.max_body_bytes > 1 << 60
    assert (settings.politeness.obey_robots, settings.fetch.user_agent) == (False, "me/1.0")
    assert [warning.partition(" has no effect: ")[0] for warning in warnings] == [
        "settings.py: ADDONS",
        "settings.py: BOT_NAME",
    ]
    assert settings.items.item_functions == "shop.pipes:A,shop.pipes:B"


def test_feeds_of_a_settings_module_stand_above_the_tables_of_the_project(folder) -> None:
    (folder / "skitter.toml").write_text('[[sink]]\ntarget = "one.jsonl"\n')
    (folder / "settings.py").write_text("FEEDS = {'two.csv': {'format': 'csv', 'overwrite': True}}")
    assert collected(folder).sinks == ("[[sink]] of skitter.toml", [{"target": "one.jsonl"}])
    sinks = collected(folder, config="settings.py").sinks
    assert sinks == ("FEEDS of settings.py", [{"target": "two.csv", "overwrite": True}])


@pytest.mark.parametrize(
    ("text", "message"),
    [("RETRY_TIMES = 'x'", "bad value in settings.py: RETRY_TIMES='x'"), ("1/0", "fails: settings.py: ZeroDivision")],
)
def test_a_foreign_module_that_cannot_be_used(folder, text, message) -> None:
    (folder / "settings.py").write_text(text)
    with pytest.raises(SettingsError, match=message):
        collected(folder, config="settings.py")


def test_the_table_leads_to_settings_that_exist() -> None:
    assert {setting for setting, _ in FOREIGN.values()} <= set(names())


def test_the_words_of_the_server_are_checked_without_its_extra(folder, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "skitter.frontier.http", raising=False)
    (folder / "skitter.toml").write_text('[remote]\nallow = ["submit"]\n')
    assert read_project(folder).allow == ["submit"]
    (folder / "skitter.toml").write_text('[remote]\nallow = ["submits"]\n')
    with pytest.raises(SettingsError, match=r"bad value in \[remote\] of skitter.toml: 'submits'"):
        read_project(folder)
