"""What ``crawl`` and ``worker`` share: the loop they run on, and how they end."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from skitter.cli import exit_codes
from skitter.cli import summary as ending
from skitter.cli.output import print_json
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.app import Summary
    from skitter.cli.job_ref import JobRef
    from skitter.cli.run_output import RunOutput
    from skitter.node.node import Node
    from skitter.observe.events import Event

T = TypeVar("T")


def check_outputs(options: argparse.Namespace) -> bool:
    """Whether items go to stdout; a summary there as well could not be told from them."""
    prints_items = any(target == "-" for target, _ in options.outputs)
    if prints_items and options.json:
        raise UsageError("both on stdout: --json and -o -", hint="write the items to a file, or leave --json away")
    return prints_items


def run_node(node: Node[T], on_event: Callable[[Event], None]) -> tuple[T | None, int]:
    """Run a node that Ctrl-C and SIGTERM stop; its result (None: it had not begun), and the signal that came, or 0."""
    from skitter.node.shutdown_signals import ShutdownSignals

    signals = ShutdownSignals(on_event, stop=node.stop, kill=node.kill)

    async def run() -> T | None:
        with signals.listening():
            return await node.run()

    return run_loop(run()), signals.signal


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """On the kind of loop that workers have: a memory frontier's worker runs in this very process."""
    import asyncio

    from skitter.app.event_loop import new_loop, settle_process

    settle_process()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


def conclude(summary: Summary | None, number: int, place: JobRef, options: argparse.Namespace, said: RunOutput) -> int:
    """Say how it ended, and what now; the exit code. ``number``: the signal that ended it, or 0."""
    if summary is None:
        return exit_codes.of_signal(number)
    summary.signal = number
    fields = ending.as_json(summary, place)
    if options.json:
        print_json(fields)
    said.summary(ending.as_text(summary), fields)
    for step in ending.next_steps(summary, place, options.command_line):
        said.note(step)
    code = exit_codes.of_summary(summary)
    if summary.seeding_problem:
        trace = place.command("status", "-v")
        hint = f"correct the spider and run the same command again; the traceback: {trace}"
        said.error(ending.seeding_line(summary.seeding_problem), hint, code)
    elif code == exit_codes.FAILED:
        why = f": {summary.no_seed_because}" if summary.no_seed_because else ""
        said.error(f"no seed was done: {place.job}{why}", ending.reason_hint(summary, place), code)
    return code
