"""The command line in this process: its exit code, what it said, and an app that only remembers what it was told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from rig.books_job import JOB, write_books_job
from skitter import app
from skitter.cli import main
from skitter.model.job import Counts, HostSeen, Job, JobSpec, Report, SinkSeen, State
from skitter.model.worker import WorkerSeen
from skitter.node.node import Node
from skitter.stop_request import StopRequest


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, and an environment that says nothing to skitter."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("SKITTER_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def skitter(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run(*words: object) -> Said:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return run


def summary(**changes: Any) -> app.Summary:
    fields: dict[str, Any] = {
        "job": "a.example",
        "state": "finished",
        "run": 1,
        "pages": 10,
        "items": 10,
        "redirected": 0,
        "failed": 0,
        "excluded": 0,
        "duplicates": 3,
        "bytes": 4096,
        "seconds": 2.0,
        "pages_per_second": 5.0,
        "seeds_done": True,
        "outputs": ["out.jsonl"],
        "signal": 0,
        "blocked_by": "",
        "undelivered": 0,
        "rejected": 0,
        "dropped": {},
        "errors": {},
        "reason": "",
        "begun": "new",
    }
    return app.Summary(**(fields | changes))


@pytest.fixture
def make_summary() -> Callable[..., app.Summary]:
    return summary


@pytest.fixture
def fake_app(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """``told`` holds what the app was called with; ``answer`` is the summary it gives, or the error it raises.

    A summary with a signal is given after this process has had that signal.
    """
    fake = SimpleNamespace(told=[], answer=summary())

    async def answer(stop: StopRequest) -> app.Summary:
        if isinstance(fake.answer, BaseException):
            raise fake.answer
        if fake.answer.signal:
            stopped = asyncio.Event()
            stop.set_handlers(stopped.set, stopped.set)
            os.kill(os.getpid(), fake.answer.signal)
            await stopped.wait()
        return fake.answer

    def make_crawl_node(config: app.CrawlConfig, **_: Any) -> Node[app.Summary]:
        fake.told.append(config)
        return Node(answer)

    def make_worker_node(**told: Any) -> Node[app.Summary]:
        fake.told.append(told)
        return Node(answer)

    def make_delivery_node(**told: Any) -> Node[tuple[int, int]]:
        async def drained(stop: StopRequest) -> tuple[int, int]:
            return 7, 1

        del told["on_event"]
        fake.told.append(told)
        return Node(drained)

    monkeypatch.setattr(app, "make_crawl_node", make_crawl_node)
    monkeypatch.setattr(app, "make_worker_node", make_worker_node)
    monkeypatch.setattr(app, "make_delivery_node", make_delivery_node)
    return fake


SETTINGS = {"lease_seconds": 30.0, "delay_seconds": 0.0}


def report(**changes: Any) -> Report:
    job = Job(
        spec=JobSpec(name="a.example", spider="", seeds=["https://a.example/"], settings=dict(SETTINGS)),
        state=changes.pop("state", State.RUNNING),
        run=changes.pop("run", 1),
        secret=b"secret",
        seeding=False,
        started_at=0.0,
        reason=changes.pop("reason", ""),
    )
    fields: dict[str, Any] = {
        "job": job,
        "counts": Counts(queued=51_234, delayed=3, leased=64, done=12_345, redirected=30, failed=12, excluded=4),
        "tally": {"items": 12_345, "bytes": 93_822_000, "duplicates": 1_234_567, "outside:offsite": 9},
        "errors": {"http_4xx": 8, "timeout": 3, "dns": 1, "tls": 0},
        "undelivered": 37,
        "sinks": [SinkSeen(target="pages.jsonl", undelivered=37, owner="x", blocking=False)],
        "workers": [WorkerSeen("elsewhere:1:1", 32, 0.2), WorkerSeen("elsewhere:2:1", 32, 99.0)],
        "hosts": [
            HostSeen(
                key=f"https://host-{number}.a-rather-long-name.with.many.labels.example:8443",
                queued=1200 * number,
                in_flight=8 - number,
                due_seconds=number * 1.7,
                blocked_seconds=0.0,
                latency_seconds=1.2 / (number + 1),
                strikes=number,
                error_class="http_5xx" if number == 1 else "",
            )
            for number in range(5)
        ],
    }
    return Report(**(fields | changes))


@pytest.fixture
def make_report() -> Callable[..., Report]:
    return report


@pytest.fixture
def job(folder: Path) -> str:
    """The job ``books`` of ``rig.books_job``."""
    write_books_job(folder)
    return JOB
