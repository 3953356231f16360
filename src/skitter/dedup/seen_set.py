"""The base class of all sets: keys become fingerprints, and what waits for a server can be awaited."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Self

Key = str | bytes


class Fingerprints:
    """64-bit hashes of keys. The secret keys the hash: nobody can craft two keys that collide."""

    __slots__ = ("_keyed",)

    def __init__(self, secret: bytes) -> None:
        self._keyed = hashlib.blake2b(digest_size=8, key=secret)

    def of(self, keys: Iterable[Key]) -> list[int]:
        """Return the fingerprint of each key: signed, as Redis keeps integers."""
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
    """A set that says of each key whether it is new. It knows keys by 64-bit hashes that a secret of its own keys.

    Keys are text or bytes. Every call is one atomic step: of several threads, and in Redis of several processes, that
    add the same key at once, one is told that it is new.
    """

    forgets = False
    """Whether it may forget a key that was added."""
    is_shared = False
    """Whether other processes have it too. Calls then wait for a server, and their async forms run in a thread."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._fingerprints = Fingerprints(secret or new_secret())

    def add(self, key: Key) -> bool:
        """Add a key; return whether it is new."""
        return self.add_many((key,))[0]

    def add_many(self, keys: Iterable[Key]) -> list[bool]:
        """Add keys; return for each whether it is new. Of equal keys the first one is."""
        return self.add_ids(self._fingerprints.of(keys))

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        """Return for each key whether it is known. Nothing is added."""
        return self.contains_ids(self._fingerprints.of(keys))

    def __contains__(self, key: Key) -> bool:
        return self.contains_many((key,))[0]

    async def add_async(self, key: Key) -> bool:
        """Add a key, as ``add`` does, without blocking the event loop."""
        return (await self.add_many_async((key,)))[0]

    async def add_many_async(self, keys: Iterable[Key]) -> list[bool]:
        """Add keys, as ``add_many`` does, without blocking the event loop."""
        return await asyncio.to_thread(self.add_many, keys) if self.is_shared else self.add_many(keys)

    async def contains_many_async(self, keys: Iterable[Key]) -> list[bool]:
        """Look for keys, as ``contains_many`` does, without blocking the event loop."""
        return await asyncio.to_thread(self.contains_many, keys) if self.is_shared else self.contains_many(keys)

    def close(self) -> None:  # noqa: B027  most have nothing to close
        """Close connections. What is in Redis stays there."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def add_ids(self, ids: Sequence[int]) -> list[bool]:
        """Add what is hashed already: signed 64-bit numbers that are random, such as the ids of requests."""

    @abstractmethod
    def contains_ids(self, ids: Sequence[int]) -> list[bool]:
        """Look for what is hashed already."""
