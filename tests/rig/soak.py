"""The soak: long tests whose chance goes on where the last run stopped, as many of them as a given time permits.

``make soak`` runs all tests in full. ``make soak SOAK_MINUTES=30`` takes those that ``make test`` leaves out or runs
shorter, the ones with the fewest runs first. It starts none after the time is over, and none that took longer last
time than what remains; those count as not reached, which is neither passed nor failed. A test's seed is the number of
its runs so far, or SOAK_SEED for all of them. ``build/soak-state.json`` remembers the runs, and
``build/soak-report.txt`` says what each test was given, did and found.

``make test`` has the seed 0 everywhere, and its last line says how much is left to the soak.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import core
from hypothesis.internal.detection import is_hypothesis_test

STATE = Path("build", "soak-state.json")
REPORT = Path("build", "soak-report.txt")
FINDINGS = Path("build", "fault-report")
"""Where tests write what they have done and found."""
FIRST = ("fault", "acceptance", "stateful", "integration")
MOST_SIGNALS = 200
"""So many moments of one test are listed."""


class _Running:
    """The seed of the test that runs."""

    seed = 0


def chance_of(name: str | int) -> random.Random:
    """The chance of the test that runs: the same in each ``make test``, another one in each run of the soak."""
    return random.Random(f"{name} {_Running.seed}" if _Running.seed else name)


@pytest.fixture
def soak_seed() -> int:
    return _Running.seed


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak")
    group.addoption("--soak-minutes", type=float, help="run the soak, and start no test after this time (0: no limit)")
    group.addoption("--soak-seed", type=int, help="the seed of all tests of the soak instead of their next ones")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    minutes = config.getoption("soak_minutes")
    if minutes is not None:
        config.pluginmanager.register(Soak(config.rootpath, minutes, config.getoption("soak_seed")), "skitter-soak")
    elif config.option.markexpr == "not soak":
        config.pluginmanager.register(LeftToSoak(config), "skitter-left-to-soak")


# ------------------------------------------------------------------------------------------ what make test leaves


class LeftToSoak:
    """Counts the tests that are not run; classes by their functions, because to collect thousands takes time."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.counts: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, obj: object) -> list[pytest.Item] | None:
        """Leave classes of the soak alone: each process would collect thousands of tests."""
        if not isinstance(obj, type) or not any(mark.name == "soak" for mark in getattr(obj, "pytestmark", [])):
            return None
        self.counts["suites"] += 1
        self.counts["of suites"] += sum(name.startswith("test") for name in dir(obj))
        return []

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.counts["tests"] += sum(item.get_closest_marker("soak") is not None for item in items)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["left to soak"] = dict(self.counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Each process of pytest-xdist collects everything, and the one that shares it out nothing."""
        self.counts |= Counter(getattr(node, "workeroutput", {}).get("left to soak", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and not hasattr(config, "workerinput") and self.counts.total():
            reporter.write_line(f"{self.told()} are left to `make soak` (SOAK_MINUTES=30 for a part of it)")

    def told(self) -> str:
        suites = f"{self.counts['suites']} whole suites ({self.counts['of suites']} tests)"
        return f"{self.counts['tests']} tests and {suites}"


# ------------------------------------------------------------------------------------------ the soak itself


@dataclass
class Past:
    """What is remembered of a test."""

    runs: int = 0
    last_ended: str = ""
    last_seed: int = 0
    last_result: str = ""
    last_seconds: float = 0.0


@dataclass
class Run:
    name: str
    promise: str
    seed: int
    started: float
    result: str = "passed"
    failure: str = ""
    seconds: float = 0.0
    signals: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [f"{self.result}  {self.name}", f"    seed {self.seed}, {self.seconds:.1f} s"]
        lines += [f"    {line}" for line in (self.promise, *self.findings) if line]
        if self.signals:
            lines.append(f"    signals: {', '.join(self.signals[:MOST_SIGNALS])}")
        if len(self.signals) > MOST_SIGNALS:
            lines.append(f"    and {len(self.signals) - MOST_SIGNALS} more signals")
        return "\n".join([*lines, *(f"    | {line}" for line in self.failure.splitlines())]) + "\n"


class Soak:
    """Orders the tests, gives them their seeds, and writes what became of each after it has ended."""

    def __init__(
        self,
        root: Path,
        minutes: float,
        seed: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._seed = seed
        self._clock = clock
        self._minutes = minutes
        self._until = clock() + 60 * minutes if minutes else float("inf")
        self._pasts = _read_state(root / STATE)
        self._findings_before: dict[Path, int] = {}
        self._signals = _Signals(clock)
        self.runs: list[Run] = []
        self.not_reached: list[str] = []

    # ---- which tests, and in what order

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if not self._minutes:
            return
        others = [item for item in items if not is_longer_in_soak(item)]
        items[:] = [item for item in items if is_longer_in_soak(item)]
        items.sort(key=lambda item: (self.past(item).runs, self.past(item).last_ended, _place(item)))
        if others:
            config.hook.pytest_deselected(items=others)

    def past(self, item: pytest.Item) -> Past:
        return self._pasts.get(item.nodeid, Past())

    # ---- one test

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Give the test its seed, or leave it out: then the fixtures that the next one does not need are torn down."""
        past = self.past(item)
        if self._clock() + past.last_seconds >= self._until:
            self.not_reached.append(item.nodeid)
            item.session._setupstate.teardown_exact(nextitem)
            return True
        seed = past.runs if self._seed is None else self._seed
        run = Run(item.nodeid, _promise(item), seed, self._clock())
        self.runs.append(run)
        self._findings_before = _written(self._root / FINDINGS)
        _Running.seed = core.global_force_seed = seed
        self._signals.list_in(run.signals)
        return None

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._signals.list_no_more()
        _Running.seed, core.global_force_seed = 0, None
        run = self.runs[-1]
        run.seconds = self._clock() - run.started
        run.findings = list(self._new_findings())
        if run.result != "skipped":
            runs = self._pasts.get(nodeid, Past()).runs + (self._seed is None)
            self._pasts[nodeid] = Past(runs, _now(), run.seed, run.result, round(run.seconds, 1))
        self._write()

    def _new_findings(self) -> Iterator[str]:
        for file, changed in sorted(_written(self._root / FINDINGS).items()):
            if self._findings_before.get(file) != changed:
                yield from file.read_text(errors="replace").splitlines()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        run = self.runs[-1]
        if report.failed:
            run.result, run.failure = "failed", run.failure + report.longreprtext
        elif report.skipped and run.result == "passed":
            run.result = "skipped"

    # ---- what is written

    def _write(self) -> None:
        """After each test, so that a soak that is broken off has its report, and the next one goes on there."""
        for name, text in (
            (STATE, json.dumps({name: asdict(past) for name, past in sorted(self._pasts.items())}, indent=1)),
            (REPORT, self.text()),
        ):
            file = self._root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            new = file.with_suffix(".new")
            new.write_text(text)
            new.replace(file)

    def told(self) -> str:
        results = Counter(run.result for run in self.runs)
        counts = ", ".join(f"{count} {result}" for result, count in sorted(results.items()))
        return f"soak: {counts or 'no test ran'}, {len(self.not_reached)} not reached"

    def text(self) -> str:
        suites = Counter(name.partition("[")[0].rpartition("::")[0] for name in self.not_reached)
        not_reached = "".join(f"not reached  {count} of {suite}\n" for suite, count in suites.items())
        return f"{self.told()}\n\n" + "\n".join(run.text() for run in self.runs) + f"\n{not_reached}"

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        self._write()
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(f"{self.told()}; {REPORT} has each test")


class _Signals:
    """Notes when the test process sends a signal to which process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kill = os.kill
        self._killpg = os.killpg

    def list_in(self, told: list[str]) -> None:
        started = self._clock()

        def noted(send: Callable[[int, int], None]) -> Callable[[int, int], None]:
            def send_and_note(process: int, number: int) -> None:
                if number:
                    at = self._clock() - started
                    told.append(f"{signal.Signals(number).name} to {_program(process)} at {at:.1f} s")
                send(process, number)

            return send_and_note

        os.kill, os.killpg = noted(self._kill), noted(self._killpg)

    def list_no_more(self) -> None:
        os.kill, os.killpg = self._kill, self._killpg


def _program(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return "a process that has ended"


def is_longer_in_soak(item: pytest.Item) -> bool:
    """Whether ``make test`` leaves the test out, or has Hypothesis try less."""
    return item.get_closest_marker("soak") is not None or is_hypothesis_test(getattr(item, "obj", None))


def _place(item: pytest.Item) -> int:
    """Of tests that ran equally often, those of faults are the first."""
    folder = item.nodeid.split("/")[1] if item.nodeid.count("/") else ""
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


def _promise(item: pytest.Item) -> str:
    return (getattr(getattr(item, "obj", None), "__doc__", None) or "").partition("\n")[0].strip()


def _written(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.glob("*.txt")}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read_state(file: Path) -> dict[str, Past]:
    if not file.exists():
        return {}
    return {name: Past(**past) for name, past in json.loads(file.read_text()).items()}
