"""Chooses the tests that a change can break: `make test CHANGED=1`, or CHANGED=REF for the changes since REF.

The changed files are those of the working tree and of the commits since the branch left main; on main itself those of
the working tree, and those of the last commit where the tree is clean. What they reach is read from the imports, lazy
ones and names of modules in strings included:

- A changed module reaches the modules of its own room (``skitter.sinks``, ``skitter.frontier``) that import it,
  directly or over others, and the modules of other rooms that import one of these. It is not followed further: the
  rooms on top (``app``, ``cli``) import all the others, and every change would choose everything.
- A test file is chosen if it, its conftest files or what it imports of ``tests/`` and ``scripts/`` import a reached
  module of the changed room; a unit test also if that is a module of another room. Where more than ``MANY`` files are
  chosen so (``skitter.errors`` has twice as many), only the unit tests of them are: the others would take as long as
  all tests.
- A test file is chosen if it is in the folder of the changed room (``tests/unit/sinks``), or named after the changed
  module or its room (``tests/acceptance/test_export.py`` and ``skitter.cli.export``).
- Tests that start commands execute far more than they import. The promises of the core in ``CORE`` stand for them.
- A changed file of ``tests/`` chooses the tests that import it, and one that belongs to all tests chooses them all.
- A page of the documentation chooses ``tests/docs``; another file the tests that name it.

So it is a first answer within minutes, and the whole of ``make test`` has the last word. The files are printed on
stdout (none stands for all), what was chosen and why on stderr.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOTS_OF_IMPORTS = ("src", "scripts", "bench", "tests", "tests/fault", "tests/docs")
CORE = (
    "tests/contract/test_memory.py",
    "tests/contract/test_sqlite.py",
    "tests/stateful/test_sqlite_agrees.py",
    "tests/acceptance/test_crawl.py",
    "tests/fault/test_kill.py",
    "tests/meta",
)
"""Chosen whatever has changed: leases, commits and order of the frontier, a crawl from end to end, kills, resumes."""
FOR_ALL_TESTS = ("pyproject.toml", "requirements*.lock", "tests/conftest.py", "scripts/services")
MANY = 100
"""Test files."""
TELL_NOTHING = {"__init__", "__main__", "contract", "errors"}
"""Names of modules that say nothing about the tests of the same name."""


class Tree:
    """The Python files of a checkout, and what they import of one another; files are named relative to the checkout."""

    def __init__(self, root: Path) -> None:
        self._root = root
        folders = ("src", "tests", "scripts", "bench")
        self.files = sorted(
            file.relative_to(root).as_posix()
            for folder in folders
            for file in (root / folder).rglob("*.py")
            if "__pycache__" not in file.parts
        )
        self._known = set(self.files)
        self.tests = [file for file in self.files if fnmatch(file, "tests/*test_*.py") and _stem(file)[:5] == "test_"]
        self._by_name = {name: file for file in self.files for name in _names(file)}

    def text(self, file: str) -> str:
        return (self._root / file).read_text(encoding="utf-8")

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The files that each file imports, its conftest files included."""
        return {file: set(self._imports_of(file)) - {file} for file in self.files}

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {file: set() for file in self.files}
        for file, imported in self.imports.items():
            for each in imported:
                found[each].add(file)
        return found

    def _imports_of(self, file: str) -> Iterator[str]:
        folder = Path(file).parent
        if file.startswith("tests/"):
            above = (f"{each.as_posix()}/conftest.py" for each in (folder, *folder.parents))
            yield from (each for each in above if each in self._known)
        for node in ast.walk(ast.parse(self.text(file))):
            if isinstance(node, ast.Import):
                yield from self._modules(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                yield from self._modules(f"{base}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._in_string(node.value, folder)

    def _modules(self, names: Iterable[str]) -> Iterator[str]:
        """The file of each module, or of the module that has the name; not the packages above, which import much."""
        for name in names:
            above = name.rpartition(".")[0]
            found = self._by_name.get(name) or self._by_name.get(above)
            if found:
                yield found

    def _in_string(self, value: str, folder: Path) -> Iterator[str]:
        """A module that a string names: one to be loaded when it is needed, a plugin, or a program beside the file."""
        name = value.partition(":")[0]
        if name.startswith(("skitter.", "rig.")) and name in self._by_name:
            yield self._by_name[name]
        elif value.endswith(".py") and "/" not in value and (beside := f"{folder.as_posix()}/{value}") in self._known:
            yield beside

    def helpers(self, file: str) -> set[str]:
        """The file and what it imports outside of the package, directly and over others."""
        return self.following([file], self._imports_outside)

    @cached_property
    def _imports_outside(self) -> dict[str, set[str]]:
        return {file: {each for each in found if not each.startswith("src/")} for file, found in self.imports.items()}

    def following(self, start: Iterable[str], edges: dict[str, set[str]], *, inside: str = "") -> set[str]:
        """The files that edges lead to, the first ones included; only those whose path begins with ``inside``."""
        found, ahead = set(start), list(start)
        while ahead:
            for file in edges.get(ahead.pop(), ()):
                if file not in found and file.startswith(inside):
                    found.add(file)
                    ahead.append(file)
        return found


def _stem(file: str) -> str:
    return Path(file).stem


def _names(file: str) -> Iterator[str]:
    """The names that the file can be imported by."""
    for root in ROOTS_OF_IMPORTS:
        if file.startswith(f"{root}/"):
            parts = Path(file).relative_to(root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" and parts[1:] else parts)


def room(file: str) -> str:
    """The folder of the package on top that a module is in, or the module itself: ``src/skitter/sinks/``."""
    parts = Path(file).parts
    return "/".join(parts[:3]) + ("/" if len(parts) > 3 else "")


class Choice:
    """The test files that a change chooses, each with the first reason for it; or why it chooses all of them."""

    def __init__(self, tree: Tree, changed: Iterable[str]) -> None:
        self._tree = tree
        self.reasons: dict[str, str] = {}
        self.all_because = ""
        self._of_all_tests = tree.helpers("tests/conftest.py")
        for file in changed:
            is_in_use = file.startswith("tests/") and file in self._of_all_tests
            if is_in_use or any(fnmatch(file, pattern) for pattern in FOR_ALL_TESTS):
                self.all_because = f"{file} belongs to all tests"
                return
            self._add_tests_of(file)
        for core in CORE:
            self._add((file for file in tree.tests if file == core or file.startswith(f"{core}/")), "the core")

    def _add(self, files: Iterable[str], reason: str) -> None:
        for file in files:
            self.reasons.setdefault(file, reason)

    def _add_tests_of(self, file: str) -> None:
        tree = self._tree
        if file.startswith("src/skitter/"):
            self._add_tests_of_module(file)
        elif file.startswith("tests/"):
            self._add_tests_of_test_file(file)
        elif file.startswith(("docs/", "README")):
            self._add((test for test in tree.tests if test.startswith("tests/docs/")), "documentation")
        if not file.startswith(("src/", "tests/")):
            reached = tree.following([file], tree.importers)
            self._add((test for test in tree.tests if test in reached), f"import {file}")
            name = Path(file).name
            self._add((test for test in tree.tests if name in tree.text(test)), f"name {name}")

    def _add_tests_of_test_file(self, file: str) -> None:
        tree = self._tree
        reached = tree.following([file], tree.importers, inside="tests/")
        if not file.endswith(".py"):  # data of the tests beside and below it
            reached = {test for test in tree.tests if test.startswith(f"{Path(file).parent.as_posix()}/")}
        self._add((test for test in tree.tests if test in reached), "changed tests and those that import them")

    def _add_tests_of_module(self, file: str) -> None:
        tree = self._tree
        changed = [file] if file in tree.imports else self._modules_beside(file)
        if not changed:
            return
        home = room(changed[0])
        of_home = tree.following(changed, tree.importers, inside=home)
        beyond = set().union(*(tree.importers[each] for each in of_home))
        told = home.removeprefix("src/skitter/").strip("/").removesuffix(".py")
        direct, other = [], []
        for test in tree.tests:
            imported = set().union(*(tree.imports[each] for each in tree.helpers(test) - self._of_all_tests))
            if imported & of_home:
                direct.append(test)
            elif test.startswith("tests/unit/") and imported & beyond:
                other.append(test)
        if len(direct) > MANY:
            direct = [test for test in direct if test.startswith("tests/unit/")]
        self._add((test for test in tree.tests if _is_about(test, file, told)), f"about {told}")
        self._add(direct, f"import what {told} changes")
        self._add(other, f"one room further than {told}")

    def _modules_beside(self, file: str) -> list[str]:
        """For a module that is gone, a script of Redis or a template: the modules of the next folder that has some."""
        for folder in Path(file).parents:
            found = [each for each in self._tree.files if Path(each).parent == folder and _stem(each) != "__init__"]
            if found:
                return found
        return []


def _is_about(test: str, module: str, room_name: str) -> bool:
    """Whether a test is in the folder of a changed room, or has its name or that of the changed module."""
    if test.startswith((f"tests/unit/{room_name}/", f"tests/integration/{room_name}/")):
        return True
    words = {word.removesuffix("s") for word in _stem(test).split("_")[1:]}
    named = {_stem(module), room_name} - TELL_NOTHING
    return any({word.removesuffix("s") for word in name.split("_")} <= words for name in named)


def changed_files(root: Path, base: str) -> list[str]:
    """The files that differ from a commit; for base "1" from where the branch left main, or from HEAD on main."""
    if base == "1":
        base = _git(root, "merge-base", "HEAD", "main").strip() or "HEAD"
    files = _git(root, "diff", "--name-only", base) + _git(root, "ls-files", "--others", "--exclude-standard")
    return (files or _git(root, "diff", "--name-only", "HEAD~1")).split("\n")[:-1]


def _git(root: Path, *arguments: str) -> str:
    git = shutil.which("git") or "git"
    done = subprocess.run([git, *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout


def told(choice: Choice, changed: list[str], tests: int) -> str:
    if choice.all_because:
        return f"all {tests} test files: {choice.all_because}"
    counts = Counter(choice.reasons.values())
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
    return f"{len(choice.reasons)} of {tests} test files for {len(changed)} changed files: {reasons}"


def main() -> int:
    base = sys.argv[1] if len(sys.argv) > 1 else "1"
    tree = Tree(ROOT)
    changed = changed_files(ROOT, base)
    choice = Choice(tree, changed)
    print(told(choice, changed, len(tree.tests)), file=sys.stderr)
    if not choice.all_because:
        print("\n".join(sorted(choice.reasons)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
