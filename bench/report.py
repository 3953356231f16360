"""What a bench writes down: sections of docs/benchmarks.md, each with its table and its plot.

A section stands between two marks, and a bench replaces its own: every figure there is some command's.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
CHINESE_README = ROOT / "README.zh-CN.md"
DOCS = ROOT / "docs"
PAGE = DOCS / "benchmarks.md"
PLOTS = DOCS / "plots"
COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 64, 150, 36, 44
BAR = 26


def write_section(name: str, command: str, text: str, page: Path = PAGE) -> None:
    """Put a section in place of the one of this name, or at the end."""
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}"
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    section = f"{begin}\n\n{text.strip()}\n\nMade by `{command}` ({where}).\n\n{end}"
    before = page.read_text() if page.exists() else "# Benchmarks\n"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if pattern.search(before):
        after = pattern.sub(lambda _: section, before)
    else:
        after = f"{before.rstrip()}\n\n{section}\n"
    page.write_text(after)


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as markdown; the names of the first row are the heads, and a first column of words stands to the left."""
    heads = list(rows[0])
    first = " --- |" if isinstance(rows[0][heads[0]], str) else " --: |"
    lines = ["| " + " | ".join(heads) + " |", "|" + first + " --: |" * (len(heads) - 1)]
    lines += ["| " + " | ".join(str(row[head]) for head in heads) + " |" for row in rows]
    return "\n".join(lines)


def bars(name: str, title: str, values: Mapping[str, tuple[float, float, float]]) -> str:
    """Draw a bar for each median, with a line from the lowest to the highest, into docs/plots; as `plot`."""
    left, right = 130, 80
    height = TOP + BAR * len(values) + 12
    top = max(high for _, _, high in values.values())

    def across(value: float) -> float:
        return left + value / top * (WIDTH - left - right)

    parts = opened(height, left, title)
    for number, (label, (median, low, high)) in enumerate(values.items()):
        up = TOP + BAR * number
        middle = up + BAR / 2 - 3
        colour = COLOURS[0] if label.startswith("skitter") else "#8c959f"
        parts.append(f'<text x="{left - 8}" y="{middle + 4}" text-anchor="end">{escape(label)}</text>')
        parts.append(
            f'<rect x="{left}" y="{up}" width="{across(median) - left:.1f}" height="{BAR - 6}" fill="{colour}"/>'
        )
        parts.append(
            f'<line x1="{across(low):.1f}" y1="{middle}" x2="{across(high):.1f}" y2="{middle}" stroke="#24292f"/>'
        )
        parts.append(f'<text x="{across(max(median, high)) + 6:.1f}" y="{middle + 4}">{median:,.0f}</text>')
    return drawn(name, title, parts)


def plot(name: str, title: str, x: Sequence[float], lines: Mapping[str, Sequence[float]], *, x_title: str) -> str:
    """Draw lines over x into docs/plots; the markdown that shows them."""
    top = max(max(values) for values in lines.values()) * 1.05
    right = max(x)

    def at(across: float, up: float) -> tuple[float, float]:
        width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + across / right * width, HEIGHT - BOTTOM - up / top * height

    parts = opened(HEIGHT, LEFT, title)
    for part in range(5):
        value = top / 1.05 * part / 4
        across, up = at(0, value)
        parts.append(f'<line x1="{across}" y1="{up}" x2="{WIDTH - RIGHT}" y2="{up}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{across - 6}" y="{up + 4}" text-anchor="end">{value:,.0f}</text>')
    for value in x:
        across, up = at(value, 0)
        parts.append(f'<text x="{across}" y="{up + 18}" text-anchor="middle">{value:g}</text>')
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_title)}</text>')
    for number, (label, values) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [at(across, up) for across, up in zip(x, values, strict=True)]
        path = " ".join(f"{across:.1f},{up:.1f}" for across, up in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3" fill="{colour}"/>' for across, up in points]
        line = TOP + 16 * number
        parts.append(f'<text x="{WIDTH - RIGHT + 12}" y="{line + 12}" fill="{colour}">{escape(label)}</text>')
    return drawn(name, title, parts)


def opened(height: int, left: int, title: str) -> list[str]:
    """The beginning of every drawing."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" style="font: 12px sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]


def drawn(name: str, title: str, parts: list[str]) -> str:
    PLOTS.mkdir(exist_ok=True)
    (PLOTS / f"{name}.svg").write_text("\n".join([*parts, "</svg>"]) + "\n")
    return f"![{title}](plots/{name}.svg)"
