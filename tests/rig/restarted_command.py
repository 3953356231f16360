"""A command of skitter that is killed and started again, with its workers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from pathlib import Path

from rig.processes import HANG_SECONDS, CommandLine, children, kill_group, wait_until

UNAVAILABLE = 3
"""Exit code of a command whose server could not be reached when it started."""


class RestartedCommand:
    """One command through its lives. What it prints goes to a log file, because a pipe that nobody reads would fill."""

    process: subprocess.Popen[str]

    def __init__(
        self, skitter: CommandLine, *words: object, name: str = "", environment: dict[str, str] | None = None
    ) -> None:
        """``environment``: more variables than those of this process."""
        self.words = words
        self._skitter = skitter
        self.environment = environment or {}
        self.log_path: Path = skitter.folder / f"{name or words[0]}.log"
        self._life_began_at = 0
        self._is_started = False

    # ---- its lives

    def start(self) -> None:
        self._is_started = True
        environment = os.environ | self.environment if self.environment else None
        with self.log_path.open("a") as log:
            self._life_began_at = log.tell()
            streams = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
            self.process = self._skitter.start(*self.words, env=environment, **streams)

    @property
    def is_running(self) -> bool:
        return self._is_started and self.process.poll() is None

    def keep_running(self) -> None:
        """Start it, unless it runs. It may have ended because a server was unavailable, but it must not be over."""
        if self._is_started and not self.is_running:
            code = self.process.returncode
            assert code != 0, "it was over before all that was to happen to it"
            assert code in (UNAVAILABLE, -signal.SIGKILL), f"exit code {code}\n{self.log()[-5000:]}"
        if not self.is_running:
            self.start()

    def signal(self, number: signal.Signals) -> None:
        """To everything that runs under it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Kill it with all that it has started."""
        if self._is_started:
            kill_group(self.process)

    def finish(self) -> None:
        """Start it as often as it takes to end with success."""
        while not self._is_started or (code := self.process.wait(HANG_SECONDS)) != 0:
            if self._is_started:
                assert code in (UNAVAILABLE, -signal.SIGKILL), f"exit code {code}\n{self.log()[-5000:]}"
            self.start()

    # ---- its workers

    def workers(self) -> list[int]:
        """The worker processes that live now."""
        return children(self.process.pid) if self._is_started else []

    def kill_worker(self, chance: random.Random) -> int:
        """Kill one of its worker processes; waits until it has one."""
        pid: int = chance.choice(wait_until(self.workers, self.process, "a worker"))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return pid

    # ---- what it says

    def life_log(self) -> str:
        """What it has said in its present life."""
        with self.log_path.open() as file:
            file.seek(self._life_began_at)
            return file.read()

    def log(self) -> str:
        """What it has said in all its lives."""
        return self.log_path.read_text() if self.log_path.exists() else ""
