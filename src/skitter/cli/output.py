"""Where words go: answers to stdout, everything else to stderr."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, redirect_stdout, suppress
from typing import Any

from skitter.cli.terminal_text import clean, clean_block, clean_json


def print_json(value: Any) -> None:
    """One value, one line, without secrets."""
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
    """While code of the user is loaded: what it prints goes to standard error, and not between the results."""
    return redirect_stdout(sys.stderr)


def note(text: str) -> None:
    """For the person at the terminal; never part of the answer, so it may go unheard."""
    with suppress(OSError):
        print(clean_block(text), file=sys.stderr)


def warn(text: str) -> None:
    note(f"warning: {clean(text)}")


def error(message: str, hint: str = "") -> None:
    """An error that is told, and not raised: the command has an answer besides."""
    note(f"error: {clean(message)}")
    if hint:
        note(f"hint: {clean(hint)}")
