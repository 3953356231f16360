"""Who runs a command, for the audit trail."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from skitter.model.schedule import SCHEDULE_VARIABLE

if TYPE_CHECKING:
    from skitter.model.audit import Actor


def cli_actor() -> Actor:
    """Return ``schedule:NAME`` for a command that a scheduler runs, else ``cli:USER@HOST``."""
    from skitter.app.audit import local_actor
    from skitter.model.audit import Actor

    schedule = os.environ.get(SCHEDULE_VARIABLE, "")
    return Actor(f"schedule:{schedule}") if schedule else local_actor("cli")
