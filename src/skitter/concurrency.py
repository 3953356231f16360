"""Concurrent asyncio calls that are cancelled together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def gather_or_cancel(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results of concurrent calls; when one fails, cancel and await the others.

    ``asyncio.gather`` alone leaves the others running. A TaskGroup would raise an ExceptionGroup.
    """
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
