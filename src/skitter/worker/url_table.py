"""URLs as hashes of eight bytes, in a table that the workers of one node may share.

Alone, each worker would send every URL to the frontier once, and eight of them eight times: the more workers, the
more work for each page. Here a URL that one of them had accepted is known to all. And a worker alone knows a million
URLs by 16 MB: in a large site, whatever it has forgotten it sends again.

A hash belongs to a bucket of eight places, one line of the machine's cache. It takes a free one, or else that of some
older hash: nothing is locked, and nothing is certain to stay. Hashes have 64 bits and are keyed with the job's secret,
like fingerprints: a page cannot make a URL that looks known. (A place that is free holds eight zeros, which is some
URL's hash as well; that is as likely as any other of these.) The run and the life of the store are part of the key, so
that what was learnt of an earlier one is never met again. Places are written whole: a store of eight aligned bytes is
one step of the machine.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import sys
from collections.abc import Iterable
from typing import Self

from skitter.worker.shared_memory import new_shared_memory

_BYTES = 8
_PLACES = 8
_BUCKET_BYTES = _BYTES * _PLACES
_FREE = bytes(_BYTES)


def new_table(urls: int) -> int:
    """A file descriptor of an empty table with room for so many, to be handed to the workers.

    With twice as many places at least, of a full number of URLs fewer than one in a hundred finds its bucket full.
    """
    places = max(_PLACES, 1 << (2 * urls - 1).bit_length())
    return new_shared_memory("skitter-urls", places * _BYTES)


class UrlTable:
    """One worker's view of the table."""

    def __init__(self, descriptor: int, secret: bytes, run: int) -> None:
        # The map outlives the descriptor, which the caller may close.
        self._bytes = mmap.mmap(descriptor, 0)
        self._places = memoryview(self._bytes).cast("Q")
        self._mask = len(self._places) // _PLACES - 1
        self._secret = secret
        self._run = run
        self.meet("")

    @classmethod
    def alone(cls, urls: int, secret: bytes, run: int) -> Self:
        """A table that nobody else has."""
        descriptor = new_table(urls)
        try:
            return cls(descriptor, secret, run)
        finally:
            os.close(descriptor)

    def meet(self, store: str) -> None:
        """The life of the store that grants: what was learnt of another one is not known."""
        self._keyed = hashlib.blake2b(digest_size=_BYTES, key=self._secret)
        self._keyed.update(f"{self._run} {store}\n".encode())

    def __contains__(self, url: str) -> bool:
        # What a spider yields may be no URL at all, and halves of characters are among it.
        keyed = self._keyed.copy()
        keyed.update(url.encode("utf-8", "surrogatepass"))
        mark = keyed.digest()
        return mark in self._held(int.from_bytes(mark, "little") & self._mask)

    def learn(self, urls: Iterable[str]) -> None:
        """The frontier has these."""
        for url in urls:
            keyed = self._keyed.copy()
            keyed.update(url.encode("utf-8", "surrogatepass"))
            self._keep(keyed.digest())

    def _keep(self, mark: bytes) -> None:
        bucket = int.from_bytes(mark, "little") & self._mask
        held = self._held(bucket)
        if mark in held:
            return
        free = held.find(_FREE)
        # Buckets fill from the front, and zeros at the end of the last hash may be found first: rounded up. Full ones
        # give up any place, by bits of the hash that did not choose the bucket.
        place = (free + _BYTES - 1) // _BYTES if free >= 0 else mark[-1] % _PLACES
        self._places[bucket * _PLACES + place] = int.from_bytes(mark, sys.byteorder)

    def _held(self, bucket: int) -> bytes:
        # A copy: until Python 3.11.5, to search the map itself reads beyond its end, and that ends the process.
        return self._bytes[bucket * _BUCKET_BYTES : (bucket + 1) * _BUCKET_BYTES]
