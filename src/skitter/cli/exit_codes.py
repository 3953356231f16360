"""Exit codes of the command line, but for errors, which carry their own (``skitter.errors``: 2 usage, 3 a backend)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skitter.app import Summary

FAILED = 1
"""Nothing came of the crawl, or not all seeds were given. Also any error without a code of its own."""
INTERRUPTED = 130
"""By Ctrl-C."""


def of_signal(number: int) -> int:
    """The exit code that a shell has for a signal: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + number


def of_summary(summary: Summary) -> int:
    """0 finished, or stopped by a limit or a command; 1 see FAILED; 130 interrupted; 143 terminated."""
    if summary.signal:
        return of_signal(summary.signal)
    return FAILED if no_seed_done(summary) or summary.seeding_problem else 0


def no_seed_done(summary: Summary) -> bool:
    """Nothing came of the crawl at all. Whoever stopped it does not need to be told."""
    return not summary.seeds_done and summary.state != "stopped"
