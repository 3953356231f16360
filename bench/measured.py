"""Run one command and see from outside what its processes cost."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SAMPLE_SECONDS = 0.05
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class CrawlFailedError(Exception):
    """No figure can be taken from this run; the text says why."""


@dataclass
class Sample:
    mark: int
    """How far the run was: what `mark` of the caller says."""
    largest_mb: int
    all_mb: int


@dataclass
class Run:
    output: str
    cpu_seconds: float
    samples: list[Sample] = field(default_factory=list)

    @property
    def largest_mb(self) -> int:
        """The peak of the largest process."""
        return max((sample.largest_mb for sample in self.samples), default=0)

    @property
    def all_mb(self) -> int:
        """The peak of all processes together. What they share counts in each."""
        return max((sample.all_mb for sample in self.samples), default=0)


def run(
    command: list[str],
    folder: Path,
    *,
    timeout_seconds: float,
    env: dict[str, str] | None = None,
    mark: Callable[[], int] = int,
) -> Run:
    """Run it to its end. CPU is that of the command and all its children, start-up included."""
    env = dict(os.environ if env is None else env)
    # Where modules are compiled anew in every process, start-up is measured and not the crawl.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    samples: list[Sample] = []
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        sampler = threading.Thread(target=sample_until_end, args=(process, samples, mark))
        sampler.start()
        try:
            output, _ = process.communicate(timeout=timeout_seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise CrawlFailedError(f"not done after {timeout_seconds:g} s") from None
            raise
        finally:
            sampler.join()
        errors.seek(0)
        lines = errors.read().strip().splitlines()
    if process.returncode:
        raise CrawlFailedError(f"exit status {process.returncode}: {lines[-1] if lines else 'no message'}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(output=output, cpu_seconds=cpu, samples=samples)


def sample_until_end(process: subprocess.Popen[str], samples: list[Sample], mark: Callable[[], int]) -> None:
    while process.poll() is None:
        sizes = [resident_mb(pid) for pid in family(process.pid)]
        samples.append(Sample(mark=mark(), largest_mb=max(sizes), all_mb=sum(sizes)))
        time.sleep(SAMPLE_SECONDS)


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(one for child in children for one in family(int(child)))]


def resident_mb(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * PAGE_BYTES // 1_000_000
