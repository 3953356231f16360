"""Messages that the pages on troubleshooting quote are messages of the program."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from skitter.model.worker import WaitsFor

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "troubleshooting.md", ROOT / "docs" / "zh" / "troubleshooting.md"]
SHORTEST = 9
"""Of the parts that do not change: shorter ones would be found anywhere."""


@cache
def _texts() -> str:
    """All texts of the source, with the changing parts of formatted ones as an ellipsis."""
    found = []
    for path in (ROOT / "src" / "skitter").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def _quoted(page: Path) -> list[str]:
    """Headings and first cells that are a message, and those with an ellipsis anywhere."""
    text = page.read_text(encoding="utf-8")
    return sorted({quote for quote in re.findall(r"`([^`\n]+)`", text) if "…" in quote and " " in quote})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_quoted_message_is_in_the_source(page: Path) -> None:
    quotes = [quote for quote in _quoted(page) if not quote.startswith("skitter ")]
    assert len(quotes) > 10
    gone = [
        quote
        for quote in quotes
        for part in quote.split("…")
        if len(part.strip()) >= SHORTEST and part.strip(" :") not in _texts()
    ]
    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_reason_to_wait_is_explained(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [reason.value for reason in WaitsFor if f"\n| `{reason}` |" not in text] == []
