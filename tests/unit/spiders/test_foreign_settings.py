"""Every name in the documentation of Scrapy, scrapy-redis and Crawlo is a setting here, or named with what to use."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from skitter.cli import settings_layers
from skitter.errors import SettingsError
from skitter.settings import Settings, names
from skitter.spiders.crawlo_config import CrawloConfig, crawlo_names
from skitter.spiders.foreign_settings import COUNTERPARTS, FAMILIES, FOREIGN, SWITCHES, TOGETHER, counterpart
from skitter.spiders.scrapy_settings import translated

NAMES: dict[str, list[str]] = {}
for line in Path(__file__).with_name("setting_names.txt").read_text(encoding="utf-8").splitlines():
    if line.startswith("["):
        NAMES[section := line.strip("[]")] = []
    else:
        NAMES[section] += line.split()
EVERY_NAME = sorted({name for names_of in NAMES.values() for name in names_of if name.isupper()})


def read(**values: Any) -> tuple[dict[str, Any], list[str], str]:
    warnings: list[str] = []
    (_, known), _, frontier = translated("settings.py", values, warnings)
    Settings.from_layers([("settings.py", known)])
    return known, warnings, frontier


def test_every_documented_name_is_mapped_or_named_with_what_to_use() -> None:
    """One test for all of them: there are over 600."""
    others = [name for name in EVERY_NAME if not (name in FOREIGN or name in SWITCHES or name in TOGETHER)]
    assert len(others) > 500
    assert [name for name in others if not counterpart(name)] == []
    for name in others:
        assert read(**{name: "x"})[1] == [f"settings.py: {name} has no effect: {counterpart(name)}"]


def test_the_lists_are_whole() -> None:
    assert {section: len(listed) for section, listed in NAMES.items()} == {
        "scrapy": 221,
        "scrapy-redis": 32,
        "crawlo": 423,
        "crawlo keywords": 25,
    }


def test_scrapy_as_installed_has_no_name_that_the_list_lacks() -> None:
    defaults = pytest.importorskip("scrapy.settings.default_settings")
    own = {name for name in vars(defaults) if name.isupper()}
    assert not {name for name in own if name not in NAMES["scrapy"] and not counterpart(name)}


def test_the_table_names_settings_that_there_are_and_each_name_once() -> None:
    assert {setting for setting, _ in FOREIGN.values()} <= set(names())
    assert {setting for values in SWITCHES.values() for setting in values} <= set(names())
    tables = [set(FOREIGN), set(SWITCHES), set(TOGETHER), set(COUNTERPARTS)]
    assert sum(map(len, tables)) == len(set().union(*tables))
    prefixes = [prefix for prefix, _ in FAMILIES]
    assert not [
        (late, early) for place, late in enumerate(prefixes) for early in prefixes[:place] if late.startswith(early)
    ]


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ({"URLLENGTH_LIMIT": 2083}, {"max_url_length": 2083}),
        ({"URLLENGTH_LIMIT": 0}, {"max_url_length": 4096}),
        (
            {"MEMUSAGE_LIMIT_MB": 512, "MEMUSAGE_WARNING_MB": 0},
            {"memory_limit_bytes": 1 << 29, "memory_warning_bytes": None},
        ),
        (
            {"MEMUSAGE_LIMIT_MB": 512, "MEMUSAGE_ENABLED": False},
            {"memory_limit_bytes": None, "memory_warning_bytes": None},
        ),
        ({"RETRY_TIMES": 5, "RETRY_ENABLED": True}, {"max_attempts": 6}),
        ({"RETRY_ENABLED": False, "RETRY_TIMES": 5}, {"max_attempts": 1}),
        ({"REDIRECT_ENABLED": "False"}, {"max_redirects": 0}),
        ({"RETRY_HTTP_CODES": [500, 502]}, {"retry_statuses": [500, 502]}),
        ({"RETRY_PRIORITY": -100}, {"retry_priority": -100}),
        ({"DOWNLOAD_VERIFY_CERTIFICATES": "0"}, {"verify_tls": False}),
        ({"HTTPX_HTTP2_ENABLED": 1}, {"http2": True}),
        ({"CONNECTION_POOL_LIMIT_PER_HOST": 20}, {"per_host": 20}),
        (
            {"BLOOM_FILTER_CAPACITY": 1000, "BLOOM_FILTER_ERROR_RATE": 0.01},
            {"dedup_capacity": 1000, "dedup_error_rate": 0.01},
        ),
        ({"CLUSTER_GRACEFUL_SHUTDOWN_TIMEOUT": 30}, {"shutdown_seconds": 30}),
        ({"INTERVAL": 60}, {"stats_seconds": 60}),
        (
            {"LOG_FILE": "a.log", "LOG_MAX_BYTES": 1000, "LOG_BACKUP_COUNT": 3},
            {"log_file": "a.log", "max_log_bytes": 1000, "max_log_files": 3},
        ),
        (
            {"MAX_RETRY_TIMES": 3, "CONCURRENCY": 8, "VERIFY_SSL": False},
            {"max_attempts": 4, "concurrency": 8, "verify_tls": False},
        ),
        (
            {"PIPELINES": {"shop.pipes.B": 2, "shop.pipes.A": 1, "crawlo.pipelines.ConsolePipeline": 0}},
            {"item_functions": "shop.pipes:A,shop.pipes:B"},
        ),
        ({"PIPELINES": ["crawlo.pipelines.JsonPipeline", "shop.pipes.A"]}, {"item_functions": "shop.pipes:A"}),
        ({"ITEM_PIPELINES": {CrawloConfig: 1}}, {"item_functions": "skitter.spiders.crawlo_config:CrawloConfig"}),
    ],
)
def test_values_are_converted(values: dict[str, Any], known: dict[str, Any]) -> None:
    assert read(**values) == (known, [], "")


def test_names_with_one_counterpart_are_told_in_one_line() -> None:
    assert read(MYSQL_HOST="h", MYSQL_PORT=3306, MYSQL_USER="root", MY_OWN=1)[1] == [
        f"settings.py: MYSQL_HOST, MYSQL_PORT, MYSQL_USER have no effect: {counterpart('MYSQL_HOST')}",
        "settings.py: ignored, because skitter has no equivalent: MY_OWN",
    ]


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ({"SCHEDULER": "scrapy_redis.scheduler.Scheduler"}, "redis://127.0.0.1:6379/0"),
        ({"SCHEDULER": "scrapy_redis.scheduler.Scheduler", "REDIS_URL": "redis://r:1/2"}, "redis://r:1/2"),
        ({"DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter", "REDIS_HOST": "r"}, "redis://r:6379/0"),
        (
            {
                "SCHEDULER": "skitter.contrib.scrapy.Scheduler",
                "REDIS_PARAMS": {"password": "p@s", "db": 3, "timeout": 1},
            },
            "redis://:p%40s@127.0.0.1:6379/3",
        ),
        ({"RUN_MODE": "distributed", "REDIS_HOST": "::1", "REDIS_PORT": "6380"}, "redis://[::1]:6380/0"),
        (
            {"QUEUE_TYPE": "redis_stream", "REDIS_USER": "u", "REDIS_PASSWORD": "p", "REDIS_SSL": True},
            "rediss://u:p@127.0.0.1:6379/0",
        ),
        (
            {"QUEUE_TYPE": "auto", "RUN_MODE": "distributed", "REDIS_URL": "redis://r/1", "REDIS_PASSWORD": "p"},
            "redis://:p@r/1",
        ),
        ({"QUEUE_TYPE": "redis", "REDIS_CLUSTER_NODES": ["a:7000", "b:7001"]}, "redis+cluster://a:7000,b:7001"),
        ({"QUEUE_TYPE": "redis", "REDIS_CLUSTER_NODES": [{"host": "a", "port": 7000}]}, "redis+cluster://a:7000"),
        (
            {"RUN_MODE": "distributed", "REDIS_SENTINEL_URLS": ["redis://a:26379", "redis://b:26379"], "REDIS_DB": 2},
            "redis+sentinel://a:26379,b:26379/mymaster/2",
        ),
        ({"SKITTER_FRONTIER": "sqlite:jobs.db", "REDIS_HOST": "r"}, "sqlite:jobs.db"),
    ],
)
def test_a_job_in_redis_is_in_that_frontier(values: dict[str, Any], url: str) -> None:
    assert read(**values) == ({}, [], url)


def test_a_redis_that_the_job_is_not_in_is_named_without_its_password() -> None:
    known, warnings, frontier = read(
        REDIS_HOST="r", REDIS_PASSWORD="secret", RUN_MODE="standalone", QUEUE_TYPE="memory"
    )
    assert (known, frontier) == ({}, "")
    assert "REDIS_HOST, REDIS_PASSWORD have no effect: --frontier redis://" in warnings[0]
    assert "r:6379/0" in warnings[0]
    assert "QUEUE_TYPE, RUN_MODE have no effect" in warnings[1]
    assert "secret" not in "".join(warnings)


@pytest.mark.parametrize("values", [{"REDIS_PARAMS": "x"}, {"REDIS_PORT": "x"}, {"REDIS_CLUSTER_NODES": 3}])
def test_an_address_that_is_none_is_an_error(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"settings.py"):
        read(RUN_MODE="distributed", **values)


@pytest.mark.parametrize("module", ["crawlo.config", "crawlo.core.config"])
def test_a_module_of_crawlo_is_read_without_the_package(module: str, tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(
        f"from {module} import CrawloConfig\n"
        "config = CrawloConfig.distributed(project_name='shop', redis_host='r', redis_port=6380, redis_password='p',\n"
        "    redis_db=2, concurrency=16, download_delay=1.5, retry_http_codes=[500], log_file='a.log',\n"
        "    log_max_bytes=1000, log_backup_count=2, memory_limit_mb=100, redis_pool_size=50, extensions=['a.B'])\n"
        "locals().update(config.to_dict())\n"
        "LOG_LEVEL = 'DEBUG'\n"
    )
    found = settings_layers.collect(
        spider=("", {}),
        project=settings_layers.read_project(tmp_path),
        environment={},
        config=str(tmp_path / "settings.py"),
        overrides=[],
    )
    assert found.frontier == "redis://:p@r:6380/2"
    run, log, politeness = found.settings.run, found.settings.logging, found.settings.politeness
    assert (run.concurrency, run.memory_limit_bytes, politeness.delay_seconds) == (16, 100 << 20, 1.5)
    assert (log.log_file, log.max_log_bytes, log.max_log_files, log.log_level) == ("a.log", 1000, 2, "debug")
    assert found.settings.retry.retry_statuses == "500"
    told = "\n".join(found.warnings)
    for name in ("PROJECT_NAME", "REDIS_POOL_SIZE", "EXTENSIONS"):
        assert f"{name} has no effect: {counterpart(name)}" in told
    assert "crawlo" not in sys.modules


def test_a_configuration_that_the_module_only_keeps_in_a_variable_counts_and_its_own_names_win(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(
        "from crawlo.config import CrawloConfig\n"
        "config = CrawloConfig.standalone('shop', concurrency=4).set_delay(2).enable_debug()\n"
        "CONCURRENCY = 5\n"
    )
    found = settings_layers.collect(
        spider=("", {}),
        project=settings_layers.read_project(tmp_path),
        environment={},
        config=str(tmp_path / "settings.py"),
        overrides=[],
    )
    assert (found.settings.run.concurrency, found.settings.politeness.delay_seconds, found.frontier) == (5, 2.0, "")


@pytest.mark.parametrize("keyword", NAMES["crawlo keywords"])
def test_every_keyword_of_crawlos_configurations_is_a_name_of_the_table(keyword: str) -> None:
    (name,) = CrawloConfig.custom(**{keyword: 1}).to_dict()
    assert name in FOREIGN or name in TOGETHER or counterpart(name)


def test_an_installed_crawlo_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    with crawlo_names():
        assert "crawlo" not in sys.modules
