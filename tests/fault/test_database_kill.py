"""kill -9 of the writer and of the server during a crawl: each item is in the database once, read back from there.

What was written before stays written: each server keeps what it said was durable.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig.killed_crawl import PER_PAGE, Crawl, expected_items, under_kills
from rig.places import PLACES

from own_databases import KINDS, OwnServer
from skitter.testing.web import WebSpec, served

REPORTS = Path(__file__).resolve().parents[2] / "build" / "fault-report"


@contextlib.contextmanager
def database(kind: str, services: Any, folder: Path) -> Iterator[tuple[str, OwnServer | None]]:
    """An address, and the server behind it."""
    if kind == "sqlite":
        yield f"sqlite:{folder}/items.db", None
        return
    services.need(kind)  # installs it where it is missing
    server = KINDS[kind]()
    try:
        yield server.url, server
    finally:
        server.remove()


def crawl_under_kills(
    skitter: Any, services: Any, kind: str, *, pages: int, kills: int, server_kills: int, per_host: int
) -> tuple[int, int, int]:
    """Missing items, doubled ones, and how many there are.

    ``per_host`` and the latency of the web make the crawl longer than all its faults together.
    """
    chance = random.Random(f"{kind} {pages}")
    spec = WebSpec.plain(hosts=5, pages_per_host=pages // 5, latency_seconds=0.1)
    with database(kind, services, skitter.folder) as (url, server), served(spec) as web:
        crawl = Crawl(skitter, web, f"{url}#parts", per_host)
        under_kills(crawl, server, kills=kills, server_kills=server_kills, chance=chance)
        expected = expected_items(web)
        rows = PLACES[kind](url, "parts").rows()
        found = Counter((row["url"], int(row["part"])) for row in rows)
        keys = Counter(row[PLACES[kind].key] for row in rows)
        assert all(row["text"] == "x" * 300 for row in rows)
    doubled = sum((found - expected).values()) + sum(count - 1 for count in keys.values())
    return sum((expected - found).values()), doubled, len(rows)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.soak] if kind == "mariadb" else []) for kind in PLACES]
)
def test_a_database_holds_each_item_once_whoever_is_killed(skitter, services, kind):
    missing, doubled, items = crawl_under_kills(skitter, services, kind, pages=300, kills=3, server_kills=1, per_host=1)
    assert (missing, doubled, items) == (0, 0, 300 * PER_PAGE)


@pytest.mark.soak
@pytest.mark.parametrize("kind", list(PLACES))
def test_twenty_kills_of_the_writer_and_five_of_the_server(skitter, services, kind):
    missing, doubled, items = crawl_under_kills(
        skitter, services, kind, pages=5000, kills=20, server_kills=5, per_host=2
    )
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"database-{kind}-soak.txt").write_text(
        f"kill -9 of the writer x20{'' if kind == 'sqlite' else ' and of the server x5'}, {kind}:"
        f" {items} items, missing {missing}, doubled {doubled}\n"
    )
    assert (missing, doubled, items) == (0, 0, 5000 * PER_PAGE)
