"""A script that is interrupted before its crawl has begun ends as one without handlers would."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from skitter.app import script
from skitter.node.node import Node
from skitter.stop_request import StopRequest


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)], ids=["INT", "TERM"]
)
def test_a_signal_before_there_is_anything_to_sum_up(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, expected: type[BaseException]
) -> None:
    async def waits_for_its_store(stop: StopRequest) -> None:
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    monkeypatch.setattr(script, "make_crawl_node", lambda *_, **__: Node(waits_for_its_store))
    with pytest.raises(expected) as caught:
        script.crawl("https://a.example/", frontier="memory:")
    if isinstance(caught.value, SystemExit):
        assert caught.value.code == 143
