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
    from skitter.testing.frontiers import wrap_frontiers

    def killed_before_a_target_is_closed(frontier):
        items_done = frontier.items_done

        async def items_done_until_closed(target, owner, progress):
            if progress.closed:
                os.kill(os.getpid(), signal.SIGKILL)
            return await items_done(target, owner, progress)

        frontier.items_done = items_done_until_closed
        return frontier

    wrap_frontiers(killed_before_a_target_is_closed)
if history and sys.orig_argv[1:4] == ["-P", "-m", "skitter.app"]:
    from skitter.testing.frontiers import wrap_frontiers
    from skitter.testing.history import Recorded, Recorder, record_fetches

    recorder = Recorder(Path(history))
    wrap_frontiers(lambda frontier: Recorded(frontier, recorder))
    record_fetches(recorder)
