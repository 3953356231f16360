"""Exit codes of the command line, except those of errors (``skitter.errors``: 2 usage, 3 a backend)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skitter.app import Summary

FAILED = 1
"""No seed was done, or not all seeds were given. Also any error without a code of its own."""
BACKEND = 3
"""A backend has lost something; also the code of errors of backends."""
INTERRUPTED = 130
"""The command was ended by Ctrl-C."""


def of_signal(number: int) -> int:
    """Return a shell's exit code for a signal: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + number


def of_summary(summary: Summary) -> int:
    """Return the exit code: 0 finished, or stopped by a limit or a command; 1 failed; 3 links are lost; 130 or 143 by a
    signal."""
    if summary.signal:
        return of_signal(summary.signal)
    if summary.lost_links:
        return BACKEND
    return FAILED if no_seed_done(summary) or summary.seeding_problem else 0


def no_seed_done(summary: Summary) -> bool:
    """Return whether no seed was done, in a crawl that was not stopped by a command or a limit."""
    return not summary.seeds_done and summary.state != "stopped"
