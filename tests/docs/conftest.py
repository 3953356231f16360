"""One demo site for all pages of a process."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.processes import ForkedProcess


@pytest.fixture(scope="session")
def demo_address() -> Iterator[str]:
    """HOST:PORT of a ``skitter demo``."""
    process = ForkedProcess("skitter", ["demo", "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip().removeprefix("http://").rstrip("/")
        assert address
        yield address
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture
def port_of_serve() -> Iterator[None]:
    """Keep other pages from the port where ``skitter serve`` listens by default, also those of another process."""
    with Path(tempfile.gettempdir(), f"skitter-docs-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
