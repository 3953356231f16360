"""The command line for suites that run very many commands: in their own process, without a start for each."""

from __future__ import annotations

from skitter.cli import COMMANDS, main

__all__ = ["COMMANDS", "main"]
