"""Base class of all sets: converts keys to fingerprints and has async forms of all calls."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Self

Key = str | bytes


class Fingerprints:
    """64-bit hashes of keys. The hash is keyed with a secret, so nobody can craft two keys that collide."""

    __slots__ = ("_keyed",)

    def __init__(self, secret: bytes) -> None:
        self._keyed = hashlib.blake2b(digest_size=8, key=secret)

    def of(self, keys: Iterable[Key]) -> list[int]:
        """Return the fingerprint of each key as a signed integer, like those that Redis stores."""
        found, copy, from_bytes = [], self._keyed.copy, int.from_bytes
        for key in keys:
            keyed = copy()
            # Text that came from outside may have halves of surrogate pairs.
            keyed.update(key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key)
            found.append(from_bytes(keyed.digest(), "big", signed=True))
        return found


def new_secret() -> bytes:
    return secrets.token_bytes(16)


class SeenSet(ABC):
    """Set that reports whether a key is new. It identifies keys by 64-bit hashes, keyed with a secret of the set.

    Keys are text or bytes. Every call is one atomic step: if several threads (in Redis also several processes) add the
    same key at once, only one of them gets True.
    """

    forgets = False
    """Whether the set may forget a key that was added."""
    is_shared = False
    """Whether other processes share the set. Calls then wait for a server, and their async forms run in a thread."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._fingerprints = Fingerprints(secret or new_secret())

    def add(self, key: Key) -> bool:
        """Add a key and return whether it is new."""
        return self.add_many((key,))[0]

    def add_many(self, keys: Iterable[Key]) -> list[bool]:
        """Add keys and return for each whether it is new. Of equal keys in one call only the first counts as new."""
        return self.add_ids(self._fingerprints.of(keys))

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        """Return for each key whether the set contains it, without adding it."""
        return self.contains_ids(self._fingerprints.of(keys))

    def __contains__(self, key: Key) -> bool:
        return self.contains_many((key,))[0]

    async def add_async(self, key: Key) -> bool:
        """Add a key like ``add``, without blocking the event loop."""
        return (await self.add_many_async((key,)))[0]

    async def add_many_async(self, keys: Iterable[Key]) -> list[bool]:
        """Add keys like ``add_many``, without blocking the event loop."""
        return await asyncio.to_thread(self.add_many, keys) if self.is_shared else self.add_many(keys)

    async def contains_many_async(self, keys: Iterable[Key]) -> list[bool]:
        """Look up keys like ``contains_many``, without blocking the event loop."""
        return await asyncio.to_thread(self.contains_many, keys) if self.is_shared else self.contains_many(keys)

    def close(self) -> None:  # noqa: B027  most have nothing to close
        """Close connections. The data in Redis is kept."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def add_ids(self, ids: Sequence[int]) -> list[bool]:
        """Add keys that are already hashed: random signed 64-bit integers, such as the ids of requests."""

    @abstractmethod
    def contains_ids(self, ids: Sequence[int]) -> list[bool]:
        """Return for each already hashed key whether the set contains it."""
