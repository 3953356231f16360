"""One machine of the cluster under faults: a process group under a name of its own, with a clock of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

HOOK = Path(__file__).parent / "hook"


class Node:
    """One machine, through the lives of its command."""

    def __init__(self, number: int, folder: Path, histories: Path, clock_seconds: float) -> None:
        self.number = number
        self._folder = folder
        self._histories = histories
        self._clock_seconds = clock_seconds
        self._lives = 0

    def start(self, *command: object) -> None:
        """A machine that was lost comes back as another one: it knows nothing of what it was."""
        self._lives += 1
        paths = [str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])]
        told = {
            "FAULT_NODE": f"node-{self.number}-{self._lives}",
            "FAULT_HISTORY": str(self._histories),
            "FAULT_CLOCK": str(self._clock_seconds or ""),
            "PYTHONPATH": os.pathsep.join(paths),
        }
        with self._log_path.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "skitter", *map(str, command)],
                cwd=self._folder,
                env=os.environ | told,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """To everything that runs on this node."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """End everything on it at once."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def workers(self) -> list[int]:
        """The worker processes that live now."""
        pid = self.process.pid
        with contextlib.suppress(OSError):
            return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

    def processes(self) -> list[str]:
        """The histories of its present life."""
        return [path.stem for path in self._histories.glob(f"{self.process.pid}-*.jsonl")]

    def begun(self) -> list[int]:
        """The workers that live and have come so far as to ask for work."""
        begun = {int(process.partition("-")[2]) for process in self.processes()}
        return sorted(begun.intersection(self.workers()))

    def log(self) -> str:
        """What it said in its present life."""
        return self._log_path.read_text()

    @property
    def _log_path(self) -> Path:
        return self._folder / f"node-{self.number}-{self._lives}.log"
