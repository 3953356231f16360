"""Verification of a chain: each entry is as it was sealed, follows the one before it, and noted heads are there."""

from __future__ import annotations

from collections.abc import Iterable

from skitter.audit.entry import GENESIS, PRUNE, Entry, Stored, hash_of, read_entry

MAX_PROBLEMS = 20
"""Of one chain; a chain that was written anew has one for each entry."""


class ChainCheck:
    """Reads the entries of one chain in their order, and keeps what is wrong."""

    def __init__(self, noted_heads: Iterable[str] = ()) -> None:
        self.missing = set(noted_heads) - {GENESIS}
        """Noted heads that were not met."""
        self.entries = 0
        self.problems: list[str] = []
        self.head = GENESIS
        self._first: Entry | None = None
        self._last_seq = 0
        self._anchors: dict[int, str] = {}

    def read(self, stored: Iterable[Stored]) -> None:
        for one in stored:
            self._read(one)

    def _read(self, stored: Stored) -> None:
        seq = stored.seq
        entry = read_entry(stored)
        if hash_of(stored.body) != stored.hash or entry is None:
            self._tell(f"entry {seq} was changed")
        elif entry.seq != seq:
            self._tell(f"entry {entry.seq} is in the place of {seq}: entries were inserted, removed or moved")
        if self.entries and seq != self._last_seq + 1:
            self._tell(f"entries are missing after {self._last_seq}: the next one is {seq}")
        elif self.entries and entry is not None and entry.previous != self.head:
            self._tell(f"entry {seq} does not follow the one before it")
        if not self.entries:
            self._first = entry
            if entry is not None and entry.seq == 1 and entry.previous != GENESIS:
                self._tell("entry 1 does not begin a chain")
        if entry is not None and entry.action == PRUNE and isinstance(through := entry.details.get("through"), int):
            self._anchors[through] = str(entry.details.get("hash", ""))
        self.entries += 1
        self._last_seq, self.head = seq, stored.hash
        self.missing.discard(stored.hash)

    def finish(self) -> None:
        """Look at the beginning: what is left of a chain that was pruned follows what an entry says."""
        first = self._first
        if first is None or first.seq == 1:
            return
        anchor = self._anchors.get(first.seq - 1)
        if anchor is None:
            self._tell(f"entries before {first.seq} are missing, and no entry says that they were pruned")
        elif anchor != first.previous:
            self._tell(f"entry {first.seq} does not follow the one that was pruned last")
        else:
            self.missing.discard(anchor)

    def _tell(self, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
