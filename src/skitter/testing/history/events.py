"""Events of a history: one line each, written at once, so that a killed process leaves a complete history.

Times are those of the machine's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import enum
import os
import time
from pathlib import Path

import msgspec


class What(enum.StrEnum):
    """Kind of an event."""

    ASKED = "asked"
    """The frontier is asked for leases. Without an answer, it may have granted leases unknown to the worker."""
    LEASED = "leased"
    OPENED = "opened"
    """The opening of a connection for a request has begun."""
    SENT = "sent"
    """The request is about to be written to the socket."""
    ANSWERED = "answered"
    """The fetch is over, with a page or with an error."""
    PART = "part"
    """A part of a large page was accepted; another follows."""
    ACCEPTED = "accepted"
    REFUSED = "refused"
    RELEASED = "released"
    LOST = "lost"
    """A renewal came too late, so the lease is lost."""


class Event(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Event as its process saw it."""

    what: What
    at: float
    """Time at which the process knew of it; for answers of the frontier, when the answer arrived."""
    since: float = 0.0
    """Time at which the frontier was asked, for its answers."""
    work: int = 0
    id: int = 0
    epoch: int = 0
    url: str = ""
    """URL of a grant or a fetch."""
    ending: str = ""
    """Ending of a commit."""
    items: int = 0


class Fault(msgspec.Struct, kw_only=True, frozen=True):
    """Fault that was injected into the cluster."""

    what: str
    at: float
    until: float
    """Time at which it was over; for a kill, the same as ``at``."""
    processes: tuple[str, ...] = ()
    """Names of the histories of its victims."""
    ends: bool = False
    """Whether its victims are dead."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


class Recorder:
    """Writer of the history of this process. Threads may share it.

    Each line is one write without a buffer, so everything that happened before a kill -9 is in the file.
    """

    def __init__(self, folder: Path) -> None:
        """Open the file, which is named after the process group and the process, so that either can be found."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{os.getpgid(0)}-{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def add(
        self,
        what: What,
        *,
        since: float = 0.0,
        work: int = 0,
        id: int = 0,  # noqa: A002  as the event has it
        epoch: int = 0,
        url: str = "",
        ending: str = "",
        items: int = 0,
    ) -> None:
        """Write one event at once, with the current time."""
        at = time.monotonic()
        event = Event(what=what, at=at, since=since, work=work, id=id, epoch=epoch, url=url, ending=ending, items=items)
        os.write(self._file, _encode(event) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read_histories(folder: Path) -> dict[str, list[Event]]:
    """Return the events of each process in order; an incomplete last line of a killed process is left out."""
    return {path.stem: _read(path) for path in sorted(folder.glob("*.jsonl"))}


def _read(path: Path) -> list[Event]:
    return [_decode(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
