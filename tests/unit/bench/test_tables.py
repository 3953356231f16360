"""Figures of several rounds, and the tables that show them."""

from __future__ import annotations

import pytest

from skitter.bench import crawl_bench, frontier_bench, profile
from skitter.bench.figures import Machine, Spread, spread
from skitter.bench.profile_parts import PARTS
from skitter.bench.tables import as_text

MACHINE = Machine(system="Linux x86_64", cores=128, python="3.14.10", skitter="10.10.10")


def test_the_median_stands_between_lowest_and_highest() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert spread([7]) == Spread(7.0, 7.0, 7.0)
    assert spread([1.0, 2.0]) == Spread(1.5, 1.0, 2.0)


def test_no_figure_has_more_digits_than_it_is_sure_of() -> None:
    assert spread([12345.678, 0.00012345678]).high == 12350
    assert spread([12345.678, 0.00012345678]).low == 0.0001235


def crawl_row(name: str) -> crawl_bench.Row:
    return crawl_bench.Row(
        name=name,
        pages=1_000_000,
        pages_per_second=Spread(12345.0, 11234.0, 13456.0),
        cpu_ms_per_page=Spread(10.123, 10.001, 10.456),
        cpu_to_bare_parts=12.345,
        peak_bytes=Spread(123.4e6, 123.4e6, 123.4e6),
    )


def frontier_row(name: str) -> frontier_bench.Row:
    rate = Spread(123456.0, 1.0, 2.0)
    return frontier_bench.Row(
        frontier=name,
        requests=10_000_000,
        hosts=1_000_000,
        duplicates=99,
        queued=100_000,
        adds_per_second=Spread(1234567.0, 1.0, 2.0),
        leases_per_second=rate,
        commits_per_second=rate,
        urls_per_second=rate,
        microseconds_per_url=Spread(123.4, 1.0, 2.0),
        holds="memory",
        bytes_per_url=1234.0,
    )


REPORTS = [
    crawl_bench.Report(
        machine=MACHINE,
        site="1,000,000 pages of 7 kB with 20 links, one host, served by this machine",
        rounds=3,
        rows=[crawl_row("bare parts"), crawl_row("sqlite")],
    ),
    frontier_bench.Report(machine=MACHINE, rounds=3, rows=[frontier_row("memory"), frontier_row("sqlite")]),
    profile.Report(
        machine=MACHINE,
        site="1,000,000 pages of 7 kB with 20 links, one host, served by this machine",
        frontier="sqlite",
        rounds=3,
        pages=3_000_000,
        samples=123_456,
        cpu_us_per_page=1234.5,
        rows=[
            profile.Row(part=part, us_per_page=1234.5, percent=100.0, plus_or_minus=10.1, meaning=meaning)
            for part, meaning in PARTS.items()
        ],
    ),
]


@pytest.mark.parametrize("report", REPORTS, ids=["crawls", "frontiers", "profile"])
def test_a_table_fits_on_80_columns_and_says_whose_figures_it_shows(report) -> None:
    lines = as_text(report)
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert any("this machine" in line and "128 cores" in line for line in lines)


def test_a_store_that_cannot_be_asked_has_no_bytes() -> None:
    row = frontier_row("redis+cluster")
    unknown = frontier_bench.Row(
        **{name: getattr(row, name) for name in row.__struct_fields__} | {"bytes_per_url": None}
    )
    table = as_text(frontier_bench.Report(machine=MACHINE, rounds=1, rows=[unknown]))
    assert table[1].endswith(" -")
