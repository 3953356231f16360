"""The systemd units: systemd itself finds nothing wrong with them, and little that they may do."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from skitter.settings import Run

FOLDER = Path(__file__).parents[3] / "deploy" / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
MAX_EXPOSURE = 20
"""Tenths, of 100. systemd calls up to 2.0 "safe" or "OK"; a unit without any settings has 96."""


def settings(path: Path) -> configparser.ConfigParser:
    """Of a unit. Of a name that comes twice, the last counts here."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path)
    return parser


def test_there_is_a_unit_for_each_role() -> None:
    assert [
        *("skitter-egress@.service", "skitter-fleet.service", "skitter-scheduler.service"),
        *("skitter-serve.service", "skitter-worker@.service"),
    ] == UNITS


@pytest.mark.parametrize("unit", UNITS)
def test_commands_are_those_of_the_command_line(unit: str, parsed: Any) -> None:
    service = settings(FOLDER / unit)["Service"]
    command = service["ExecStart"]
    assert command.startswith("/opt/skitter/bin/skitter ")
    values = {
        "FRONTIER": "redis://db:6379/0",
        "WORKERS": "2",
        "BIND": "127.0.0.1:8601",
        "EGRESS_LISTEN": "3128",
        "EGRESS_REDIAL": "redial",
    }
    line = re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], command).replace("%i", "books")
    options = parsed(line.split()[1:])
    assert options.frontier in (values["FRONTIER"], [values["FRONTIER"]])
    assert getattr(options, "job", "books") in ("books", None)
    assert service["MemoryMax"]


def test_a_stop_has_more_time_than_a_node_needs() -> None:
    service = settings(FOLDER / "skitter-.service.d" / "hardening.conf")["Service"]
    assert int(service["TimeoutStopSec"]) > Run().shutdown_seconds + 5
    assert service["KillMode"] == "mixed"
    assert service["SuccessExitStatus"] == "130 143"
    assert service["OOMPolicy"] == "continue"


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze")
    # The interpreter of this test stands for the program, which is not installed here.
    shutil.copytree(FOLDER / "skitter-.service.d", tmp_path / "skitter-.service.d")
    for unit in UNITS:
        text = (FOLDER / unit).read_text().replace("/opt/skitter/bin/skitter", "/bin/true")
        (tmp_path / unit).write_text(text)
    environment = os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "SYSTEMD_COLORS": "0"}
    names = [unit.replace("@.", "@books.") for unit in UNITS]
    checked = subprocess.run(
        [analyze, "verify", "--man=no", *names], env=environment, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    for name in names:
        words = [analyze, "security", "--offline=yes", "--no-pager", f"--threshold={MAX_EXPOSURE}", name]
        judged = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert judged.returncode == 0, judged.stdout[-200:]
