"""Bodies of transfers in progress, and their limits of size, ratio and memory.

A server chooses how its body is split and compressed. Either can cost the reader a thousand times what it costs the
sender, so neither is trusted: small pieces are joined early, a body that expands too much is not read to its cap, and
all bodies together have a memory budget.
"""

from __future__ import annotations

import contextlib
import enum
import io
from collections.abc import Container, Sequence

import pycurl

STEP_BYTES = 32_768
"""A body is looked at each time it has grown by this much, and what came since is joined. A piece of one or two bytes
takes fifty as an object; most pages are smaller than a step and are never looked at."""
ROOM_BYTES = 262_144
"""Bytes of every body that are always admitted."""
LUMP_BYTES = 8_388_608
"""Maximum growth within one call of libcurl, which reads up to 350 KB on loopback; no real page expands more."""
OFFERED = ("gzip", "deflate")
"""The encodings that servers are told of. Not Brotli, nor zstd: whoever unpacks them has a window of megabytes for each
body, and fills it before a byte is handed over. 64 of them took 200 MB."""
_EXPECTED = frozenset((b"x-gzip", *map(str.encode, OFFERED)))
BURST_BYTES = 2_500_000
"""Bytes that a compressed page may add before it can be paused again."""
LUMPS_TIMES = 2.5
"""Bytes of large waiting bodies, as a multiple of the budget, above which one more large lump is refused."""
RATIO_FROM_BYTES = 1_048_576
"""Size from which on the compression ratio is checked: a page of blanks is no attack."""


class Body:
    """Body of one transfer, up to a limit."""

    __slots__ = (
        *("_bodies", "_chunks", "_cut", "_encodings", "_joined", "_large", "_limit", "_lines", "_mark"),
        *("counted", "curl", "flaw", "looked_at", "paused", "settling", "size"),
    )

    def __init__(self, curl: pycurl.Curl, lines: Sequence[bytes], bodies: Bodies) -> None:
        """``lines``: the header lines of the transfer."""
        self.curl = curl
        self._lines = lines
        self._bodies = bodies
        self._chunks: list[bytes] = []
        self._joined: list[bytes] = []
        self._large: io.BytesIO | None = None
        self.counted = 0
        """Bytes of the budget that it uses."""
        self.paused = False
        self.settling = False
        """Whether libcurl is handing over what it had already decompressed."""
        self.begin(0)

    def begin(self, limit: int, *, cut: bool = False) -> None:
        """Start a new transfer; ``cut``: only the first ``limit`` bytes are wanted, and more is no error."""
        self._limit = limit
        self._cut = cut
        self.size = self.looked_at = 0
        self._encodings: list[bytes] | None = None
        self._mark = min(limit, STEP_BYTES)
        self.flaw = ""
        """Reason why the remaining body is not read: ``too_large``, ``unasked``, ``memory`` or ``cut``."""

    def write(self, chunk: bytes) -> int | None:
        """WRITEFUNCTION: libcurl hands over at most 16 KB at a time, decoded."""
        self.size += len(chunk)
        if self.size <= self._mark:
            self._chunks.append(chunk)
            return None
        return self._weigh(chunk)

    def _weigh(self, chunk: bytes) -> int | None:
        if self.size > self._limit:
            if self._cut:
                self._chunks.append(chunk[: len(chunk) - (self.size - self._limit)])
                return self._refuse("cut")
            return self._refuse("too_large")
        if self.size > ROOM_BYTES and not _EXPECTED.issuperset(self.encodings()):
            return self._refuse("unasked")
        room = self._bodies.room_for(self)
        if room is Admission.LATER:
            self.size -= len(chunk)
            self.paused = True
            return int(pycurl.WRITEFUNC_PAUSE)  # libcurl hands it over again
        if room is Admission.NEVER:
            return self._refuse("memory")
        self._chunks.append(chunk)
        self._join()
        self._mark = min(self._limit, self.size + STEP_BYTES)
        return None

    def _join(self) -> None:
        if self.size <= ROOM_BYTES:
            self._joined.append(b"".join(self._chunks))
        else:
            # Grows by moving its pages, not their content, and hands them over as they are: a large body is never
            # there twice. Below, the list is quicker.
            if self._large is None:
                self._large = io.BytesIO()
                self._large.writelines(self._joined)
                self._joined.clear()
            self._large.writelines(self._chunks)
        self._chunks.clear()

    def _refuse(self, flaw: str) -> int:
        self.flaw = flaw
        if flaw != "cut":
            self.clear()  # now, and not when the caller comes to look: others are growing meanwhile
            self._bodies.grown.add(self)
        return 0  # not what was handed over: libcurl ends the transfer

    def whole(self) -> bytes:
        """Return the whole body at the end."""
        if self._large is not None:
            self._large.writelines(self._chunks)
            return self._large.getvalue()
        chunks = self._joined + self._chunks if self._joined else self._chunks
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def clear(self) -> None:
        """Drop the body."""
        self._chunks.clear()
        self._joined.clear()
        self._large = None
        self.paused = False
        if self.counted:
            self._bodies.gone(self)

    def is_bomb(self, max_ratio: float | None) -> bool:
        """Return whether it exceeds the compression ratio. Not to be called from within ``write``."""
        if max_ratio is None or self.size <= RATIO_FROM_BYTES:
            return False
        return self.size > max_ratio * max(int(self.curl.getinfo(pycurl.SIZE_DOWNLOAD_T)), 1)

    def encodings(self) -> list[bytes]:
        """Return its content encodings; read from the headers only when the body is large."""
        if self._encodings is None:
            lines = (line[17:].lower() for line in self._lines if line[:17].lower() == b"content-encoding:")
            names = (name.strip() for line in lines for name in line.split(b","))
            self._encodings = [name for name in names if name not in (b"", b"identity")]
        return self._encodings

    def lump_is_bounded(self) -> bool:
        """Return whether 16 KB expand to at most sixteen megabytes, as with a single encoding."""
        return len(self.encodings()) == 1

    def settle(self) -> None:
        """Take what libcurl had decompressed before the pause, and pause again. Not from within ``write``."""
        self.settling = True
        self.pause(False)
        self.settling = False
        self.pause(True)

    def pause(self, yes: bool) -> None:
        """Pause or resume reading from its server. Not from within ``write``."""
        if self.paused is not yes:
            self.paused = yes  # before: it may be written to, and be paused again, while it is told to go on
            # Refused for what has come to its end in this very step.
            with contextlib.suppress(pycurl.error):
                self.curl.pause(pycurl.PAUSE_RECV if yes else pycurl.PAUSE_CONT)


