"""Layers: a local cache and a Bloom filter in front of a store, which decides."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import msgspec

from skitter.dedup.exact import BoundedSet
from skitter.dedup.seen_set import SeenSet
from skitter.errors import UsageError


class LayerStats(msgspec.Struct, kw_only=True):
    """Number of added and looked-up keys that each layer has answered for."""

    cache_hits: int = 0
    """Keys found in the local cache; no other layer was queried."""
    bloom_misses: int = 0
    """Keys not in the Bloom filter, which are certainly new."""
    store_hits: int = 0
    """Keys found in the store."""
    false_positives_avoided: int = 0
    """Keys that the Bloom filter reported as seen and the store as new."""


class LayeredSet(SeenSet):
    """Set with a local cache, and optionally a Bloom filter, in front of a store.

    The cache answers for keys that it has seen. The store decides whether a key is new, so if two
    processes add the same key at once, only one of them gets True. The Bloom filter saves
    lookups: ``contains_many`` queries the store only for keys that the filter may contain.
    """

    def __init__(self, store: SeenSet, *, bloom: SeenSet | None = None, cache_bytes: int = 16 << 20) -> None:
        if store.forgets or (bloom is not None and bloom.forgets):
            raise UsageError(
                f"a set that forgets keys cannot have a cache: {type(store).__name__}",
                hint="the cache would still contain forgotten keys; use the set alone",
            )
        if bloom is not None and store.is_shared and not bloom.is_shared:
            raise UsageError(
                f"a shared set needs a shared Bloom filter: {type(bloom).__name__}",
                hint="the filter would lack the keys of other processes; put both into Redis, or omit the filter",
            )
        super().__init__()
        # One hash of a key is enough for all layers; processes that share a store have its secret in common.
        self._fingerprints = store._fingerprints  # noqa: SLF001
        self._store = store
        self._bloom = bloom
        self._cache = BoundedSet(max_bytes=cache_bytes)
        self.is_shared = store.is_shared or (bloom is not None and bloom.is_shared)
        self._stats = LayerStats()

    def stats(self) -> LayerStats:
        """Return the number of keys that each layer has answered for."""
        return msgspec.structs.replace(self._stats)

    def add_ids(self, ids: Sequence[int]) -> list[bool]:
        unknown = self._not_cached(ids)
        asked = list(compress(ids, unknown))
        # The filter first: a process that dies in between leaves a key that the store still calls new.
        maybe = self._missed(self._bloom.add_ids(asked)) if self._bloom is not None else None
        fresh = self._store.add_ids(asked) if asked else []
        self._count(fresh, maybe)
        self._cache.add_ids(asked)
        answers = iter(fresh)
        return [each and next(answers) for each in unknown]

    def contains_ids(self, ids: Sequence[int]) -> list[bool]:
        unknown = self._not_cached(ids)
        asked = list(compress(ids, unknown))
        maybe = [True] * len(asked)
        if self._bloom is not None and asked:
            maybe = self._missed([not known for known in self._bloom.contains_ids(asked)])
        doubtful = list(compress(asked, maybe))
        found = self._store.contains_ids(doubtful) if doubtful else []
        self._count([not known for known in found], [True] * len(found) if self._bloom is not None else None)
        self._cache.add_ids(list(compress(doubtful, found)))
        of_store = iter(found)
        of_layers = iter([each and next(of_store) for each in maybe])
        return [not each or next(of_layers) for each in unknown]

    def close(self) -> None:
        self._store.close()
        if self._bloom is not None:
            self._bloom.close()

    def _not_cached(self, ids: Sequence[int]) -> list[bool]:
        unknown = [not known for known in self._cache.contains_ids(ids)]
        self._stats.cache_hits += len(unknown) - sum(unknown)
        return unknown

    def _missed(self, absent: Sequence[bool]) -> list[bool]:
        """Count the keys that the filter does not contain; return for each key whether it may contain it."""
        self._stats.bloom_misses += sum(absent)
        return [not each for each in absent]

    def _count(self, fresh: Sequence[bool], maybe: Sequence[bool] | None) -> None:
        """Count the answers of the store. ``maybe``: for each key, whether the filter may contain it."""
        self._stats.store_hits += len(fresh) - sum(fresh)
        if maybe is not None:
            self._stats.false_positives_avoided += sum(compress(fresh, maybe))
