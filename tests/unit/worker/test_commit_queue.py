"""What a worker remembers of its store, and when it forgets it."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.model.lease import Grant
from skitter.observe import events
from skitter.worker.commit_queue import CommitQueue
from skitter.worker.known_urls import KnownUrls
from skitter.worker.url_table import UrlTable

URL = "https://shop.example/1"


def granted(now: float, store: str = "one life") -> Grant:
    return Grant(leases=[], state="running", run=1, ask_again_seconds=1.0, now=now, store=store)


def queue_of(known: KnownUrls, generation_seconds: float) -> CommitQueue:
    source: Any = None
    return CommitQueue("w", source, known, generation_seconds=generation_seconds)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(events, "emit", lambda event: names.append(event.kind.name))
    return names


def test_what_is_known_is_forgotten_with_each_generation_of_the_store(told: list[str]) -> None:
    known = KnownUrls(UrlTable.alone(100, b"secret", 1))
    queue = queue_of(known, 10.0)
    queue.meet(granted(1000.0))
    known.learn([URL])
    queue.meet(granted(1009.9))
    assert URL in known
    queue.meet(granted(1010.0))
    assert URL not in known
    assert told == [], "the store is the same"


def test_it_is_kept_where_the_store_forgets_nothing_and_forgotten_with_its_life(told: list[str]) -> None:
    known = KnownUrls(UrlTable.alone(100, b"secret", 1))
    queue = queue_of(known, 0.0)
    queue.meet(granted(1000.0))
    known.learn([URL])
    queue.meet(granted(1e9))
    assert URL in known
    assert told == []
    queue.meet(granted(1e9, store="another life"))
    assert URL not in known
    assert told == ["frontier.replaced"]
