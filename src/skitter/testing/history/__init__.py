"""Histories of workers, and a checker of what a crawl did under faults.

``recorder`` wraps a WorkSource and a fetch engine: each process appends its grants, requests and answers to its own
file. ``checker`` compares these files with the frontier's final states, the results and the web server's log, and finds
what was lost, doubled or accepted although stale, and how long the delays between requests were.

To test a frontier of your own, wrap it with ``Recorded`` in each worker, cause faults, and ``check`` the evidence.
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
