"""What becomes of a request whose worker was lost with it.

A lost lease is not the page's fault until it has happened while the page was alone: so a page that
kills its worker dies in the end, and its neighbours do not, however often they shared its fate.
"""

from __future__ import annotations

LOSSES_BEFORE_ALONE = 2
LOSSES_WHILE_ALONE = 4
"""So many, because a kill -9 from outside may hit an innocent page that happens to be alone, and then hit it again:
where workers were killed at random about once a second, one in sixteen was (docs/adr/0012)."""
LOSSES_IN_ALL = LOSSES_BEFORE_ALONE + LOSSES_WHILE_ALONE
"""For the seeding and for gates, which are leased alone from the first loss that makes them suspect."""


def is_suspect(losses: int) -> bool:
    """From now on the request is leased alone."""
    return losses >= LOSSES_BEFORE_ALONE


def is_fatal(losses_alone: int) -> bool:
    """The request is dead, class ``lost``."""
    return losses_alone >= LOSSES_WHILE_ALONE
