"""What workers saw of a frontier, told by themselves, and one checker that judges it.

``recording`` puts a WorkSource and a fetch engine under observation: each process appends what it was granted, sent
and told to a file of its own. ``checking`` reads those files beside the frontier's last word, the results and the
web server's log, and says what was lost, doubled or accepted although stale, and how polite it all was.

A frontier of your own can be tried the same way: wrap it with ``Recorded`` in each worker, break whatever you like
meanwhile, and ``check`` the evidence.
"""

from __future__ import annotations

from skitter.testing.history.checking import check, still_held
from skitter.testing.history.events import Event, Fault, Recorder, read_histories
from skitter.testing.history.evidence import Evidence
from skitter.testing.history.findings import Findings
from skitter.testing.history.recording import Recorded, record_fetches

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
