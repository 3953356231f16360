"""Calls of Playwright with a time limit, which are left to their end and not cancelled.

Cancelling one leaves Playwright's own future behind, whose error nobody reads when the page is closed: asyncio would
log it as a defect. So a call that takes too long goes on until its page is closed, and its error is read here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float, call: Coroutine[Any, Any, T], lost: asyncio.Future[str] | None = None) -> T:
    """Return what a call returns. Raises TimeoutError after so many seconds, or when ``lost`` is set.

    ``lost``: of a browser. What it was asked when it was killed is not always answered with an error.
    """
    task = asyncio.get_running_loop().create_task(call)
    watched: list[asyncio.Future[Any]] = [task] if lost is None else [task, lost]
    try:
        await asyncio.wait(watched, timeout=max(seconds, 0.0), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not task.done():
            abandon(task)
    if not task.done():
        raise TimeoutError
    return task.result()


def abandon(task: asyncio.Future[Any]) -> None:
    """Let it end by itself, and read its error."""
    task.add_done_callback(_read_error)


def _read_error(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
