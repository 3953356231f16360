"""The table of a page's parts: it names code that exists, and the nearest name decides."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from skitter.bench.profile_parts import PART_BY_NAME, PARTS, THREADS, part_at


@pytest.mark.parametrize("place", PART_BY_NAME)
def test_every_place_is_one_of_the_code(place: str) -> None:
    module, _, name = place.partition(":")
    found = import_module(module)
    for word in filter(None, name.split(".")):
        found = getattr(found, word)


@pytest.mark.parametrize("prefix", THREADS)
def test_every_thread_is_started_by_somebody(prefix: str) -> None:
    home, _ = THREADS[prefix]
    assert f'"{prefix}"' in inspect.getsource(import_module(home))


def test_only_the_parts_are_named_and_each_has_a_place() -> None:
    assert set(PART_BY_NAME.values()) == set(PARTS)
    assert {part for _, part in THREADS.values()} <= set(PARTS)


@pytest.mark.parametrize(
    ("module", "name", "part"),
    [
        ("skitter.extract.response", "Response.title", "parse"),
        ("skitter.extract.encoding", "decode", "decode"),
        ("skitter.model.url", "Joiner.all", "join"),
        ("skitter.model.url", "canonical.<locals>.<lambda>", "fingerprint"),
        ("skitter.model.request", "Fingerprinter.entry", "fingerprint"),
        ("skitter.model.request", "decode", None),
        ("skitter.frontier.sqlite.store", "SqliteStore._transact", "commit"),
        ("skitter.extraction", "f", None),
        ("json", "loads", None),
        ("", "f", None),
    ],
)
def test_the_nearest_name_decides(module: str, name: str, part: str | None) -> None:
    assert part_at(module, name, PART_BY_NAME) == part
