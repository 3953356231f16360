"""Hints and messages speak of what the reader has: no file of the repository, which a pip install does not bring."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "skitter"
GENERATED = {"observe/events.py"}
"""Its texts are written into the reference, beside the pages that they name."""


def _messages(tree: ast.Module) -> list[str]:
    """Texts that are values; not docstrings, nor the texts under fields that describe them."""
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described
    ]


def test_no_message_names_a_file_of_the_documentation() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {text}"
        for path in SOURCE.rglob("*.py")
        if str(path.relative_to(SOURCE)) not in GENERATED and "bench" not in path.parts
        for text in _messages(ast.parse(path.read_bytes()))
        if "docs/" in text
    ]
    assert not found
