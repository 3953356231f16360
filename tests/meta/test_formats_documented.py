"""The page on upgrades and the changelog name the formats that the code has."""

from __future__ import annotations

import re
from pathlib import Path

from skitter.frontier.http import wire
from skitter.frontier.redis import codec
from skitter.frontier.sqlite import store
from skitter.schedule_store import records

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_on_upgrades_has_the_formats_of_the_code() -> None:
    page = (ROOT / "docs" / "how-to" / "upgrade.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| ([\w ]+) \| (\d+) \|", page, re.MULTILINE)) == {
        "jobs in SQLite": str(store.FORMAT),
        "jobs in Redis": str(codec.FORMAT),
        "schedules": str(records.FORMAT),
        "protocol of a master": wire.VERSION,
    }


def test_the_changelog_names_the_formats_of_the_next_version() -> None:
    text = " ".join((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split())
    assert f"SQLite {store.FORMAT}, Redis {codec.FORMAT}, protocol of a master {wire.VERSION}." in text
