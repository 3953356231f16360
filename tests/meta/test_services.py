"""Servers of the tests: one that several processes share starts once, and ends with the process that leads them."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from _pytest.outcomes import Failed, Skipped

from rig import services as module
from rig.processes import HANG_SECONDS
from rig.services import Services

# Notes that it has started; its name says what becomes of it.
STARTER = """
import json, sys
from pathlib import Path

name = sys.argv[-1]
with Path(__file__).with_name("started").open("a") as started:
    started.write(" ".join(sys.argv[1:]) + "\\n")
print(json.dumps({name: {"error": "it is not here"} if name == "missing" else {"port": 1}}))
if sys.argv[1] == "redis":
    sys.stdin.read()
"""


@pytest.fixture
def starter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a line for each start."""
    script = tmp_path / "starter.py"
    script.write_text(STARTER)
    monkeypatch.setattr(module, "SCRIPT", script)
    return tmp_path / "started"


def test_a_server_of_the_run_is_started_by_its_first_user_only(starter: Path, tmp_path: Path) -> None:
    processes = [Services(tmp_path) for _ in range(4)]
    with ThreadPoolExecutor() as threads:
        told = list(threads.map(lambda one: one.need("kafka"), processes))
    assert told == [{"port": 1}] * 4
    assert len(starter.read_text().splitlines()) == 1


def test_a_redis_belongs_to_one_process(starter: Path, tmp_path: Path) -> None:
    one, other = Services(tmp_path), Services(tmp_path)
    for _ in range(2):
        assert one.need("redis") == other.need("redis") == {"port": 1}
    one.stop()
    other.stop()
    assert starter.read_text() == "redis\nredis\n"


@pytest.mark.parametrize(("ci", "outcome"), [("true", Failed), ("", Skipped)])
def test_what_cannot_be_had_skips_a_test_and_fails_it_where_all_must_run(
    starter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    services = Services(tmp_path)
    for ask in (services.need, services.install):
        with pytest.raises(outcome, match="missing: it is not here"):
            ask("missing")


def test_servers_end_with_the_process_that_they_are_for() -> None:
    with subprocess.Popen(["sleep", "1000"]) as leader:
        command = [sys.executable, str(module.SCRIPT), "--until-end-of", str(leader.pid), "redis"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as started:
            assert started.stdout is not None
            pid = json.loads(started.stdout.readline())["redis"]["pid"]
            assert Path(f"/proc/{pid}").exists()
            leader.kill()
            assert started.wait(HANG_SECONDS) == 0
            assert not Path(f"/proc/{pid}").exists()
