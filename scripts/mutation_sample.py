"""Measures what the fast tests notice: it changes the code in small ways and counts the changes that fail a test.

    python scripts/mutation_sample.py --mutants build/mutants.tsv --results build/mutation.tsv [--tree PATH]

The tree is copied to a temporary folder and never changed itself. The fast tests run once under coverage, which tells
what tests execute a line. Then the tests are collected once, and every mutant has a fork of that process: the fork
gets the changed code of one function, and runs tests that execute its line until one fails. The list of mutants is
drawn by a seed where the file does not exist, and read where it does, so that two trees are compared by the same
mutants. The module ``coverage`` is needed, which is not among the locked packages. Mutants are inside of functions:
constants of modules and defaults of parameters stay as they are. Tests that start commands do not see a mutant.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import importlib
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("sinks", "intakes", "fetch", "frontier/rules")
FAST_TESTS = (
    "tests/unit",
    "tests/contract/test_memory.py",
    "tests/contract/test_sqlite.py",
    "tests/stateful/test_sqlite_agrees.py",
    "tests/integration/fetch",
)
QUIET = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-W", "default")
NOT_COPIED = (".git", ".venv", "build", "dist", "node_modules", ".mypy_cache", ".hypothesis", "__pycache__")
MOST_TESTS = 60
"""So many of the tests that execute a line run for a mutant of it."""
MOST_SECONDS = 20.0
NOT_APPLIED = 4
"""How the fork of a mutant ends whose function is nowhere, or would have other free variables."""
HANG_SECONDS = 20.0
"""A mutant whose tests take so much longer than before hangs, and counts as noticed."""


@dataclass(frozen=True)
class Mutant:
    file: str
    number: int
    line: int
    change: str

    @property
    def package(self) -> str:
        inner = self.file.removeprefix("src/skitter/")
        return next(name for name in PACKAGES if inner.startswith(f"{name}/"))


@dataclass
class Covering:
    """The seconds of each test that passed, and the tests that are to run for a mutant of a line."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]

    def tests(self, mutant: Mutant) -> list[str]:
        return self.lines.get(mutant.file, {}).get(str(mutant.line), [])


def chosen_tests(found: list[str], sizes: Counter[str], seconds: dict[str, float]) -> list[str]:
    """First of those that execute a line the tests that execute few lines, then some of the others, always the same."""
    found = sorted(found, key=lambda test: (sizes[test], test))
    near, far = found[: MOST_TESTS // 2], found[MOST_TESTS // 2 :]
    far.sort(key=lambda test: hashlib.sha256(test.encode()).digest())
    chosen: list[str] = []
    for test in (near + far)[:MOST_TESTS]:
        if not chosen or sum(seconds[each] for each in chosen) + seconds[test] <= MOST_SECONDS:
            chosen.append(test)
    return chosen


# ------------------------------------------------------------------------------------------ the changes

OTHER_COMPARISON: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
Change = tuple[str, Callable[[], None]]


def changes(tree: ast.Module) -> Iterator[tuple[int, Change]]:
    """Every change to the body of a function with its line; calling it changes the tree."""
    for function in outermost_functions(tree):
        for statement in function.body:
            for parent in ast.walk(statement):
                yield from _changes_of_node(parent)
                for name, value in ast.iter_fields(parent):
                    for index, child in enumerate(value if isinstance(value, list) else [value]):
                        if isinstance(child, ast.AST):
                            put = _setter(parent, name, index if isinstance(value, list) else None)
                            yield from ((getattr(child, "lineno", 0), each) for each in _replacements(child, put))


def outermost_functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        elif not isinstance(child, ast.expr):
            yield from outermost_functions(child)


def _setter(parent: ast.AST, name: str, index: int | None) -> Callable[[ast.AST], None]:
    def put(new: ast.AST) -> None:
        if index is None:
            setattr(parent, name, new)
        else:
            getattr(parent, name)[index] = new

    return put


def _changes_of_node(node: ast.AST) -> Iterator[tuple[int, Change]]:
    """Changes of operators, conditions and returned values, made in the node itself."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = OTHER_COMPARISON[type(node.ops[0])]
        yield node.lineno, (_named(type(node.ops[0]), other), lambda: setattr(node, "ops", [other()]))
    elif isinstance(node, ast.BoolOp):
        connective = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield node.lineno, (_named(type(node.op), connective), lambda: setattr(node, "op", connective()))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = ast.Sub if isinstance(node.op, ast.Add) else ast.Add
        yield node.lineno, (_named(type(node.op), sign), lambda: setattr(node, "op", sign()))
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield node.lineno, ("return None", lambda: setattr(node, "value", ast.Constant(None)))
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.UnaryOp | ast.Constant):
        opposite = ast.UnaryOp(ast.Not(), node.test)
        yield node.test.lineno, ("condition negated", lambda: setattr(node, "test", opposite))


def _replacements(node: ast.AST, put: Callable[[ast.AST], None]) -> Iterator[Change]:
    """Changes that put another node in the place of this one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} -> {not node.value}", lambda: put(ast.Constant(not node.value))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        for new in (node.value + 1, node.value - 1):
            yield f"{node.value} -> {new}", lambda new=new: put(ast.Constant(new))  # type: ignore[misc]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not removed", lambda: put(node.operand)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
        yield "call removed", lambda: put(ast.Pass())


