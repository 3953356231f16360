"""A process that fetches what it is told, and says how each fetch ended: run by tests with another network (network.c).

Standard input: a JSON list of [URL, trusted]. Standard output: a JSON list of statuses and classes of errors. Names
are not remembered: each connection looks its name up again, which is more than libcurl does by itself.
"""

from __future__ import annotations

import asyncio
import json
import sys

import pycurl

from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.engine import CurlFetcher
from skitter.fetch.transfer import Transfer
from skitter.settings import Fetch


async def fetch_all(wanted: list[tuple[str, bool]], at_once: int) -> list[str]:
    fetcher = CurlFetcher(Fetch(timeout_seconds=10, connect_timeout_seconds=5))
    free = asyncio.Semaphore(at_once)

    async def fetch(url: str, trusted: bool) -> str:
        async with free:
            try:
                return str((await fetcher.fetch(FetchRequest(url=url, trusted=trusted))).status)
            except FetchError as error:
                return error.kind

    try:
        return list(await asyncio.gather(*(fetch(url, trusted) for url, trusted in wanted)))
    finally:
        await fetcher.close()


def forget_names() -> None:
    configure = Transfer._configure

    def configure_and_forget(self: Transfer) -> None:
        configure(self)
        self.curl.setopt(pycurl.DNS_CACHE_TIMEOUT, 0)

    Transfer._configure = configure_and_forget


if __name__ == "__main__":
    forget_names()
    json.dump(asyncio.run(fetch_all(json.load(sys.stdin), int(sys.argv[1]))), sys.stdout)
