"""Exact sets in memory: of all keys, of the newest keys that fit into a given size, or of keys that expire."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from skitter.dedup.seen_set import SeenSet
from skitter.errors import UsageError
from skitter.policy.generations import GENERATIONS, generation_seconds

BYTES_PER_KEY = 160
"""Memory per key of a set of integers while it grows. The measured maximum is 154 bytes."""


class ExactSet(SeenSet):
    """Set of all keys in memory. It stores a 64-bit hash of each key."""

    def __init__(self, *, secret: bytes | None = None) -> None:
        super().__init__(secret)
        self._ids: set[int] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ids)

    def add_ids(self, ids: Sequence[int]) -> list[bool]:
        known, answers = self._ids, []
        with self._lock:
            for each in ids:
                before = len(known)
                known.add(each)
                answers.append(len(known) > before)
        return answers

    def contains_ids(self, ids: Sequence[int]) -> list[bool]:
        return [each in self._ids for each in ids]


class BoundedSet(SeenSet):
    """Set of the most recently added keys, as many as fit into ``max_bytes``.

    Older keys are forgotten and count as new again. The set has two halves. When the younger half is full, the older
    half is discarded as a whole.
    """

    forgets = True

    def __init__(self, *, max_bytes: int, secret: bytes | None = None) -> None:
        super().__init__(secret)
        if max_bytes < 2 * BYTES_PER_KEY:
            raise UsageError(f"too little memory for a set: {max_bytes} bytes", hint=f"one key takes {BYTES_PER_KEY}")
        self._half = max_bytes // BYTES_PER_KEY // 2
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def add_ids(self, ids: Sequence[int]) -> list[bool]:
        answers = []
        with self._lock:
            for each in ids:
                is_new = each not in self._young and each not in self._old
                answers.append(is_new)
                if is_new:
                    self._young.add(each)
                    if len(self._young) >= self._half:
                        self._old, self._young = self._young, set()
        return answers

    def contains_ids(self, ids: Sequence[int]) -> list[bool]:
        return [each in self._young or each in self._old for each in ids]


class ExpiringSet(SeenSet):
    """Set of the keys that were added in the last ``seconds``. Adding a key again does not restart its time.

    Keys are grouped in generations, each an eighth of the time long, and expire with their generation. So no time is
    stored per key and expiry searches nothing. A key is kept for at least ``seconds``, and at most an eighth longer.
    """

    forgets = True

    def __init__(
        self, *, seconds: float, secret: bytes | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(secret)
        self._span = generation_seconds(seconds)
        self._clock = clock
        # The one that is filled, and eight that are complete: a key of the oldest may be just as old as it must get.
        self._generations: deque[set[int]] = deque([set()], maxlen=GENERATIONS + 1)
        self._number = int(clock() / self._span)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            self._turn()
            return sum(map(len, self._generations))

    def add_ids(self, ids: Sequence[int]) -> list[bool]:
        answers = []
        with self._lock:
            self._turn()
            newest = self._generations[0]
            for each in ids:
                is_new = not any(each in generation for generation in self._generations)
                answers.append(is_new)
                if is_new:
                    newest.add(each)
        return answers

    def contains_ids(self, ids: Sequence[int]) -> list[bool]:
        with self._lock:
            self._turn()
            return [any(each in generation for generation in self._generations) for each in ids]

    def _turn(self) -> None:
        """Start the current generation and drop the expired ones."""
        number = int(self._clock() / self._span)
        for _ in range(min(number - self._number, GENERATIONS + 1)):
            self._generations.appendleft(set())
        self._number = max(number, self._number)
