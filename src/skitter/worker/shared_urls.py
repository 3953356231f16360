"""What the workers of one node know together: a table of hashes in memory that their processes share.

Alone, each worker would send every URL to the frontier once, and eight of them eight times: the more workers, the
more work for each page. Here a URL that one of them had accepted is known to all.

The table has a place for each hash, and a newer hash takes the place of an older one: nothing is locked, and nothing is
certain to stay. Hashes have 64 bits and are keyed with the job's secret, like fingerprints: a page cannot make a URL
that looks known. The run and the life of the store are part of the key, so that what was learnt of an
earlier one is never met again. Places are written whole: a store of eight aligned bytes is one step of the machine.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterable

_BYTES = 8
_EMPTY = 0


def new_table(urls: int) -> int:
    """A file descriptor of an empty table with room for so many, to be handed to the workers."""
    places = 1 << max(urls - 1, 1).bit_length()
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("skitter-urls")
    else:
        # Not for everybody: where there is no such call, and it loads more than all of this.
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, places * _BYTES)
    return descriptor


class SharedUrls:
    """One worker's view of the table."""

    def __init__(self, descriptor: int, secret: bytes, run: int) -> None:
        # The map outlives the descriptor, which the caller may close.
        self._places = memoryview(mmap.mmap(descriptor, 0)).cast("Q")
        self._secret = secret
        self._run = run
        self.meet("")

    def meet(self, store: str) -> None:
        """The life of the store that grants: what was learnt of another one is not known."""
        self._keyed = hashlib.blake2b(digest_size=_BYTES, key=self._secret)
        self._keyed.update(f"{self._run} {store}\n".encode())

    def __contains__(self, url: str) -> bool:
        mark = self._mark(url)
        return self._places[mark % len(self._places)] == mark != _EMPTY

    def learn(self, urls: Iterable[str]) -> None:
        """The frontier has these."""
        places = self._places
        for url in urls:
            mark = self._mark(url)
            places[mark % len(places)] = mark

    def _mark(self, url: str) -> int:
        keyed = self._keyed.copy()
        keyed.update(url.encode())
        return int.from_bytes(keyed.digest(), "little")
