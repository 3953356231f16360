"""The synthetic web in a thread of the test, with a gate before its pages."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from rig.gate import Gate
from skitter.testing.web import SyntheticWeb, WebSpec


class WatchedWeb(SyntheticWeb):
    """A synthetic web whose every page is asked for through a gate."""

    def __init__(self, spec: WebSpec) -> None:
        super().__init__(spec)
        self.gate = Gate()

    def arrived(self, host: int, target: bytes, encodings: bytes) -> Any:
        """Answer a request. The web has one thread, which waits at the gate: a web that is shut answers nothing."""
        answer = super().arrived(host, target, encodings)
        if target != b"/robots.txt":
            self.gate.arrive((host, target))
        return answer


@contextlib.contextmanager
def watched(spec: WebSpec) -> Iterator[WatchedWeb]:
    """Serve a web until the block ends."""
    loop, web = asyncio.new_event_loop(), WatchedWeb(spec)
    thread = threading.Thread(target=loop.run_forever, name="watched-web", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(web.__aenter__(), loop).result()
        try:
            yield web
        finally:
            asyncio.run_coroutine_threadsafe(web.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
