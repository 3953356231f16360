"""``make test`` repeats a few failed tests of processes and servers, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import run_tests

KILL = "tests/fault/test_kill.py::test_a_kill"
CRAWL = "tests/acceptance/test_crawl.py::test_a_crawl[redis]"
LEASE = "tests/contract/test_redis.py::TestRedis::test_a_lease"


class Suite:
    """Stands for pytest: the failed tests and the exit code of each run, and the arguments of the runs."""

    def __init__(self, folder: Path, *runs: tuple[list[str], int]) -> None:
        self._last_failed = folder / "lastfailed"
        self._runs = list(runs)
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, *arguments: str) -> int:
        failed, code = self._runs[len(self.calls)]
        self.calls.append(arguments)
        self._last_failed.write_text(json.dumps(dict.fromkeys(failed, True)))
        return code


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, suite: Suite) -> int:
    monkeypatch.setattr(run_tests, "LAST_FAILED", folder / "lastfailed")
    monkeypatch.setattr(run_tests, "UNSTEADY", folder / "build" / "unsteady-tests.txt")
    monkeypatch.setattr(run_tests, "pytest", suite)
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "-n", "2", "-k", "lease"])
    return run_tests.main()


def test_what_passes_alone_is_listed_as_unsteady(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    suite = Suite(tmp_path, ([KILL, CRAWL], 1), ([], 0))
    assert run(monkeypatch, tmp_path, suite) == 0
    assert suite.calls == [("-n", "2", "--slice", "-k", "lease"), (CRAWL, KILL)]
    assert (tmp_path / "build" / "unsteady-tests.txt").read_text() == f"{CRAWL}\n{KILL}\n"


def test_what_fails_alone_fails_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path, Suite(tmp_path, ([KILL], 1), ([KILL], 1))) == 1
    assert not (tmp_path / "build" / "unsteady-tests.txt").exists()


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        ([LEASE], 1),
        ([KILL, LEASE], 1),
        ([f"{KILL}_{number}" for number in range(run_tests.MOST_REPEATED + 1)], 1),
        ([], 1),
        ([KILL], 2),
        ([], 0),
    ],
    ids=["contract", "one of them a contract", "too many", "none is known", "interrupted", "passed"],
)
def test_nothing_else_is_repeated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failed: list[str], code: int
) -> None:
    suite = Suite(tmp_path, (failed, code))
    assert run(monkeypatch, tmp_path, suite) == code
    assert len(suite.calls) == 1


def test_a_failure_of_an_earlier_run_is_forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lastfailed").write_text(json.dumps({CRAWL: True}))
    suite = Suite(tmp_path, ([KILL], 1), ([], 0))
    assert run(monkeypatch, tmp_path, suite) == 0
    assert suite.calls[1] == (KILL,)


def test_repeated_folders_exist() -> None:
    for folder in run_tests.REPEATED_FOLDERS:
        assert (run_tests.ROOT / folder).is_dir()
