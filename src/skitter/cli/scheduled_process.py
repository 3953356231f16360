"""The process of a command that a scheduler runs: ``python -m skitter.cli.scheduled_process PARENT COMMAND ARGS``.

It is the command line, and is asked to stop (SIGTERM) when its scheduler dies, however it dies: another scheduler is
about to run the command again, which resumes what this one leaves.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

_SET_PARENT_DEATH_SIGNAL = 1


def end_with_parent(parent: int) -> None:
    """Ask the kernel for SIGTERM when the parent dies; where it cannot (not Linux), the command comes to its end."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:
        # It died before it could be watched.
        sys.exit(128 + signal.SIGTERM)


def main(arguments: Sequence[str]) -> int:
    from importlib import import_module

    from skitter import cli

    import_module("skitter.__main__")  # sets what the first signals do
    end_with_parent(int(arguments[0]))
    return cli.main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
