"""How many pages a host may have, and when its pages look like those of a trap.

Works on the host's record and on nothing else, as ``politeness`` does: the rules hold for the whole cluster, and every
frontier applies them inside the transaction that grants or commits.
"""

from __future__ import annotations

import msgspec

from skitter.model.host import Host
from skitter.settings import Settings

HOST_BUDGET = "host_budget"
"""The rule that excludes what waits for a host whose budget is spent."""
TRAP_SIGNS = 100
"""So many signs make a host a trap for the rest of the run. Each page of its own halves them, so on a site where one
page in twenty is its own they do not pass 40; where nothing but the trap is left to crawl, a hundred pages do it."""

STOPPED_SCORE = 3600.0
"""A host whose budget is spent is worth a look before those that are slow, and after those in trouble."""


class Budgets(msgspec.Struct, frozen=True):
    """The budgets of a job: of every host, and of one that looks like a trap. None: none."""

    pages: int | None
    trap_pages: int | None
    trap_signs: int

    def of(self, host: Host) -> int | None:
        """The smaller one of those that are set on this host."""
        if self.trap_pages is None or host.signs < self.trap_signs:
            return self.pages
        return self.trap_pages if self.pages is None else min(self.pages, self.trap_pages)

    def has_room(self, host: Host) -> bool:
        """One more page may be in flight: done and in flight together never exceed the budget."""
        budget = self.of(host)
        return budget is None or host.pages + host.in_flight < budget

    def is_spent(self, host: Host) -> bool:
        """Nothing more of the host is leased in this run, unless the job goes on with a larger budget."""
        budget = self.of(host)
        return budget is not None and host.pages >= budget

    def rule(self, host: Host) -> str:
        """The setting that stopped the host; empty while its budget is not spent."""
        if not self.is_spent(host):
            return ""
        return "max_pages_per_host" if self.of(host) == self.pages else "trap_pages"

    def reason(self, host: Host) -> str:
        """Why its queue is excluded, for people."""
        sign = "" if self.rule(host) == "max_pages_per_host" else ": its pages look like those of a trap"
        return f"the budget of its host is spent: {self.of(host)} pages ({self.rule(host)}{sign})"


def of_job(settings: Settings) -> Budgets | None:
    """None: no host of the job can have one, which is the usual case and costs nothing."""
    pages = settings.limits.max_pages_per_host
    trap_pages = settings.traps.trap_pages if settings.traps.traps == "strict" else None
    return None if pages is None and trap_pages is None else Budgets(pages, trap_pages, TRAP_SIGNS)


def judged(host: Host, sign: bool | None) -> None:
    """A page was judged. Once a trap, always a trap until the next run: its own pages were crawled before, or come
    in time for what is left of its budget."""
    if sign is None or host.signs >= TRAP_SIGNS:
        return
    host.signs = host.signs + 1 if sign else host.signs // 2
