"""A Redis of a bench's own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SERVICES = Path(__file__).resolve().parents[1] / "scripts" / "services"


@contextlib.contextmanager
def redis_at(url: str = "") -> Iterator[str]:
    """The server that was named, or a private one that ends with the block."""
    if url:
        yield url
        return
    process = subprocess.Popen(
        [sys.executable, str(SERVICES), "redis"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["redis"]["url"]
    finally:
        process.communicate()
