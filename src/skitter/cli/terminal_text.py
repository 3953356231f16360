"""Formatting for terminals: text without control characters or secrets, and readable numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from skitter.observe import clean_text

clean, clean_block, clean_json = clean_text.clean, clean_text.clean_block, clean_text.clean_json


def first_line(text: str) -> str:
    """Return the last line of a traceback, or the first line of another error."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    return clean(lines[-1] if "Traceback (most recent call last)" in text else lines[0])


def shorten(text: str, width: int) -> str:
    """Shorten to ``width`` characters by a cut in the middle, because both ends of a URL matter."""
    if len(text) <= width:
        return text
    if width < 5:
        return text[: max(width, 0)]
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def number(value: int) -> str:
    return f"{value:,}"


def figure(value: int) -> str:
    """At most seven characters, for a display that must not move: ``999,999``, ``1.235 M``, ``12.35 G``."""
    if value < 1_000_000:
        return f"{value:,}"
    amount = value / 1e6
    for unit in ("M", "G"):
        if amount < 999.95:
            return f"{amount:.4g} {unit}"
        amount /= 1000
    return f"{amount:.4g} T"


def count(value: int, noun: str) -> str:
    """``1 page``, ``2 pages``."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def rate(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def size(value: float) -> str:
    """Format a number of bytes with its unit."""
    if value < 1000:
        return f"{value:.0f} B"
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:,.1f} TB"


def clock(seconds: float) -> str:
    """``0:01:23``, and ``2 d 0:01:23`` after a day; ``?`` for what is no duration, as a damaged record may hold."""
    if not math.isfinite(seconds):
        return "?"
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86_400)
    text = f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days} d {text}" if days else text


def duration(seconds: float) -> str:
    """``120 ms``, ``1.2 s``, ``0:02:05``."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 99.95 else clock(seconds)


def instant(seconds: float) -> str:
    """Format a time of the store's clock."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def by_class(errors: dict[str, int]) -> list[tuple[str, int]]:
    """Return the error classes that have occurred, the most frequent first."""
    return sorted(((name, n) for name, n in errors.items() if n > 0), key=lambda pair: (-pair[1], pair[0]))


def table(rows: Iterable[Sequence[str]], *, right: Sequence[int] = (), indent: str = "") -> list[str]:
    """Columns as wide as their widest cell; those in ``right`` are aligned to the right, the last is not padded."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines
