"""Measurement of a process and its children from outside: answer, CPU time and peak memory."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from skitter.errors import SkitterError

Question = TypeVar("Question")
LOOK_SECONDS = 0.01
"""The interval of the memory samples. The kernel keeps the peak of a process: only its last moments can be missed."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, CPU time and memory of a process."""

    answer: dict[str, Any]
    """The object that it printed."""
    cpu_seconds: float
    """CPU time of all its processes, start-up included."""
    peak_bytes: int
    """Peak memory of the largest of its processes: a crawl's worker."""


def measured(arguments: Sequence[str], *, folder: Path, stdin: bytes = b"") -> Measured:
    """Run ``python -m ARGUMENTS`` to its end. It must be the only process of this one that ends meanwhile."""
    # No setting of the user's changes what is measured.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SKITTER_")}
    # Where modules are compiled anew in every process, start-up is measured and not the crawl.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = _cpu_of_ended()
    # A session of its own: Ctrl-C reaches this process alone, which then ends the others and tidies up.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    peaks = _Peaks(process.pid)
    try:
        with peaks:
            out, complaint = process.communicate(stdin)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if process.returncode != 0:
        raise _failure(process.returncode, complaint.decode(errors="replace"))
    return Measured(answer=json.loads(out), cpu_seconds=_cpu_of_ended() - before, peak_bytes=peaks.highest)


def answer_question(question: type[Question], work: Callable[[Question], object]) -> int:
    """Read a question from stdin and print the answer or the error; runs in the measured process."""
    try:
        answer = work(msgspec.json.decode(sys.stdin.buffer.read(), type=question))
    except SkitterError as error:
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    return 0


def _cpu_of_ended() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _failure(code: int, complaint: str) -> SkitterError:
    """Return the error that another skitter process printed, or else its whole output."""
    lines = complaint.strip().splitlines()
    message = next((line for line in lines if line.startswith("error: ")), lines[-1] if lines else f"exit code {code}")
    hint = next((line for line in lines if line.startswith("hint: ")), "")
    failure = SkitterError(message.removeprefix("error: "), hint=hint.removeprefix("hint: "))
    failure.exit_code = code if code > 0 else 1
    return failure


class _Peaks:
    """A thread that records the highest peak memory of a process and its children."""

    def __init__(self, pid: int) -> None:
        self.highest = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bench-memory", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.highest = max(self.highest, *map(_peak_bytes, _process_tree(self._pid)))


def _process_tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *map(int, children)]


def _peak_bytes(pid: int) -> int:
    # Not ru_maxrss, which begins with what the parent had when it forked.
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
