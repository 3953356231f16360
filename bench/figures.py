"""From the figures of single crawls to what is compared: medians, their spread, and ratios of medians."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BARE_PARTS = "bare parts"
SCRAPY = "Scrapy"
SCRAPY_REDIS = "scrapy-redis"
OURS = "skitter"


@dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def shown(self, digits: int) -> str:
        """The median, and from where to where the rounds went if there were several."""
        median, low, high = (f"{value:,.{digits}f}" for value in (self.median, self.low, self.high))
        return median if low == high else f"{median} ({low} to {high})"


@dataclass
class Crawls:
    """All rounds of one crawler on one site."""

    rounds: list[Mapping[str, Any]] = field(default_factory=list)
    failure: str = ""
    """Why there are no figures."""

    def spread(self, name: str) -> Spread:
        return Spread.of([figures[name] for figures in self.rounds])

    def median(self, name: str) -> float:
        return self.spread(name).median


Table = Mapping[str, Crawls]


def measured(table: Table) -> dict[str, Crawls]:
    return {name: crawls for name, crawls in table.items() if not crawls.failure}


def fastest_peer(table: Table) -> str:
    """The other crawler with the most pages a second, or nothing."""
    others = [name for name in measured(table) if name != BARE_PARTS and not name.startswith(OURS)]
    return max(others, key=lambda name: table[name].median("pages_per_second"), default="")


def ratio(table: Table, name: str, other: str, figure: str) -> float | None:
    """How many times the one has what the other has, if both were measured."""
    found = measured(table)
    return found[name].median(figure) / found[other].median(figure) if name in found and other in found else None


def ratios(table: Table) -> dict[str, dict[str, float]]:
    """Of each of ours: CPU to the bare parts, speed to every peer, memory at the end to that after 1,000 pages."""
    told: dict[str, dict[str, float]] = {}
    for name, crawls in measured(table).items():
        if not name.startswith(OURS):
            continue
        to = {"CPU to bare parts": ratio(table, name, BARE_PARTS, "cpu_ms_per_page")}
        to |= {f"speed to {other}": ratio(table, name, other, "pages_per_second") for other in table if other != name}
        at_1000 = crawls.median("rss_mb_at_1000_pages")
        to["memory after 1000 pages"] = crawls.median("rss_mb") / at_1000 if at_1000 else None
        told[name] = {what: round(value, 3) for what, value in to.items() if value is not None}
    return told


def rows(table: Table) -> list[dict[str, str]]:
    """The table as it is shown; a crawler without figures is left to the sentences below it."""
    return [
        {
            "crawler": name,
            "pages/s": crawls.spread("pages_per_second").shown(0),
            "CPU ms/page": crawls.spread("cpu_ms_per_page").shown(2),
            "memory MB": f"{crawls.median('rss_mb_all'):,.0f}",
            "speed to Scrapy": times(ratio(table, name, SCRAPY, "pages_per_second")),
            "CPU to bare parts": times(ratio(table, name, BARE_PARTS, "cpu_ms_per_page")),
        }
        for name, crawls in measured(table).items()
    ]


def short_rows(tables: Mapping[str, Table]) -> list[dict[str, str]]:
    """Pages a second on every site: ours with a durable frontier, every peer by speed, and the bare parts."""
    first = next(iter(tables.values()))
    found = {name for table in tables.values() for name in measured(table)}
    peers = [name for name in found if name != BARE_PARTS and not name.startswith(OURS)]
    speeds = {name: crawls.median("pages_per_second") for name, crawls in measured(first).items()}
    peers.sort(key=lambda name: (-speeds.get(name, 0.0), name))
    return [
        {"pages a second": name} | {site: short_cell(table, name) for site, table in tables.items()}
        for name in [f"{OURS}, SQLite", f"{OURS}, Redis", *peers, BARE_PARTS]
        if name in found
    ]


def short_cell(table: Table, name: str) -> str:
    found = measured(table).get(name)
    if not found:
        return "-"
    to_scrapy = ratio(table, name, SCRAPY, "pages_per_second")
    speed = f"{found.median('pages_per_second'):,.0f}"
    return speed if to_scrapy is None or name == SCRAPY else f"{speed} ({times(to_scrapy)})"


def times(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} x" if value >= 10 else f"{value:.2f} x"


def findings(table: Table) -> list[str]:
    """What one wants to read off the table, and who is not in it; a line each."""
    best = fastest_peer(table)
    pairs = {
        (f"{OURS}, SQLite", SCRAPY): SCRAPY,
        (f"{OURS}, Redis", SCRAPY_REDIS): SCRAPY_REDIS,
        (f"{OURS}, SQLite", best): f"{best}, the fastest of the others",
    }
    found = []
    for (ours, other), called in pairs.items():
        value = ratio(table, ours, other, "pages_per_second")
        if value is not None:
            found.append(f"{ours}: {times(value)} the pages/s of {called}")
    return found + [f"{name}: no figures. {crawls.failure}" for name, crawls in table.items() if crawls.failure]
