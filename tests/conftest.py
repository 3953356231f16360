"""What all suites share: how much Hypothesis tries, and the real command line.

`make test` runs a seeded slice of the long suites; `make soak` far more, and new every time.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from own_redis import OwnRedis

# Time limits belong to pytest-timeout: a per-example deadline fails on a busy machine and proves nothing.
settings.register_profile("slice", max_examples=30, derandomize=True, deadline=None)
settings.register_profile(
    "soak", max_examples=2_000, stateful_step_count=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("slice")

# Where a shell runs the tests in the background, SIGINT is ignored, and every command started here would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Each process that a test starts would compile the package anew: half of the time of a short crawl.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Commands that a crawl prints for its user begin with what a shell would find.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


SLICED_FOLDERS = {"acceptance", "fault"}
"""Whose tests start processes; those of drivers are in others, and have a variant for each driver."""
VARIANTS_SHARE = 4
LONG_TESTS_FIRST = ("fault", "integration", "stateful", "acceptance", "docs", "contract")
"""Folders in the order in which several processes take them: at the end, none waits long for another."""
KILL_NOTHING = {"test_damaged_store.py", "test_fsck.py", "test_fuzz.py", "test_fuzz_answers.py", "test_torn_parts.py"}
"""Long files of tests/fault that may run beside the others."""
SLOW_SERVERS = {
    "cluster": "zookeeper",
    "contrib": "brokers",
    "databases": "databases",
    "intakes": "brokers",
    "streams": "brokers",
}
"""What folders of integration tests need that takes seconds to start: one process has all of its tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slice",
        action="store_true",
        help="run some of a test's variants, always the same ones",
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    folders = " and ".join(sorted(SLICED_FOLDERS))
    told = f"slice: a fourth of the variants of a test in {folders} and of repeated suites, by the hash of the name"
    return [told] if config.getoption("--slice") else []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests for several processes; with ``--slice``, leave out variants of tests that start processes."""
    if hasattr(config, "workerinput"):
        items.sort(key=_place_in_order)
    if config.getoption("--slice"):
        _leave_out_variants(config, items)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at fourteen thousand collected tests again and again."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Leave classes of the soak alone where it is not asked for: each process would collect thousands of tests."""
    if not isinstance(obj, type) or collector.config.option.markexpr != "not soak":
        return None
    marks = getattr(obj, "pytestmark", [])
    return [] if any(mark.name == "soak" for mark in marks) else None


def _place_in_order(item: pytest.Item) -> int:
    folder = item.nodeid.split("/")[1]
    return LONG_TESTS_FIRST.index(folder) if folder in LONG_TESTS_FIRST else len(LONG_TESTS_FIRST)


def _leave_out_variants(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one variant of a parametrised test, or a fourth of many; and a fourth of a suite that another class runs."""
    variants: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        name = item.nodeid.partition("[")[0]
        suite, _, function = name.rpartition("::")
        if item.path.parent.name in SLICED_FOLDERS:
            variants[name].append(item)
        elif (repeated := item.get_closest_marker("repeats")) and not hasattr(repeated.kwargs["core"], function):
            variants[suite].append(item)
    dropped: set[pytest.Item] = set()
    for found in variants.values():
        # By a hash of the name: the same in all processes, and not always the first, which is the simplest.
        found.sort(key=lambda item: hashlib.sha256(item.nodeid.encode()).digest())
        dropped.update(found[max(1, len(found) // VARIANTS_SHARE) :])
    if dropped:
        config.hook.pytest_deselected(items=[item for item in items if item in dropped])
        items[:] = [item for item in items if item not in dropped]


class GroupScheduling(LoadScopeScheduling):
    """Gives a process of pytest-xdist whole groups of tests: those of one server, or that must not meet.

    Tests that kill and stop processes run one after another: beside each other they find no processor in time.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        _, folder, *inner = nodeid.partition("::")[0].split("/")
        if folder == "fault" and inner[0] not in KILL_NOTHING:
            return folder
        if folder == "integration" and inner[0] in SLOW_SERVERS:
            return SLOW_SERVERS[inner[0]]
        if folder == "docs":
            return nodeid  # each page by itself
        # A class of a contract's suite, or the functions of a file.
        return nodeid.partition("[")[0].rpartition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    return GroupScheduling(config, log)


class CommandLine:
    """The real command line, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = [sys.executable]
        """With its options."""

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """A process group of its own, so that all of it can be killed."""
        command = [*self.python, "-m", "skitter", *map(str, arguments)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
        return subprocess.Popen(command, cwd=self.folder, start_new_session=True, **options)

    def run(self, *arguments: object, code: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run to the end; ``code`` is the exit code it must have, None for any."""
        process = self.start(*arguments, **options)
        try:
            out, error = process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()  # open pipes would be a failure of the next test
            raise
        if code is not None:
            assert process.returncode == code, f"exit code {process.returncode}, not {code}\n{out}\n{error}"
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    def json(self, *arguments: object, code: int | None = 0) -> dict[str, Any]:
        """The one object that a command prints with --json."""
        return json.loads(self.run(*arguments, "--json", code=code).stdout)

    def records(self, *arguments: object) -> list[dict[str, Any]]:
        """The objects, one a line, that a command prints with --json."""
        return [json.loads(line) for line in self.run(*arguments, "--json").stdout.splitlines()]

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The records of a JSON lines file."""
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))


@pytest.fixture
def skitter(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


class Services:
    """Private servers from ``scripts/services``, started when they are first asked for."""

    def __init__(self) -> None:
        self._started: dict[str, tuple[subprocess.Popen[str], dict[str, Any]]] = {}

    def need(self, name: str) -> dict[str, Any]:
        """What a server is called, once it is up. One that cannot be had skips the test; with CI=true it fails."""
        if name not in self._started:
            script = Path(__file__).resolve().parents[1] / "scripts" / "services"
            process = subprocess.Popen(
                [sys.executable, str(script), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            line = process.stdout.readline()
            told = json.loads(line)[name] if line else {"error": "it ended at once"}
            self._started[name] = (process, told)
        told = self._started[name][1]
        if "error" in told:
            reason = f"{name}: {told['error']}"
            if os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)
        return told

    def stop(self) -> None:
        for process, _ in self._started.values():
            process.communicate()


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    services = Services()
    yield services
    services.stop()


@pytest.fixture
def own_services() -> Iterator[Services]:
    """For a test that kills servers."""
    services = Services()
    yield services
    services.stop()


@pytest.fixture
def own_redis(services: Services, tmp_path: Path) -> Iterator[Callable[..., OwnRedis]]:
    """Makes a redis-server with the settings given, for a test that kills or misconfigures it."""
    services.need("redis")  # installs it where it is missing
    made: list[OwnRedis] = []

    def make(*settings: str, config: str = "") -> OwnRedis:
        made.append(OwnRedis(tmp_path / f"own-redis-{len(made)}", *settings, config=config))
        return made[-1]

    yield make
    for server in made:
        server.kill()
