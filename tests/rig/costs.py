"""Measures the wall time and the CPU time of each test file, and prints the sum for each suite.

The table of all files is written to ``build/test-costs.tsv``, the most expensive file first. Setup and teardown count
for the file whose test asked for them. The CPU time is that of the test process and of its child processes, those that
still run included. The CPU time of a process that outlived its killed parent is in the total of the machine only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TABLE = Path("build", "test-costs.tsv")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    tests: int = 0

    def add(self, other: Cost) -> None:
        self.wall_seconds += other.wall_seconds
        self.cpu_seconds += other.cpu_seconds
        self.tests += other.tests


class CostOfFiles:
    """The costs of the test files that ran in this process and in the processes of pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self.files: dict[str, Cost] = {}
        self._config = config
        self._file = ""
        self._read = _Clocks.now()
        self._started = time.monotonic()
        self._machine = _machine_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        file = item.nodeid.partition("::")[0]
        if file != self._file:
            self._charge()
            self._file = file
        self.files.setdefault(file, Cost()).tests += 1
        return (yield)

    def _charge(self) -> None:
        """Add the time since the last call to the file whose tests ran since then."""
        now = _Clocks.now()
        spent = Cost(now.wall - self._read.wall, max(0.0, now.cpu - self._read.cpu))
        self.files.setdefault(self._file or "(collection)", Cost()).add(spent)
        self._read = now

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if not getattr(self._config.option, "numprocesses", None) or hasattr(self._config, "workerinput"):
            self._charge()
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["costs"] = [
                (file, cost.wall_seconds, cost.cpu_seconds, cost.tests) for file, cost in self.files.items()
            ]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for file, *cost in getattr(node, "workeroutput", {}).get("costs", ()):
            self.files.setdefault(file, Cost()).add(Cost(*cost))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        rows = sorted(self.files.items(), key=lambda row: -row[1].cpu_seconds)
        with suppress(OSError):
            path = self._config.rootpath / TABLE
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(_lines(rows)))
        wall, machine = time.monotonic() - self._started, _machine_seconds() - self._machine
        terminalreporter.write_line("")
        for suite, cost in sorted(_by_suite(rows).items()):
            told = f"{suite:12} {cost.tests:6} tests {cost.cpu_seconds:7.1f} s of CPU {cost.wall_seconds:7.1f} s in all"
            terminalreporter.write_line(told)
        tests = sum(cost.tests for _, cost in rows)
        told = f"{'all':12} {tests:6} tests {machine:7.1f} s of CPU of the machine, in {wall:.1f} s"
        terminalreporter.write_line(f"{told}; {TABLE} has each file")


@dataclass(frozen=True)
class _Clocks:
    wall: float
    cpu: float

    @classmethod
    def now(cls) -> _Clocks:
        used = os.times()
        ended = used.user + used.system + used.children_user + used.children_system
        return cls(time.monotonic(), ended + sum(_cpu_seconds(pid) for pid in _descendants(os.getpid())))


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from _descendants(child)


def _cpu_seconds(pid: int) -> float:
    """The CPU time of a process, and of its children that have ended."""
    with suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS_A_SECOND
    return 0.0


def _machine_seconds() -> float:
    """The seconds that all processors of this machine worked."""
    with suppress(OSError, ValueError):
        user, nice, system, _, _, irq, softirq, *_ = map(
            int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        )
        return (user + nice + system + irq + softirq) / TICKS_A_SECOND
    return 0.0


def _by_suite(rows: Iterable[tuple[str, Cost]]) -> dict[str, Cost]:
    suites: dict[str, Cost] = {}
    for file, cost in rows:
        _, slash, rest = file.partition("/")
        suites.setdefault(rest.partition("/")[0] if slash else file, Cost()).add(cost)
    return suites


def _lines(rows: Iterable[tuple[str, Cost]]) -> Iterator[str]:
    yield "cpu_seconds\twall_seconds\ttests\tfile\n"
    for file, cost in rows:
        yield f"{cost.cpu_seconds:.2f}\t{cost.wall_seconds:.2f}\t{cost.tests}\t{file}\n"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CostOfFiles(config), "skitter-costs")
