"""Nodes that end with their test, sites whose every answer it decides, and waiting for what others do."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rig.processes import wait_until


@pytest.fixture
def start(skitter: Any) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a node; what a test has left running ends with it."""
    started: list[subprocess.Popen[str]] = []

    def node(*arguments: object) -> subprocess.Popen[str]:
        started.append(skitter.start(*arguments))
        return started[-1]

    yield node
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        # Open pipes would be a failure of the next test.
        process.communicate()


def place_of(frontier: str, services: Any, name: str) -> tuple[str, ...]:
    """Options for a job of this name in a Redis, or else in a file of the test's folder."""
    url = services.need("redis")["url"] if frontier == "redis" else "sqlite:jobs.db"
    return ("--frontier", url, "--job", name)


@pytest.fixture
def until() -> Callable[..., Any]:
    """Ask again and again, until the answer is true."""
    return wait_until
