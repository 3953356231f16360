"""The memory of a worker process: each size is told once."""

from __future__ import annotations

import sys

import pytest

from skitter.node.memory_watch import MemoryWatch, resident_bytes


def test_a_warning_then_the_limit_each_once() -> None:
    told: list[tuple[str, int]] = []
    sizes = iter([50, 100, 150, 200, 250])
    watch = MemoryWatch(
        warning_bytes=100,
        limit_bytes=200,
        on_warning=lambda size: told.append(("warning", size)),
        on_limit=lambda size: told.append(("limit", size)),
        measure=lambda: next(sizes),
    )
    for _ in range(6):
        watch.look()
    assert told == [("warning", 100), ("limit", 200)]
    assert watch.reached_bytes == 200


def test_without_sizes_nothing_is_measured() -> None:
    def measured(_: int = 0) -> int:
        raise AssertionError("it was measured")

    MemoryWatch(warning_bytes=None, limit_bytes=None, on_warning=measured, on_limit=measured, measure=measured).look()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_the_memory_of_this_process_grows() -> None:
    before = resident_bytes()
    # Above 32 MB the C library always asks the system for new pages. Below, it may have some from an earlier test.
    kept = bytearray(b"x") * 50_000_000
    assert resident_bytes() - before > 40_000_000
    del kept
