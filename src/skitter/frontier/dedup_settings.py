"""The job's settings of dedup, as the frontiers apply them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from skitter.dedup import BloomFilter, ExpiringSet
from skitter.dedup.bloom_layout import SubFilter, layout, stats_of
from skitter.errors import JobError, UsageError
from skitter.frontier.damage_errors import settings_of
from skitter.model.bloom_stats import BloomStats
from skitter.model.job import JobSpec
from skitter.settings import Dedup


def dedup_of(spec: JobSpec) -> Dedup:
    """Return the settings of dedup of a job. Those that a job of an older version lacks have their defaults."""
    return settings_of(spec).dedup


def check_dedup(spec: JobSpec, *, can_forget: bool) -> None:
    """UsageError for settings that do not go together, or that the frontier cannot keep: not all ``can_forget``."""
    dedup = dedup_of(spec)
    name = "dedup=bloom" if dedup.dedup == "bloom" else "dedup_seconds" if dedup.dedup_seconds is not None else ""
    if dedup.dedup == "bloom" and dedup.dedup_seconds is not None:
        raise UsageError(
            "settings cannot be combined: dedup=bloom and dedup_seconds",
            hint="a Bloom filter cannot forget pages: omit one of them",
        )
    if name and not can_forget:
        raise UsageError(
            f"not available with a SQLite frontier: {name}",
            hint="SQLite keeps a row for each page, so a filter saves nothing; use --frontier redis://… or memory:",
        )


def is_same_dedup(before: JobSpec, now: JobSpec) -> bool:
    """Return whether what was remembered with the settings of ``before`` can be read with those of ``now``."""
    return dedup_of(before) == dedup_of(now)


def refuse_other_dedup(before: JobSpec, now: JobSpec) -> None:
    """JobError if the settings of dedup of an unfinished run have changed."""
    if not is_same_dedup(before, now):
        old: dict[str, Any] = msgspec.to_builtins(dedup_of(before))
        raise JobError(
            f"job {now.name} is unfinished, and its dedup cannot change:"
            f" {', '.join(f'{name}={value}' for name, value in old.items())}",
            hint="use these settings; --fresh discards the unfinished run",
        )


def ended_set(spec: JobSpec, clock: Callable[[], float]) -> BloomFilter | ExpiringSet | None:
    """Return an empty set for the ids of requests that are done or redirected; None: their rows are kept."""
    dedup = dedup_of(spec)
    if dedup.dedup == "bloom":
        return BloomFilter(capacity=dedup.dedup_capacity, error_rate=dedup.dedup_error_rate)
    if dedup.dedup_seconds is not None:
        return ExpiringSet(seconds=dedup.dedup_seconds, clock=clock)
    return None


def bloom_layout(dedup: Dedup, shards: int) -> list[dict[str, int]]:
    """Return the sub-filters of one shard, as scripts read them."""
    found: list[dict[str, int]] = msgspec.to_builtins(_layout(dedup, shards))
    return found


def bloom_stats(dedup: Dedup, shards: int, items: list[int], ones: list[int]) -> BloomStats:
    """Return the state of the filter of one shard."""
    return stats_of(_layout(dedup, shards), items, ones, dedup.dedup_error_rate)


def _layout(dedup: Dedup, shards: int) -> list[SubFilter]:
    return layout(-(-dedup.dedup_capacity // shards), dedup.dedup_error_rate)
