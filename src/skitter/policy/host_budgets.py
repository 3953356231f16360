"""Page budgets of hosts, and the count of trap signs that lowers them.

It works on the host's record only, as ``politeness`` does: the rules hold for the whole cluster, and every
frontier applies them inside the transaction that grants or commits.
"""

from __future__ import annotations

import msgspec

from skitter.model.host import Host
from skitter.settings import Settings

HOST_BUDGET = "host_budget"
"""Error class of requests that are excluded because the budget of their host is spent."""
TRAP_SIGNS = 100
"""Signs that make a host a trap for the rest of the run. Each distinct page halves them, so on a site where one
page in twenty is distinct they stay below 40; where only the trap is left to crawl, a hundred pages are enough."""

STOPPED_SCORE = 3600.0
"""Score that sorts hosts with a spent budget in a report: after failing hosts, before slow ones."""


class Budgets(msgspec.Struct, frozen=True):
    """Budgets of a job: for every host, and for one that looks like a trap. None: no limit."""

    pages: int | None
    trap_pages: int | None
    trap_signs: int

    def of(self, host: Host) -> int | None:
        """Return the smallest budget that applies to this host."""
        if self.trap_pages is None or host.signs < self.trap_signs:
            return self.pages
        return self.trap_pages if self.pages is None else min(self.pages, self.trap_pages)

    def has_room(self, host: Host) -> bool:
        """Return whether one more page may be in flight: done and in flight together never exceed the budget."""
        budget = self.of(host)
        return budget is None or host.pages + host.in_flight < budget

    def is_spent(self, host: Host) -> bool:
        """Return whether the budget is spent: no more leases in this run, unless it resumes with a larger budget."""
        budget = self.of(host)
        return budget is not None and host.pages >= budget

    def rule(self, host: Host) -> str:
        """Return the setting that stopped the host; empty while its budget is not spent."""
        if not self.is_spent(host):
            return ""
        return "max_pages_per_host" if self.of(host) == self.pages else "trap_pages"

    def reason(self, host: Host) -> str:
        """Return the message of its excluded requests."""
        sign = "" if self.rule(host) == "max_pages_per_host" else ": its pages look like those of a trap"
        return f"the budget of its host is spent: {self.of(host)} pages ({self.rule(host)}{sign})"


def of_job(settings: Settings) -> Budgets | None:
    """Return the budgets of a job, or None if it has none, which is the usual case and costs nothing."""
    pages = settings.limits.max_pages_per_host
    trap_pages = settings.traps.trap_pages if settings.traps.traps == "strict" else None
    return None if pages is None and trap_pages is None else Budgets(pages, trap_pages, TRAP_SIGNS)


def judged(host: Host, sign: bool | None) -> None:
    """Count the judgement of a page. A host that became a trap stays one until the next run: its distinct pages were
    crawled before, or fit into the rest of its budget."""
    if sign is None or host.signs >= TRAP_SIGNS:
        return
    host.signs = host.signs + 1 if sign else host.signs // 2
