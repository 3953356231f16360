"""``skitter status --watch``: the status again and again, redrawn in place on a terminal."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from skitter.cli.job_ref import JobRef, ask
from skitter.cli.status import QUEUES
from skitter.model.job import State

if TYPE_CHECKING:
    from skitter.app.views.status import StatusView
    from skitter.frontier.contract import Frontier

_UP, _CLEAR_BELOW = "\x1b[{}A", "\x1b[J"


class RedrawnBlock:
    """Lines at the bottom of a terminal that replace those before them."""

    def __init__(self) -> None:
        self._drawn = 0

    def draw(self, lines: list[str], columns: int, rows: int) -> None:
        """Draw as many lines as fit, each cut to the width: one that is broken by the terminal counts twice."""
        cut = [line[: columns - 1] for line in lines[: max(1, rows - 1)]]
        begin = (_UP.format(self._drawn) if self._drawn else "") + "\r" + _CLEAR_BELOW
        sys.stdout.write(begin + "\n".join(cut) + "\n")
        sys.stdout.flush()
        self._drawn = len(cut)


def watch(
    job_ref: JobRef,
    pause_seconds: float,
    shown: Callable[[StatusView], list[str]],
    show_json: Callable[[StatusView], None] | None,
) -> int:
    """Show the status until the job has ended; ``show_json`` prints it in another form."""
    from skitter.app.views.status import status_view

    block = RedrawnBlock() if sys.stdout.isatty() and show_json is None else None

    async def show_all(frontier: Frontier) -> None:
        is_first = True
        while True:
            status = status_view(await frontier.report(queues=QUEUES), job_ref.frontier)
            if show_json is not None:
                show_json(status)
            elif block is not None:
                size = shutil.get_terminal_size()
                block.draw(shown(status), size.columns, size.lines)
            else:
                print("\n".join(shown(status) if is_first else ["", *shown(status)]))
            sys.stdout.flush()
            is_first = False
            if status.state in (State.FINISHED, State.STOPPED):
                return
            await asyncio.sleep(pause_seconds)

    ask(job_ref, show_all)
    return 0
