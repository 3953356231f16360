"""``make soak`` gives each test its next seed, stops when the time is over, and says what it has done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rig.soak import chance_of

TESTS = '''
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies


@pytest.fixture(scope="module")
def server():
    yield
    Path("stopped").touch()


@pytest.mark.soak
def test_kills(server, soak_seed):
    """Nothing is lost."""
    process = subprocess.Popen(["sleep", "100"])
    process.kill()
    process.wait()
    report = Path("build", "fault-report", "kills.txt")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(f"missing 0 by {soak_seed}")


@pytest.mark.soak
def test_fails():
    assert Path("missing").exists()


@given(strategies.integers())
def test_numbers(number):
    with Path("numbers").open("a") as file:
        print(number, file=file)


def test_short():
    pass


@pytest.mark.soak
class TestOtherServers:
    def test_one(self): ...
    def test_two(self): ...
'''
REPORT = Path("build", "soak-report.txt")
STATE = Path("build", "soak-state.json")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = soak\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def pytest_in(project: Path, *arguments: str) -> str:
    tests = Path(__file__).resolve().parents[1]
    without = [part for name in ("cacheprovider", "randomly", "schemathesis") for part in ("-p", f"no:{name}")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "rig.soak", *without, *arguments],
        cwd=project,
        # With CI=true Hypothesis takes the same numbers in each run.
        env={name: value for name, value in os.environ.items() if name != "CI"} | {"PYTHONPATH": str(tests)},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def soak(project: Path, *arguments: str) -> str:
    return pytest_in(project, "-m", "soak or not soak", *arguments)


def of_test(report: str, name: str) -> str:
    return next(part for part in report.split("\n\n") if f"::{name}\n" in part)


def test_a_soak_reports_each_test_and_goes_on_with_the_next_seeds(project: Path) -> None:
    last = soak(project, "--soak-minutes=60").splitlines()[-1]
    assert last == "soak: 1 failed, 4 passed, 0 not reached; build/soak-report.txt has each test"
    report = (project / REPORT).read_text()
    kills = of_test(report, "test_kills")
    for told in ("passed  test_it.py::", "seed 0, ", "Nothing is lost.", "missing 0 by 0", "SIGKILL to "):
        assert told in kills
    assert "failed  test_it.py::" in of_test(report, "test_fails")
    assert "| " in of_test(report, "test_fails")
    assert "test_short" not in report  # make test runs it whole
    first_numbers = (project / "numbers").read_text()
    (project / "numbers").unlink()
    (project / "stopped").unlink()

    state = json.loads((project / STATE).read_text())
    state["test_it.py::test_kills"]["last_seconds"] = 1e9
    state["test_it.py::TestOtherServers::test_two"]["runs"] = 0
    (project / STATE).write_text(json.dumps(state))
    soak(project, "--soak-minutes=60")
    report = (project / REPORT).read_text()
    assert "not reached  1 of test_it.py\n" in report
    assert not (project / "stopped").exists()
    ran = [line.split("::")[-1] for line in report.splitlines() if line.startswith(("passed", "failed"))]
    assert ran[0] == "test_two", "the test with the fewest runs is the first"
    assert "seed 1, " in of_test(report, "test_numbers")
    assert (project / "numbers").read_text() != first_numbers

    soak(project, "--soak-minutes=0", "--soak-seed=7", "-k", "kills or short")
    report = (project / REPORT).read_text()
    assert "missing 0 by 7" in of_test(report, "test_kills")
    assert "test_short" in report, "without a limit everything runs"
    runs = {name.split("::")[-1]: past["runs"] for name, past in json.loads((project / STATE).read_text()).items()}
    assert runs == {"test_kills": 1, "test_fails": 2, "test_numbers": 2, "test_one": 2, "test_two": 1, "test_short": 0}


def test_no_test_starts_after_the_time_is_over(project: Path) -> None:
    told = soak(project, "--soak-minutes=0.000001").splitlines()[-1]
    assert told.startswith("soak: no test ran, 5 not reached")
    assert not (project / "numbers").exists()


def test_the_last_line_of_other_runs_says_what_is_left_to_the_soak(project: Path) -> None:
    told = pytest_in(project, "-m", "not soak", "-n", "1").splitlines()[-1]
    assert told == "2 tests and 1 whole suites (2 tests) are left to `make soak` (SOAK_MINUTES=30 for a part of it)"


def test_the_chance_of_a_test_is_the_same_in_each_other_run() -> None:
    assert chance_of("a name").random() == chance_of("a name").random() != chance_of("another").random()
