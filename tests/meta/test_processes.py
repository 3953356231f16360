"""Processes that skitter starts of itself import nothing from the current folder."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "skitter"


def test_every_process_of_our_own_has_a_safe_path() -> None:
    found = {
        file.relative_to(SOURCE): re.findall(r"sys\.executable[^\n]{0,6}", file.read_text())
        for file in SOURCE.rglob("*.py")
        if "sys.executable" in file.read_text()
    }
    assert found, "it looks at the wrong files"
    assert all(text == 'sys.executable, "-P"'[: len(text)] for texts in found.values() for text in texts), found
