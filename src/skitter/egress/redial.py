"""Redial command of an egress: it is run in a shell, with a time limit, and may print the address to go out from."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from ipaddress import ip_address
from typing import NamedTuple

_MAX_OUTPUT_BYTES = 65_536


class Redialed(NamedTuple):
    """How a redial command ended."""

    error: str
    """Why it failed; empty: it did not."""
    address: str
    """The IP address that its last line of output is; empty: it is none."""


async def redial(command: str, limit_seconds: float) -> Redialed:
    """Run a redial command to its end, or kill it with all its children when its time is over."""
    process = await asyncio.create_subprocess_shell(
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    output = b""
    try:
        async with asyncio.timeout(limit_seconds):
            while piece := await process.stdout.read(_MAX_OUTPUT_BYTES):
                output = (output + piece)[-_MAX_OUTPUT_BYTES:]
            code = await process.wait()
    except TimeoutError:
        return Redialed(f"not over after {limit_seconds:g} s", "")
    finally:
        # Also what it left behind, if it was cancelled or has put something into the background.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    lines = output.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if code != 0:
        return Redialed(f"exit code {code}: {last[:200]}" if last else f"exit code {code}", "")
    return Redialed("", address_in(last))


def address_in(text: str) -> str:
    """Return the IP address that a text is; empty: it is none."""
    with contextlib.suppress(ValueError):
        return str(ip_address(text.strip()))
    return ""
