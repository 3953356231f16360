"""Input and result of the checker: the evidence of a crawl, and the findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from skitter.model.url import canonical
from skitter.testing.history.events import Event, Fault
from skitter.testing.web_expected import Expected
from skitter.testing.web_log import Hit
from skitter.testing.web_spec import bases_of

SHOWN = 10
"""Number of findings of each kind that the text lists; the JSON has all."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Evidence of one crawl. URLs are in canonical form."""

    expected: Expected
    """Known contents of the web."""
    histories: dict[str, list[Event]]
    """Histories by process."""
    faults: Sequence[Fault] = ()
    states: dict[str, str]
    """Final state of each expected URL in the frontier; a URL that it has never seen is missing."""
    unended: int = 0
    """Number of requests that the frontier still counts as queued, delayed or leased."""
    output: Sequence[str]
    """URL of each record in the results, in order."""
    hits: Sequence[Hit]
    """Log of the web server."""
    urls: Sequence[str] = ()
    """Root URLs of the hosts, in the order of the host indexes in the log."""
    _bases: dict[int, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bases", bases_of(self.urls))

    def page_hits(self) -> list[tuple[str, Hit]]:
        """Return the requests at the web server, without robots.txt, each with its URL."""
        return [(canonical(self._bases[hit.host] + hit.path), hit) for hit in self.hits if hit.path != "/robots.txt"]

    def host_hits(self) -> list[tuple[str, Hit]]:
        """Return all requests at the web server, each with the root URL of its host."""
        return [(self._bases[hit.host] + "/", hit) for hit in self.hits]


class Findings(msgspec.Struct, kw_only=True):
    """Result of a check."""

    pages: int
    """Number of pages in the web."""
    fetches: int
    """Number of requests at the web server, without robots.txt."""
    lost: list[str]
    """URLs that did not end as expected, or are missing in the results."""
    doubled: list[str]
    """Duplicates: URLs that are in the results twice, and requests that were ended by two accepted commits."""
    stale_accepted: list[str]
    """Commits that were accepted although a newer lease had been granted."""
    unexpected: list[str]
    """URLs in the results that are not in this web."""
    refetches: int
    """Number of fetches that no accepted commit accounts for."""
    held_at_faults: int
    """Number of leases that the victims held: the maximum that may have to be fetched again."""
    faults: list[Fault]
    released_seconds: float
    """Longest time from a fault until a lease that its victim held, and did not end itself, was granted again."""
    resumed_seconds: float
    """Longest time from the end of a fault until the next accepted commit of any worker."""
    smallest_gap_seconds: float | None
    """Smallest time between the starts of two requests to one host, by timestamps of workers just before them."""
    smallest_gap_of_sends_seconds: float | None
    """Smallest time between their sends; on a new connection, a request is sent only after the handshake."""
    smallest_gap_at_server_seconds: float | None
    """Smallest time between their arrivals, by the server's timestamps."""
    gaps: dict[str, float]
    """Smallest time between the starts of two requests by host, as the workers saw it."""
    most_in_flight: int
    """Maximum number of requests in flight to one host at a time, as the server counted them."""

    @property
    def amplification(self) -> float:
        """Return fetches per page."""
        return self.fetches / self.pages if self.pages else 0.0

    def text(self) -> str:
        """Return the findings as text."""
        gaps = (self.smallest_gap_seconds, self.smallest_gap_of_sends_seconds, self.smallest_gap_at_server_seconds)
        lines = [
            f"pages {self.pages}, fetches {self.fetches} (amplification {self.amplification:.3f})",
            f"faults {len(self.faults)}, leases held at them {self.held_at_faults}, refetches {self.refetches}",
            f"held leases were granted again after at most {self.released_seconds:.2f} s",
            f"the next commit came at most {self.resumed_seconds:.2f} s after a fault's end",
            "smallest gap between starts {}, between sends {}, at the server {}".format(*map(_milliseconds, gaps)),
            f"at most {self.most_in_flight} in flight to a host",
        ]
        for what, found in (
            ("lost", self.lost),
            ("doubled", self.doubled),
            ("stale accepted", self.stale_accepted),
            ("unexpected", self.unexpected),
        ):
            lines.append(f"{what} {len(found)}")
            lines += [f"  {one}" for one in found[:SHOWN]]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path, name: str) -> None:
        """Write NAME.json with everything, and NAME.txt with the text."""
        folder.mkdir(parents=True, exist_ok=True)
        told = msgspec.to_builtins(self) | {"amplification": round(self.amplification, 4)}
        (folder / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(told)) + b"\n")
        (folder / f"{name}.txt").write_text(f"{name}\n{self.text()}")


def _milliseconds(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds * 1000:.1f} ms"
