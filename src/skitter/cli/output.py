"""Printing: answers to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, redirect_stdout, suppress
from typing import Any

from skitter.cli.terminal_text import clean, clean_block, clean_json


def print_json(value: Any) -> None:
    """Print a value as one line of JSON, without secrets."""
    import msgspec

    from skitter.model.secrets import without_secrets_inside

    plain = without_secrets_inside(msgspec.to_builtins(value))
    try:
        text = msgspec.json.encode(plain).decode()
    except UnicodeEncodeError:
        # The name of a file may be no text; json escapes what msgspec refuses.
        import json

        text = json.dumps(plain, separators=(",", ":"))
    print(clean_json(text))


def stdout_for_data() -> AbstractContextManager[object]:
    """Redirect the prints of user code to standard error, so that stdout has results only."""
    return redirect_stdout(sys.stderr)


def note(text: str) -> None:
    """Print a note to stderr, ignoring a closed pipe."""
    with suppress(OSError):
        print(clean_block(text), file=sys.stderr)


def warn(text: str) -> None:
    note(f"warning: {clean(text)}")


def error(message: str, hint: str = "") -> None:
    """Print an error without raising it, for commands that also print an answer."""
    note(f"error: {clean(message)}")
    if hint:
        note(f"hint: {clean(hint)}")