class Admission(enum.Enum):
    """Answer to a body that wants to grow."""

    NOW = enum.auto()
    LATER = enum.auto()
    NEVER = enum.auto()


class Bodies:
    """Memory budget of all bodies that are being read, beyond the first step of each.

    When they pass ``max_bytes`` together, only one of them is read on, to its end; the others wait for it, at their
    servers' cost. A packed one that is told to wait is not quiet at once: what libcurl has read, 16 KB, it unpacks into
    memory of its own. Such a lump may be large, so there is one at a time, and it is taken over as soon as libcurl has
    returned. Others that come before that go on growing here, in sight. Where lumps are too large, or too many, a body
    is given up, and may be tried again.
    """

    def __init__(self, running: Container[pycurl.Curl], *, max_bytes: int, max_ratio: float | None) -> None:
        """``running``: the handles that libcurl works on. What has ended has its body until somebody takes it."""
        self._running = running
        self._max_bytes = max_bytes
        self._max_ratio = max_ratio
        self._held: dict[Body, None] = {}
        self._bytes = 0
        self._first: Body | None = None
        self._unsettled: Body | None = None
        self._waiting = False
        self.grown: set[Body] = set()
        """To be looked at as soon as libcurl has returned: within its callbacks nothing can be asked or paused."""

    def room_for(self, body: Body) -> Admission:
        """Return whether a body may have its new size; if so, it is counted."""
        bytes_then = self._bytes + body.size - body.counted
        if bytes_then > self._max_bytes and body.size > ROOM_BYTES:
            self.grown.add(body)
            if self._first is None:
                self._first = self._largest(body) or body
            if body is not self._first:
                self._waiting = True
                if not body.encodings():
                    return Admission.LATER
                if self._unsettled is None and not body.settling and body.lump_is_bounded():
                    self._unsettled = body
                    return Admission.LATER
                lump, others = body.size - body.looked_at, bytes_then - self._first.counted
                # One that could not be told to wait has had no chance yet to be small.
                is_large = lump > (ROOM_BYTES if body.lump_is_bounded() else BURST_BYTES)
                if lump > LUMP_BYTES or (is_large and others > LUMPS_TIMES * self._max_bytes):
                    return Admission.NEVER
        elif body.size > RATIO_FROM_BYTES:
            self.grown.add(body)
        self._bytes = bytes_then
        body.counted = body.size
        self._held[body] = None
        return Admission.NOW

    def gone(self, body: Body) -> None:
        """Release the budget of a body that has ended."""
        del self._held[body]
        self._bytes -= body.counted
        body.counted = 0
        self.grown.discard(body)
        if body is self._first:
            self._first = None
        if body is self._unsettled:
            self._unsettled = None
        if self._waiting:
            self.grown.update(self._held)  # share() decides which of them may go on

    def to_end(self) -> list[Body]:
        """Return the bodies to abort: refused ones and decompression bombs."""
        reading = [body for body in self.grown if body.curl in self._running]
        for body in reading:
            body.looked_at = body.size
        if self._unsettled is not None and self._unsettled.curl in self._running:
            self._unsettled.settle()
        self._unsettled = None
        return [body for body in reading if body.flaw or body.is_bomb(self._max_ratio)]

    def share(self) -> None:
        """Resume the bodies that may be read and pause the others; called after ``to_end``."""
        self.grown.clear()
        if not self._waiting:
            return
        full = self._bytes > self._max_bytes
        reading = [body for body in self._held if body.curl in self._running and body.size > ROOM_BYTES]
        if not full or self._first not in reading:
            self._first = self._largest() if full else None
        if full:
            going = {self._first}
        else:
            # Not all that wait at once: each brings a burst before anybody can look.
            going = {body for body in reading if not body.paused}
            places = (self._max_bytes - self._bytes) // BURST_BYTES or not going
            waiting = sorted((body for body in reading if body.paused), key=lambda body: -body.size)
            going.update(waiting[: int(places)])
        self._waiting = len(going) < len(reading)
        for body in self._held:
            if body.curl in self._running:
                body.pause(body.size > ROOM_BYTES and body not in going)

    def _largest(self, *more: Body) -> Body | None:
        reading = (body for body in (*self._held, *more) if body.curl in self._running)
        return max(reading, key=lambda body: body.size, default=None)
