"""Everything the checker is shown: what the workers saw, and what they cannot have made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from skitter.model.url import canonical
from skitter.testing.history.events import Event, Fault
from skitter.testing.web_expected import Expected
from skitter.testing.web_log import Hit
from skitter.testing.web_spec import bases_of


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Of one crawl. URLs are in canonical form."""

    expected: Expected
    """What the web is known to contain."""
    histories: dict[str, list[Event]]
    """By process."""
    faults: Sequence[Fault] = ()
    states: dict[str, str]
    """The frontier's last word on each expected URL; a URL it has never seen is missing."""
    unended: int = 0
    """Requests that the frontier still counts as queued, delayed or leased."""
    output: Sequence[str]
    """The URL of each record of the results, in order."""
    hits: Sequence[Hit]
    """The web server's log."""
    urls: Sequence[str] = ()
    """The hosts' roots, as the log counts them."""
    _bases: dict[int, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bases", bases_of(self.urls))

    def page_hits(self) -> list[tuple[str, Hit]]:
        """What was fetched, without the robots.txt, each with its URL."""
        return [(canonical(self._bases[hit.host] + hit.path), hit) for hit in self.hits if hit.path != "/robots.txt"]

    def host_hits(self) -> list[tuple[str, Hit]]:
        """Everything that was asked, each with the root of its host."""
        return [(self._bases[hit.host] + "/", hit) for hit in self.hits]
