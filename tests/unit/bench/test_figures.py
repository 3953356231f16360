"""What is compared: medians with their spread, and ratios of medians; who has no figures is told, and in no ratio."""

from __future__ import annotations

from typing import Any

from figures import Crawls, Spread, fastest_peer, findings, ratio, ratios, rows, short_rows


def crawls(*speeds: float, cpu: float = 1.0, **more: Any) -> Crawls:
    figures = {"cpu_ms_per_page": cpu, "rss_mb": 60, "rss_mb_all": 90, "rss_mb_at_1000_pages": 50} | more
    return Crawls(rounds=[{"pages_per_second": speed} | figures for speed in speeds])


def comparison() -> dict[str, Crawls]:
    return {
        "bare parts": crawls(1000, cpu=0.5),
        "skitter, SQLite": crawls(700, 900, 800, cpu=0.75),
        "skitter, Redis": crawls(600),
        "Scrapy": crawls(20, cpu=25),
        "scrapy-redis": crawls(10),
        "Crawlee": crawls(100),
        "Crawlo": Crawls(rounds=[{"pages_per_second": 9999}], failure="Crawlo had 3 pages instead of 1000"),
    }


def test_a_spread_shows_the_median_and_both_ends() -> None:
    assert Spread.of([900, 700, 1200]).shown(0) == "900 (700 to 1,200)"
    assert Spread.of([0.614]).shown(2) == "0.61"


def test_ratios_are_of_medians() -> None:
    table = comparison()
    assert ratio(table, "skitter, SQLite", "Scrapy", "pages_per_second") == 40
    assert ratios(table)["skitter, SQLite"]["CPU to bare parts"] == 1.5
    assert ratios(table)["skitter, SQLite"]["memory after 1000 pages"] == 1.2


def test_a_crawler_that_failed_has_a_reason_and_no_figures() -> None:
    table = comparison()
    assert "Crawlo" not in [row["crawler"] for row in rows(table)]
    assert fastest_peer(table) == "Crawlee"
    assert ratio(table, "skitter, SQLite", "Crawlo", "pages_per_second") is None
    assert findings(table)[-1] == "Crawlo: no figures. Crawlo had 3 pages instead of 1000"


def test_what_is_wanted_can_be_read_off() -> None:
    assert findings(comparison())[:3] == [
        "skitter, SQLite: 40 x the pages/s of Scrapy",
        "skitter, Redis: 60 x the pages/s of scrapy-redis",
        "skitter, SQLite: 8.00 x the pages/s of Crawlee, the fastest of the others",
    ]


def test_a_run_without_peers_is_a_table_too() -> None:
    table = {"bare parts": crawls(1000, cpu=0.5), "skitter, SQLite": crawls(500)}
    assert rows(table)[1] == {
        "crawler": "skitter, SQLite",
        "pages/s": "500",
        "CPU ms/page": "1.00",
        "memory MB": "90",
        "speed to Scrapy": "-",
        "CPU to bare parts": "2.00 x",
    }
    assert findings(table) == []
    assert fastest_peer(table) == ""


def test_the_short_table_has_those_that_were_measured_somewhere() -> None:
    small = {
        "bare parts": crawls(5000),
        "skitter, SQLite": crawls(3000),
        "Scrapy": Crawls(failure="not done after 600 s"),
    }
    short = short_rows({"docs": comparison(), "small": small})
    assert short == [
        {"pages a second": "skitter, SQLite", "docs": "800 (40 x)", "small": "3,000"},
        {"pages a second": "skitter, Redis", "docs": "600 (30 x)", "small": "-"},
        {"pages a second": "Crawlee", "docs": "100 (5.00 x)", "small": "-"},
        {"pages a second": "Scrapy", "docs": "20", "small": "-"},
        {"pages a second": "scrapy-redis", "docs": "10 (0.50 x)", "small": "-"},
        {"pages a second": "bare parts", "docs": "1,000 (50 x)", "small": "5,000"},
    ]
    assert [row["pages a second"] for row in short_rows({"small": small})] == ["skitter, SQLite", "bare parts"]
    more = comparison() | {"feapder": crawls(200)}
    listed = [row["pages a second"] for row in short_rows({"docs": more})]
    assert listed[2:6] == ["feapder", "Crawlee", "Scrapy", "scrapy-redis"], "every peer, the fastest first"
