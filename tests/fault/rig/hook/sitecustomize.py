"""Read by every Python that the rig starts, before anything else: puts workers under observation, far from each other.

FAULT_HISTORY   the folder of histories: a worker process writes its own
FAULT_NODE      the name of the machine that this process believes to be on
FAULT_CLOCK     seconds by which its wall clock is wrong
FAULT_UNCLOSED  killed in the instant before it records that a target is complete
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from pathlib import Path

node, clock, history = (os.environ.get(f"FAULT_{name}", "") for name in ("NODE", "CLOCK", "HISTORY"))

if node:
    # Nobody on another machine can see whether a worker lives: its leases have to expire.
    socket.gethostname = lambda: node
if clock:
    right, wrong = time.time, float(clock)
    time.time = lambda: right() + wrong
if os.environ.get("FAULT_UNCLOSED"):
    from skitter.frontier.transactional import TransactionalFrontier

    items_done = TransactionalFrontier.items_done

    async def items_done_until_closed(self, target, owner, progress):
        if progress.closed:
            os.kill(os.getpid(), signal.SIGKILL)
        return await items_done(self, target, owner, progress)

    TransactionalFrontier.items_done = items_done_until_closed
if history and sys.orig_argv[1:4] == ["-P", "-m", "skitter.app"]:
    from skitter.app import worker_main
    from skitter.testing.history import Recorded, Recorder, record_fetches

    recorder, open_frontier = Recorder(Path(history)), worker_main.open_frontier
    worker_main.open_frontier = lambda *names, **options: Recorded(open_frontier(*names, **options), recorder)
    record_fetches(recorder)