def _named(old: type[ast.AST], new: type[ast.AST]) -> str:
    return f"{old.__name__} -> {new.__name__}"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def mutants_of(file: Path, name: str) -> list[Mutant]:
    tree = ast.parse(file.read_text())
    return [Mutant(name, number, line, told) for number, (line, (told, _)) in enumerate(changes(tree))]


def changed_code(file: Path, mutant: Mutant) -> dict[tuple[str, int], CodeType]:
    """The code of the functions of the changed file, by qualified name and first line."""
    tree = ast.parse(file.read_text())
    for number, (line, (told, change)) in enumerate(changes(tree)):
        if number == mutant.number and (line, told) == (mutant.line, mutant.change):
            change()
            ast.fix_missing_locations(tree)
            return dict(codes(compile(tree, str(file), "exec")))
    return {}


def codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """The code of outermost functions, classes being looked into."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and inner.co_flags & 0x02:  # a function has local variables, a class has not
            yield (inner.co_qualname, inner.co_firstlineno), inner
        elif isinstance(inner, CodeType):
            yield from codes(inner)


# ------------------------------------------------------------------------------------------ what tests execute


class RecordCovering:
    """Notes for each test that passes its time and the lines it executes."""

    def __init__(self, tree: Path) -> None:
        coverage = importlib.import_module("coverage")
        self._tree = tree
        self._coverage = coverage.Coverage(data_file=None, source=[str(tree / "src" / "skitter")], config_file=False)
        self._failed: set[str] = set()
        self._seconds: dict[str, float] = {}
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._coverage.switch_context(item.nodeid)
        started = time.monotonic()
        result = yield
        self._seconds[item.nodeid] = time.monotonic() - started
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def covering(self) -> Covering:
        self._coverage.stop()
        data = self._coverage.get_data()
        seconds = {test: seconds for test, seconds in self._seconds.items() if test not in self._failed}
        found = {
            file.relative_to(self._tree).as_posix(): {
                str(line): [test for test in tests if test in seconds]
                for line, tests in data.contexts_by_lineno(str(file)).items()
            }
            for package in PACKAGES
            for file in sorted((self._tree / "src" / "skitter" / package).rglob("*.py"))
        }
        sizes = Counter(test for lines in found.values() for tests in lines.values() for test in tests)
        lines = {
            file: {line: chosen_tests(tests, sizes, seconds) for line, tests in lines.items()}
            for file, lines in found.items()
        }
        return Covering(seconds, lines)


def record_covering(tree: Path, tests: Sequence[str], target: Path) -> None:
    recorder = RecordCovering(tree)
    pytest.main([*QUIET, *tests], plugins=[recorder])
    target.write_text(json.dumps(asdict(recorder.covering())))


# ------------------------------------------------------------------------------------------ the mutants


def drawn(tree: Path, covering: Covering, number: int, seed: int) -> list[Mutant]:
    """The same number of mutants of each package, of lines that a test executes."""
    chosen: list[Mutant] = []
    for package in PACKAGES:
        found = [
            mutant
            for file in sorted((tree / "src" / "skitter" / package).rglob("*.py"))
            for mutant in mutants_of(file, file.relative_to(tree).as_posix())
            if covering.tests(mutant)
        ]
        chosen += random.Random(f"{seed} {package}").sample(found, min(len(found), -(-number // len(PACKAGES))))
    return chosen


def read_mutants(file: Path) -> list[Mutant]:
    rows = (line.split("\t") for line in file.read_text().splitlines())
    return [Mutant(name, int(number), int(line), change) for name, number, line, change in rows]


Functions = dict[tuple[str, str, int], list[FunctionType]]
"""All functions of this process by the file, the qualified name and the first line of their code."""


def put_in_place(file: str, new: dict[tuple[str, int], CodeType], functions: Functions) -> bool:
    """Give functions their changed code, and say whether there was any."""
    changed = 0
    for (qualname, line), code in new.items():
        for function in functions.get((file, qualname, line), ()):
            if function.__code__ != code and function.__code__.co_freevars == code.co_freevars:
                function.__code__ = code
                changed += 1
    return changed > 0


class RunMutants:
    """In the place of the tests themselves: runs the tests of each mutant in a fork of the process."""

    def __init__(self, tree: Path, mutants: list[Mutant], covering: Covering, results: Path) -> None:
        self._tree = tree
        self._mutants = mutants
        self._covering = covering
        self._results = results
        self._killer = tree / "killed-by"
        self._failed = ""
        self.counts: Counter[tuple[str, str]] = Counter()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for name in {mutant.file for mutant in self._mutants}:
            with suppress(ImportError):
                importlib.import_module(name.removeprefix("src/").removesuffix(".py").replace("/", "."))
        items = {item.nodeid: item for item in session.items}
        functions = self._functions()
        with self._results.open("w") as out:
            for mutant in self._mutants:
                tests = [items[test] for test in self._covering.tests(mutant) if test in items]
                started = time.monotonic()
                result = self._tried(mutant, tests, functions)
                self.counts[mutant.package, result] += 1
                killer = self._killer.read_text() if result == "killed" else ""
                row = (
                    result,
                    mutant.package,
                    *astuple(mutant),
                    len(tests),
                    f"{time.monotonic() - started:.2f}",
                    killer,
                )
                out.write("\t".join(map(str, row)) + "\n")
                out.flush()
        return True

    def _functions(self) -> Functions:
        gc.unfreeze()
        found: Functions = {}
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType):
                code = thing.__code__
                found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(thing)
        gc.freeze()
        return found

    def _tried(self, mutant: Mutant, tests: list[pytest.Item], functions: Functions) -> str:
        file = self._tree / mutant.file
        new = changed_code(file, mutant)
        if not new:
            return "gone"
        if not tests:
            return "not executed"
        self._killer.write_text("")
        child = os.fork()
        if child == 0:
            self._run_in_fork(str(file), new, tests, functions)
        expected = sum(self._covering.seconds[item.nodeid] for item in tests)
        return self._awaited(child, HANG_SECONDS + 2 * expected)

    def _awaited(self, child: int, seconds: float) -> str:
        ended = select.poll()
        descriptor = os.pidfd_open(child)
        ended.register(descriptor, select.POLLIN)
        is_over = bool(ended.poll(seconds * 1000))
        os.close(descriptor)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if not is_over:
            return "killed by time"
        return {0: "survived", 1: "killed", NOT_APPLIED: "not applied"}.get(status, "killed by a crash")

    def _run_in_fork(
        self,
        file: str,
        new: dict[tuple[str, int], CodeType],
        tests: list[pytest.Item],
        functions: Functions,
    ) -> None:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        status = 3
        try:
            if not put_in_place(file, new, functions):
                os._exit(NOT_APPLIED)
            for item, following in zip(tests, [*tests[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._failed:
                    break
            self._killer.write_text(self._failed)
            status = 1 if self._failed else 0
        finally:
            os._exit(status)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = report.nodeid


# ------------------------------------------------------------------------------------------ the command


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout whose code and tests are used")
    parser.add_argument("--mutants", type=Path, default=Path("build", "mutants.tsv"), help="read, or drawn and written")
    parser.add_argument("--covering", type=Path, help="what tests execute a line: read, or recorded and written")
    parser.add_argument("--results", type=Path, default=Path("build", "mutation.tsv"))
    parser.add_argument("--number", type=int, default=320, help="mutants that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("tests", nargs="*", help=f"the fast tests (default: {' '.join(FAST_TESTS)})")
    asked = parser.parse_args()
    mutants, results = asked.mutants.absolute(), asked.results.absolute()
    for file in (mutants, results):
        file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="skitter-mutants-") as folder:
        tree = Path(folder, "tree")
        shutil.copytree(asked.tree, tree, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
        covering_file = asked.covering.absolute() if asked.covering else Path(folder, "covering.json")
        os.chdir(tree)
        sys.path[:0] = [str(tree / "src")]
        os.environ["PYTHONPATH"] = str(tree / "src")
        tests = [test for test in asked.tests or FAST_TESTS if Path(test.partition("::")[0]).exists()]
        if not covering_file.exists():
            in_a_fork(lambda: record_covering(tree, tests, covering_file))
        covering = Covering(**json.loads(covering_file.read_text()))
        if not mutants.exists():
            chosen = drawn(tree, covering, asked.number, asked.seed)
            mutants.write_text("".join("\t".join(map(str, astuple(each))) + "\n" for each in chosen))
        run = RunMutants(tree, read_mutants(mutants), covering, results)
        pytest.main([*QUIET, *tests], plugins=[run])
    print_table(run.counts)
    return 0


def in_a_fork(work: Callable[[], None]) -> None:
    """Run what must leave nothing behind in this process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("error: the run under coverage failed")


def print_table(counts: Counter[tuple[str, str]]) -> None:
    for package in PACKAGES:
        of_package = Counter({result: number for (name, result), number in counts.items() if name == package})
        noticed = sum(number for result, number in of_package.items() if result.startswith("killed"))
        told = ", ".join(f"{number} {result}" for result, number in sorted(of_package.items()))
        print(f"{package:16} {noticed} of {of_package.total()} noticed ({told})")


if __name__ == "__main__":
    sys.exit(main())
