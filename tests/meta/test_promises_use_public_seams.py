"""The suites of promises import public names only, so that code can move inside ``src/skitter`` without them.

Public is what the documentation of the Python API shows, and what is made for suites: ``skitter.testing``, the
contracts, the values in their signatures, errors and settings. Everything else is a room of the package; its tests are
in ``tests/unit`` and ``tests/integration``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
PROMISES = ("acceptance", "contract", "stateful", "fault")
RIG = TESTS / "rig"

PUBLIC = ("skitter.testing", "skitter.model", "skitter.errors", "skitter.settings", "skitter.schedules")
"""Public with everything below."""
PACKAGES = ("skitter", "skitter.cluster", "skitter.dedup", "skitter.contrib.celery", "skitter.contrib.scrapy")
"""Public with the names of the package itself; what is below is not."""
CONTRACT = re.compile(r"skitter\.\w+\.contract")
ALLOWED = {
    # What the factory of an installed sink or intake is called with.
    ("acceptance/third_party/skitter_tiny.py", "skitter.sinks.targets.Target"),
    ("acceptance/third_party/skitter_tiny.py", "skitter.intakes.sources.Source"),
    # Spiders that take a guard away, as if a page had got past it.
    ("acceptance/test_hostile_pages.py", "skitter.extract.response"),
    # Twenty workers that fail take too long: the number is lowered.
    ("fault/test_failing_workers.py", "skitter.node.supervisor"),
    # Programs that the fork server must not import. It imports all others by itself.
    ("rig/fork_server.py", "skitter.app.__main__"),
    ("rig/fork_server.py", "skitter.cli.live_display"),
}
HINT = "use the command line, the Python API or skitter.testing, or move the test to tests/unit or tests/integration"


def documented() -> set[str]:
    """The names that the reference and the guides of the Python API import."""
    pages = [*ROOT.glob("docs/reference/python/*.md"), *ROOT.glob("docs/how-to/write-*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    shown = re.findall(r"from (skitter[\w.]*) import ([\w, ]+)", text)
    return {f"{module}.{name.strip()}" for module, names in shown for name in names.split(",")}


def imported(source: str) -> Iterator[str]:
    """The modules and names of skitter that a source imports: also in programs and paths inside its texts."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and _is_ours(node.module or ""):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _named_in_text(node.value)


def _named_in_text(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if found := re.match(r"\s*from (skitter[\w.]*) import ([\w, ]+)", line):
            yield from (f"{found[1]}.{name.split(' as ')[0].strip()}" for name in found[2].split(","))
        elif found := re.match(r"\s*import (skitter[\w.]*)", line):
            yield found[1]
    # The place of a name that is replaced: monkeypatch.setattr("skitter.room.module.NAME", …).
    if re.fullmatch(r"skitter(\.\w+){2,}", text) and _is_module(text.rpartition(".")[0]):
        yield text


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "skitter"


def _is_module(name: str) -> bool:
    path = ROOT / "src" / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def is_public(name: str, shown: set[str]) -> bool:
    """Whether a suite of promises may import a module, or a name of a module."""
    module = name.rpartition(".")[0]
    if name in shown or name in PACKAGES or CONTRACT.fullmatch(name) or CONTRACT.fullmatch(module):
        return True
    if any(name == public or name.startswith(f"{public}.") for public in PUBLIC):
        return True
    return module in PACKAGES and not _is_module(name)


def violations(file: str, source: str, shown: set[str]) -> list[str]:
    """What a file imports that it may not, one line each."""
    names = dict.fromkeys(imported(source))
    return [
        f"{file}: {name} is a room of the package: {HINT}"
        for name in names
        if not is_public(name, shown) and (file, name) not in ALLOWED
    ]


def rig_used_by(sources: list[str]) -> set[Path]:
    """The files of the rig that sources import, and those that these import."""
    found: set[Path] = set()
    while sources:
        tree = ast.parse(sources.pop())
        for node in ast.walk(tree):
            for path in _files_of_rig(node):
                if path not in found:
                    found.add(path)
                    sources.append(path.read_text())
    return found


def _files_of_rig(node: ast.AST) -> list[Path]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    else:
        return []
    paths = [(TESTS / name.replace(".", "/")).with_suffix(".py") for name in names if name.startswith("rig.")]
    return [path for path in paths if path.is_file()]


def test_suites_of_promises_import_public_names_only() -> None:
    files = [file for folder in PROMISES for file in sorted((TESTS / folder).rglob("*.py"))]
    # Programs that the rig starts are imported by nobody.
    files += sorted(rig_used_by([file.read_text() for file in files]) | {*RIG.glob("hook/*.py")})
    assert len(files) > 100
    shown = documented()
    found = [
        line
        for file in files
        for line in violations(str(file.relative_to(TESTS)), file.read_text(encoding="utf-8"), shown)
    ]
    assert not found, "\n".join(found)


def test_nothing_is_allowed_that_nobody_imports() -> None:
    unused = [
        (file, name)
        for file, name in sorted(ALLOWED)
        if not (TESTS / file).is_file() or name not in imported((TESTS / file).read_text())
    ]
    assert not unused


@pytest.mark.parametrize(
    "planted",
    [
        "from skitter.frontier.sqlite.store import SqliteStore",
        "import skitter.web.server",
        "from skitter import cli",
        "from skitter.cluster import coordinators",
        "def late():\n    from skitter.worker.loop import Worker",
        "PROGRAM = '''\nimport sys\nfrom skitter.delivery.runner import Delivery\n'''",
        "def test(monkeypatch):\n    monkeypatch.setattr('skitter.frontier.sqlite.store.BUSY_SECONDS', 1)",
    ],
)
def test_an_import_of_a_room_is_found(planted: str) -> None:
    (found,) = violations("contract/test_planted.py", planted, documented())
    assert found.startswith("contract/test_planted.py: skitter.")
    assert HINT in found


@pytest.mark.parametrize(
    "allowed",
    [
        "import skitter",
        "from skitter import Spider, __version__",
        "from skitter.testing.frontiers import open_frontier",
        "from skitter.frontier.contract import Frontier",
        "from skitter.frontier import contract",
        "from skitter.model.job import JobSpec",
        "from skitter.cluster import Cluster, connect",
        "from skitter.fetch.engine import CurlFetcher",
        "EVENT = 'skitter.log'",
    ],
)
def test_an_import_of_a_public_name_is_not(allowed: str) -> None:
    assert violations("contract/test_planted.py", allowed, documented()) == []
