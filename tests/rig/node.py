"""One machine of the cluster under faults: a process group under a name of its own, with a clock of its own."""

from __future__ import annotations

import os
from pathlib import Path

from rig.processes import CommandLine
from rig.restarted_command import RestartedCommand

HOOK = Path(__file__).parent / "hook"


def on_machine(name: str, **faults: object) -> dict[str, str]:
    """Variables of a process that believes to be on a machine of this name; faults as in ``rig/hook``."""
    paths = [str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])]
    told = {f"FAULT_{fault.upper()}": str(value) for fault, value in faults.items()}
    return told | {"FAULT_NODE": name, "PYTHONPATH": os.pathsep.join(paths)}


class Node(RestartedCommand):
    """One machine, through the lives of its command."""

    def __init__(self, number: int, folder: Path, histories: Path, clock_seconds: float) -> None:
        super().__init__(CommandLine(folder), name=f"node-{number}")
        self.number = number
        self._histories = histories
        self._clock_seconds = clock_seconds
        self._lives = 0

    def run(self, *command: object) -> None:
        """Start a command. A machine that was lost comes back as another one: it knows nothing of what it was."""
        self._lives += 1
        name = f"node-{self.number}-{self._lives}"
        self.environment = on_machine(name, history=self._histories, clock=self._clock_seconds or "")
        self.words = command
        self.start()

    def processes(self) -> list[str]:
        """The histories of its present life."""
        return [path.stem for path in self._histories.glob(f"{self.process.pid}-*.jsonl")]

    def begun(self) -> list[int]:
        """The workers that live and have come so far as to ask for work."""
        begun = {int(process.partition("-")[2]) for process in self.processes()}
        return sorted(begun.intersection(self.workers()))
