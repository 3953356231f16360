"""kill -9 of the writer and of the server during a crawl: each item is in the database once, read back from there.

What was written before stays written: each server keeps what it said was durable.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rig.killed_crawl import PER_PAGE, expected_items, is_delivered, kills_of, parts_crawl, under_kills
from rig.places import PLACES
from rig.servers.databases import KINDS
from rig.servers.own_server import OwnServer
from rig.services import OwnServers
from rig.soak import chance_of
from rig.watched_web import watched
from skitter.testing.web import WebSpec

REPORTS = Path(__file__).resolve().parents[2] / "build" / "fault-report"


def database(kind: str, own_server: OwnServers, folder: Path) -> tuple[str, OwnServer | None]:
    """An address, and the server behind it."""
    if kind == "sqlite":
        return f"sqlite:{folder}/items.db", None
    server = own_server(KINDS[kind])
    return server.url, server


def crawl_under_kills(
    skitter: Any, own_server: OwnServers, kind: str, *, pages: int, kills: int, server_kills: int
) -> tuple[int, int, int]:
    """Missing items, doubled ones, and how many there are."""
    chance = chance_of(f"{kind} {pages}")
    spec = WebSpec.plain(hosts=5, pages_per_host=pages // 5, latency_seconds=0.01)
    url, server = database(kind, own_server, skitter.folder)
    with watched(spec) as web:
        crawl = parts_crawl(skitter, web, f"{url}#parts")
        under_kills(crawl, web.gate, kills_of(crawl, server, chance, pages, kills, server_kills))
        assert is_delivered(skitter)
        expected = expected_items(web)
        rows = PLACES[kind](url, "parts").rows()
        found = Counter((row["url"], int(row["part"])) for row in rows)
        keys = Counter(row[PLACES[kind].key] for row in rows)
        assert all(row["text"] == "x" * 300 for row in rows)
    doubled = sum((found - expected).values()) + sum(count - 1 for count in keys.values())
    return sum((expected - found).values()), doubled, len(rows)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in ("sqlite", "postgresql") else [pytest.mark.soak]) for kind in PLACES],
)
def test_a_database_holds_each_item_once_whoever_is_killed(skitter, own_server, kind):
    missing, doubled, items = crawl_under_kills(skitter, own_server, kind, pages=40, kills=2, server_kills=1)
    assert (missing, doubled, items) == (0, 0, 40 * PER_PAGE)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", list(PLACES))
def test_twenty_kills_of_the_writer_and_five_of_the_server(skitter, own_server, kind):
    missing, doubled, items = crawl_under_kills(skitter, own_server, kind, pages=5000, kills=20, server_kills=5)
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"database-{kind}-soak.txt").write_text(
        f"kill -9 of the writer x20{'' if kind == 'sqlite' else ' and of the server x5'}, {kind}:"
        f" {items} items, missing {missing}, doubled {doubled}\n"
    )
    assert (missing, doubled, items) == (0, 0, 5000 * PER_PAGE)
