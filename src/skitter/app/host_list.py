"""Hosts of a job for people: the list in pages, and the key that a user means."""

from __future__ import annotations

from skitter.errors import UrlError, UsageError
from skitter.frontier.contract import BATCH, Frontier
from skitter.model.host import HostFilter
from skitter.model.job import HostPage, HostSeen
from skitter.model.url import absolute, host_key

PIECE = 500
"""Hosts that one call looks at while most of them are left out."""
MAX_LOOKED_AT = 10_000
"""Hosts that one page looks at; then it says where to go on."""


def key_of(text: str) -> str:
    """The key of a host, as lists show it or as a URL of one of its pages; UsageError for anything else."""
    try:
        return host_key(absolute(text))
    except UrlError as error:
        hint = error.hint or "as the list of hosts shows it: https://shop.example"
        raise UsageError(f"not a host: {text[:200]}", hint=hint) from error


async def host_page(frontier: Frontier, state: HostFilter, limit: int, after: str, search: str = "") -> HostPage:
    """About ``limit`` hosts in a state whose key contains a text; or fewer, after a look at ``MAX_LOOKED_AT`` hosts."""
    found: list[HostSeen] = []
    piece = limit if state is HostFilter.ALL and not search else max(limit, PIECE)
    for _ in range(max(1, MAX_LOOKED_AT // piece)):
        page = await frontier.hosts(state, piece, after)
        found += [host for host in page.hosts if search.lower() in host.key]
        after = page.after
        if not after or len(found) >= limit:
            break
    return HostPage(found, after)


async def sorted_hosts(frontier: Frontier, state: HostFilter) -> list[HostSeen]:
    """Every host in a state, once, ordered by key: a store may list one twice, and in no order."""
    found: dict[str, HostSeen] = {}
    after = ""
    while True:
        page = await frontier.hosts(state, BATCH, after)
        found |= {host.key: host for host in page.hosts}
        after = page.after
        if not after:
            return [found[key] for key in sorted(found)]
