"""Redial command of an egress: runs in a shell with a time limit, and may print the new local address."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from ipaddress import ip_address
from typing import NamedTuple

_MAX_OUTPUT_BYTES = 65_536


class Redialed(NamedTuple):
    """Result of a redial command."""

    error: str
    """Reason of a failure; empty if it succeeded."""
    address: str
    """IP address in the last line of its output; empty if that line is not an IP address."""


async def redial(command: str, limit_seconds: float) -> Redialed:
    """Run a redial command, or kill it with all its children at the time limit."""
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
        return Redialed(f"not finished after {limit_seconds:g} s", "")
    finally:
        # Kill its children too: the call may have been cancelled, or the command started background processes.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    lines = output.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if code != 0:
        return Redialed(f"exit code {code}: {last[:200]}" if last else f"exit code {code}", "")
    return Redialed("", address_in(last))


def address_in(text: str) -> str:
    """Return the text as an IP address, or an empty string if it is not one."""
    with contextlib.suppress(ValueError):
        return str(ip_address(text.strip()))
    return ""
