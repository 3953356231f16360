"""Rules for a request whose worker died: lease it alone, and give it up after several losses.

A loss counts against a page only if the page was its worker's only lease: so a page that kills its worker is given up
in the end, and pages that were leased together with it are not.
"""

from __future__ import annotations

LOSSES_BEFORE_ALONE = 2
LOSSES_WHILE_ALONE = 4
"""So many, because a kill -9 from outside may hit an innocent page that happens to be alone, and then hit it again:
where workers were killed at random about once a second, one in sixteen was (docs/adr/0012)."""
LOSSES_IN_ALL = LOSSES_BEFORE_ALONE + LOSSES_WHILE_ALONE
"""For the seeding and for gates, which are leased alone from the first loss that makes them suspect."""


def is_suspect(losses: int) -> bool:
    """Return whether the request is leased alone from now on."""
    return losses >= LOSSES_BEFORE_ALONE


def is_fatal(losses_alone: int) -> bool:
    """Return whether the request has failed, with the error class ``lost``."""
    return losses_alone >= LOSSES_WHILE_ALONE
