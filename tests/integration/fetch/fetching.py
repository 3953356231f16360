"""A process that fetches what it is told: run by tests that give it another network (network.c) or look at its memory.

Standard input: a JSON list of [URL, trusted]. Standard output: a JSON list of statuses and classes of errors, and by
how many bytes the process grew at its largest (0 where the system does not tell). Names are not remembered: each
fetch looks its name up again, which is more than the engine does by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path

from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.dns_lookups import DnsLookups
from skitter.fetch.engine import CurlFetcher
from skitter.settings import Fetch


async def fetch_all(wanted: list[tuple[str, bool]], at_once: int) -> list[str]:
    fetcher = CurlFetcher(Fetch(timeout_seconds=60, connect_timeout_seconds=5))
    free = asyncio.Semaphore(at_once)

    async def fetch(url: str, trusted: bool) -> str:
        async with free:
            try:
                return str((await fetcher.fetch(FetchRequest(url=url, trusted=trusted))).status)
            except FetchError as error:
                return error.error_class

    try:
        return list(await asyncio.gather(*(fetch(url, trusted) for url, trusted in wanted)))
    finally:
        await fetcher.close()


def forget_names() -> None:
    DnsLookups.remember = lambda _self, _origin: None


def memory_bytes(name: str) -> int:
    """VmRSS is what the process has, VmHWM the most it ever had."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    forget_names()
    before = memory_bytes("VmRSS")
    endings = asyncio.run(fetch_all(json.load(sys.stdin), int(sys.argv[1])))
    json.dump([endings, memory_bytes("VmHWM") - before], sys.stdout)
