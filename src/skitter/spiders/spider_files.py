"""Spiders in files, found by reading the files: nothing of them is run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec


class SpiderSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A class that looks like a spider."""

    name: str
    """Its ``name``, if that is a plain text; else empty, and it is run by its reference."""
    reference: str
    """``file.py:Class``, from the project's folder."""
    line: int
    about: str = ""
    """The first line of its docstring."""


class UnreadableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is no Python, or cannot be read."""

    file: str
    problem: str


class SpiderListing(msgspec.Struct, frozen=True, kw_only=True):
    """What files and folders have."""

    spiders: list[SpiderSeen]
    broken: list[UnreadableFile]


def list_spiders(spider_paths: Iterable[str], folder: Path) -> SpiderListing:
    """List the spiders of files and folders, relative to ``folder``; of a folder, those of its own files."""
    listing = SpiderListing(spiders=[], broken=[])
    for place in spider_paths:
        path = folder / place
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            shown = str(file.relative_to(folder) if file.is_relative_to(folder) else file)
            try:
                tree = ast.parse(file.read_bytes())
            except SyntaxError as error:
                listing.broken.append(UnreadableFile(file=shown, problem=f"line {error.lineno}: {error.msg}"))
            except (OSError, ValueError, RecursionError, MemoryError) as error:
                problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
                listing.broken.append(UnreadableFile(file=shown, problem=problem))
            else:
                listing.spiders.extend(_spiders_of(tree, shown))
    return listing


def named_spiders(spiders: Sequence[SpiderSeen]) -> dict[str, list[str]]:
    """Every name with its references (two with one name are a mistake, but not ours to hide)."""
    found: dict[str, list[str]] = {}
    for spider in spiders:
        if spider.name:
            found.setdefault(spider.name, []).append(spider.reference)
    return found


def _spiders_of(tree: ast.Module, file: str) -> Iterator[SpiderSeen]:
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        name = _literal_name(node)
        if name or any(_is_spider_base(base) for base in node.bases):
            about = (ast.get_docstring(node) or "").partition("\n")[0].strip()
            yield SpiderSeen(name=name, reference=f"{file}:{node.name}", line=node.lineno, about=about)


def _is_spider_base(base: ast.expr) -> bool:
    word = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
    return word.endswith("Spider")


def _literal_name(node: ast.ClassDef) -> str:
    """Return the text of ``name = "..."`` in the body of a class, or an empty text."""
    for statement in node.body:
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        value = statement.value
        if (
            any(isinstance(target, ast.Name) and target.id == "name" for target in targets)
            and isinstance(value, ast.Constant)
            and isinstance(value.value, str)
        ):
            return value.value
    return ""
