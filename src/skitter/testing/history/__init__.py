"""Histories of workers, and a checker for crawls with injected faults.

``recorder`` wraps a WorkSource and a fetch engine: each process appends its grants, requests and answers to its own
file. ``checker`` compares these files with the frontier's final states, the results and the web server's log. It finds
pages that were lost, duplicates, and stale commits that were accepted, and measures the delays between requests.

To test your own frontier, wrap it with ``Recorded`` in each worker, cause faults, and ``check`` the evidence.
"""

from __future__ import annotations

from skitter.testing.history.checker import check, still_held
from skitter.testing.history.events import Event, Fault, Recorder, read_histories
from skitter.testing.history.evidence import Evidence, Findings
from skitter.testing.history.recorder import Recorded, record_fetches

__all__ = [
    "Event",
    "Evidence",
    "Fault",
    "Findings",
    "Recorded",
    "Recorder",
    "check",
    "read_histories",
    "record_fetches",
    "still_held",
]
