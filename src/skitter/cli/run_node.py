"""The event loop and the signals under which ``crawl`` and ``worker`` run a node."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.node.node import Node
    from skitter.observe.events import Event

T = TypeVar("T")


def check_outputs(options: argparse.Namespace) -> bool:
    """Return whether items go to stdout; refuses --json then, which would mix with them."""
    prints_items = any(target == "-" for target, _ in options.outputs)
    if prints_items and options.json:
        raise UsageError(
            "both write to standard output: --json and -o -", hint="write the items to a file, or omit --json"
        )
    return prints_items


def run_node(node: Node[T], on_event: Callable[[Event], None]) -> tuple[T | None, int]:
    """Run a node that Ctrl-C and SIGTERM stop; return its result (None: not begun) and the signal, or 0."""
    from skitter.node.shutdown_signals import ShutdownSignals

    signals = ShutdownSignals(on_event, stop=node.stop, kill=node.kill)

    async def run() -> T | None:
        with signals.listening():
            return await node.run()

    return run_loop(run()), signals.signal


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run work on the workers' kind of loop, because a memory frontier's worker runs in this process."""
    import asyncio

    from skitter.app.event_loop import new_loop, settle_process

    settle_process()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)
