"""Names of counters with open ends, as those of spiders and hooks: parts of a job's tally, which commits add up."""

from __future__ import annotations

from collections.abc import Collection, Mapping

STAT = "stat:"
"""Prefix of what a spider or a hook counts by ``self.stats``."""
HOOK = "hook:"
"""Prefix of what hooks have decided: ``hook:DECISION:REASON``."""
EMPTY_SITEMAP = "empty_sitemap:"
"""Prefix of the URL of a sitemap that lists nothing. Each worker names a few of them."""
OTHER = "other"
"""Stands for all names that a job has no room for."""
MAX_COUNTERS = 500
"""Names in the tally of a job, beyond which a new name of a spider or a hook is counted under ``OTHER``: a name made of
what pages say would grow without an end. (Where a job is in shards, of each shard.)"""


def counted_name(name: str, tally: Collection[str]) -> str:
    """Return the name that a count is added to in a tally with these names."""
    if len(tally) >= MAX_COUNTERS and name not in tally:
        for prefix in (STAT, HOOK):
            if name.startswith(prefix):
                return prefix + OTHER
    return name


def stats_of(tally: Mapping[str, int]) -> dict[str, int]:
    """Return what spiders and hooks have counted, by name."""
    return without_prefix(tally, STAT)


def decisions_of(tally: Mapping[str, int]) -> dict[str, int]:
    """Return what hooks have decided, by ``DECISION:REASON``."""
    return without_prefix(tally, HOOK)


def without_prefix(tally: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the counts of the names with this prefix, which is removed, in the order of the names."""
    found = {name.removeprefix(prefix): count for name, count in tally.items() if name.startswith(prefix) and count}
    return dict(sorted(found.items()))
