"""Text that is about to be seen: without control characters, and without secrets."""

from __future__ import annotations

from skitter.model.control_characters import visible, visible_json
from skitter.model.secrets import without_secrets


def clean(text: str) -> str:
    """Return text as one safe line: no control characters, single white space.

    Secrets are masked, here as in ``clean_block``: what is cleaned is about to be seen.
    """
    # Cleaned first: an escape in the middle of a secret must not hide it.
    return without_secrets(visible(" ".join(text.split())))


def clean_block(text: str) -> str:
    """Clean a text of several lines (a traceback), keeping its indentation."""
    return without_secrets("\n".join(visible(line.expandtabs(4).rstrip()) for line in text.splitlines()))


def clean_json(text: str) -> str:
    """Return equivalent JSON without control characters."""
    return visible_json(text)
