"""The process of one slice, as a task runs it: its end by time, by a soft time limit, by a kill, and without a job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from celery.exceptions import SoftTimeLimitExceeded

import skitter
from rig.processes import HANG_SECONDS
from skitter.app.worker_slice import Ended, Progress, SliceConfig
from skitter.contrib.celery.crawl_slice import SliceRun
from skitter.errors import BackendError, SliceError, UsageError
from skitter.testing.web import ServedWeb, WebSpec, served

LONG = 600.0


class Slow:
    """A job that takes longer than any test."""

    def __init__(self, folder: Path, web: ServedWeb) -> None:
        self.frontier = f"sqlite:{folder}/jobs.db"
        self.progress: list[Progress] = []
        self.on_progress: Any = None
        with skitter.connect(self.frontier) as client:
            client.submit(web.urls[0], job="slow", settings={"allow_private": True, "delay_seconds": 0.3})

    def slice(self, seconds: float = LONG, job: str = "slow") -> SliceRun:
        config = SliceConfig(frontier=self.frontier, job=job, seconds=seconds, crawl="c", progress_seconds=0.1)
        return SliceRun(config, shutdown_fd=None, on_progress=self._note)

    def _note(self, progress: Progress) -> None:
        self.progress.append(progress)
        if self.on_progress is not None:
            self.on_progress(progress)

    def counts(self) -> Any:
        with skitter.connect(self.frontier) as client:
            return client.counts("slow")


@pytest.fixture
def slow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with served(WebSpec.plain(hosts=1, pages_per_host=500)) as web:
        yield Slow(tmp_path, web)


def test_a_slice_ends_by_itself_and_gives_back_what_it_has_leased(slow):
    # A slice of a busy machine may end before its first page.
    while not slow.counts().done:
        assert slow.slice(seconds=1.5).run() == Ended(over=False)
        assert slow.counts().leased == 0
    assert slow.progress[-1].counts.done >= 1


def test_a_soft_time_limit_ends_a_slice_in_order(slow):
    def limit(*_: object) -> None:
        raise SoftTimeLimitExceeded

    before = signal.signal(signal.SIGUSR1, limit)

    # As Celery does: a signal to the process that runs the task, in the middle of the work.
    def exceed(progress: Progress) -> None:
        if progress.counts.done:
            slow.on_progress = None
            os.kill(os.getpid(), signal.SIGUSR1)

    slow.on_progress = exceed
    try:
        ended = slow.slice().run()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ended == Ended(over=False)
    assert slow.counts().leased == 0


def test_a_slice_whose_process_is_killed_is_an_error_that_may_pass(slow):
    def kill(progress: Progress) -> None:
        if progress.counts.done:
            children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
            for pid in children:
                if b"worker_slice" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGKILL)

    slow.on_progress = kill
    with pytest.raises(SliceError, match="exit code -9"):
        slow.slice().run()


def test_a_slice_of_a_job_that_is_not_there_is_an_error_that_stays(slow):
    with pytest.raises(UsageError, match="other") as raised:
        slow.slice(job="other").run()
    assert not isinstance(raised.value, BackendError)


def test_a_slice_whose_scheduler_is_killed_ends_in_order(slow):
    """The pipe of its standard input breaks, and nothing else tells it."""
    config = SliceConfig(frontier=slow.frontier, job="slow", seconds=LONG, progress_seconds=0.1)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "skitter.app.worker_slice"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(msgspec.json.encode(config) + b"\n")
    process.stdin.flush()
    while b'"done":0' in (line := process.stdout.readline()) or b'"Progress"' not in line:
        assert line, "it ended too soon"
    process.stdin.close()
    process.stdout.close()
    assert process.wait(HANG_SECONDS) == 0
    assert slow.counts().leased == 0


def test_a_paused_job_lets_its_slice_go(slow):
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "skitter", "pause", "--frontier", slow.frontier, "--job", "slow"], check=True)
    assert slow.slice().run() == Ended(over=False, idle=True)
    assert time.monotonic() - began < LONG


def test_a_finished_job_whose_output_is_away_is_not_over_and_has_no_use_for_a_slot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frontier = f"sqlite:{tmp_path}/jobs.db"
    unavailable = "redis://127.0.0.1:1/0#items"
    with served(WebSpec.plain(hosts=1, pages_per_host=2)) as web:
        with skitter.connect(frontier) as client:
            client.submit(web.urls[0], job="unavailable", output=unavailable, settings={"allow_private": True})
        config = SliceConfig(frontier=frontier, job="unavailable", seconds=4, crawl="c")
        ended = SliceRun(config, shutdown_fd=None, on_progress=lambda _: None).run()
        with skitter.connect(frontier) as client:
            assert client.counts("unavailable").done == 2
    assert ended == Ended(over=False, idle=True)
