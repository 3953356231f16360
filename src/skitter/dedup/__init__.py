"""Sets that report whether a key is new, and counts of distinct keys, in memory and in Redis.

Each class works on its own, in two lines, and crawls use the same classes (docs/how-to/dedup.md says which to choose):

    seen = BloomFilter(capacity=1_000_000)
    seen.add("https://shop.example/1")  # True: it is new

The classes for Redis need the extra ``redis`` and are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.dedup.bloom import BloomFilter as BloomFilter
from skitter.dedup.exact import BoundedSet as BoundedSet
from skitter.dedup.exact import ExactSet as ExactSet
from skitter.dedup.exact import ExpiringSet as ExpiringSet
from skitter.dedup.hyperloglog import HyperLogLog as HyperLogLog
from skitter.dedup.layered import LayeredSet as LayeredSet
from skitter.dedup.layered import LayerStats as LayerStats
from skitter.dedup.seen_set import SeenSet as SeenSet
from skitter.errors import ExtraMissingError
from skitter.model.bloom_stats import BloomStats as BloomStats

if TYPE_CHECKING:
    from skitter.dedup.redis_sets import RedisBloomFilter as RedisBloomFilter
    from skitter.dedup.redis_sets import RedisExactSet as RedisExactSet
    from skitter.dedup.redis_sets import RedisExpiringSet as RedisExpiringSet
    from skitter.dedup.redis_sets import RedisHyperLogLog as RedisHyperLogLog

__all__ = [
    "BloomFilter",
    "BloomStats",
    "BoundedSet",
    "ExactSet",
    "ExpiringSet",
    "HyperLogLog",
    "LayerStats",
    "LayeredSet",
    "RedisBloomFilter",
    "RedisExactSet",
    "RedisExpiringSet",
    "RedisHyperLogLog",
    "SeenSet",
]


if not TYPE_CHECKING:
    # Type checkers know the imports above, and report any other name.
    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            from skitter.dedup import redis_sets
        except ModuleNotFoundError as error:
            raise ExtraMissingError(name, "redis") from error
        return getattr(redis_sets, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
