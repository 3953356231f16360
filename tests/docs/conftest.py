"""One demo site for all pages of a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def demo_address() -> Iterator[str]:
    """HOST:PORT of a ``skitter demo``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "skitter", "demo", "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip().removeprefix("http://").rstrip("/")
        assert address
        yield address
    finally:
        process.terminate()
        process.communicate()
