"""Ctrl-C and SIGTERM while a command starts: the exit code says it, nothing is printed, nothing is left running."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.processes import HANG_SECONDS, wait_until
from skitter.testing.web import WebSpec, served

SWEEP_SECONDS = 0.6
NOISE = ("Traceback", "Warning", "Exception ignored", "Fatal Python error", "never awaited", "never retrieved")
CODES = {
    # Before Python has a handler of its own, the kernel ends the process by the signal itself.
    signal.SIGINT: {130, -signal.SIGINT, 0},
    signal.SIGTERM: {143, -signal.SIGTERM, 0},
}
WAYS = [
    pytest.param(signal.SIGINT, True, id="terminal"),
    pytest.param(signal.SIGINT, False, id="parent-alone"),
    pytest.param(signal.SIGTERM, False, id="terminated"),
    pytest.param(signal.SIGTERM, True, id="group-terminated"),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(WebSpec.plain(hosts=1, pages_per_host=400, latency_seconds=0.02)) as web:
        yield web.urls[0]


def running(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        state, _, of_group = text.rpartition(")")[2].split()[:3]
        if int(of_group) == group and state not in "ZX":
            found.append(text.split()[0] + " " + (stat.parent / "cmdline").read_text().replace("\0", " "))
    return found


def is_of_python_itself(error: str) -> bool:
    """Whether Ctrl-C came while the interpreter started, before it was told what a signal means.

    With the exit code it is known whose: 1 and the signal's number are the command's; a worker's would leave it at 130.
    """
    files = re.findall(r'File "([^"]*)"', error)
    ours = [file for file in files if f"{os.sep}skitter{os.sep}" in file]
    first = [str(Path("skitter", name)) for name in ("__init__.py", "__main__.py", "_version.py")]
    return bool(files) and all(file.endswith(tuple(first)) for file in ours)


def interrupted(skitter, delay_seconds: float, number: signal.Signals, *, to_group: bool, command: tuple) -> str:
    """What is wrong with the end of a command that gets a signal so long after its start; nothing: an empty text."""
    process = skitter.start(*command, forked=False)
    # Not a wait for something: the delay is the subject.
    time.sleep(delay_seconds)
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if to_group else os.kill)(process.pid, number)
    _, error = process.communicate(timeout=HANG_SECONDS)
    wait_until(lambda: not running(process.pid), what="nothing is left running")
    if process.returncode in (1, -signal.SIGINT) and is_of_python_itself(error):
        return ""
    if process.returncode not in CODES[number]:
        return f"exit code {process.returncode}: {error}"
    if any(word in error for word in NOISE):
        return error
    return ""


def sweep(
    skitter,
    points: int,
    number: signal.Signals,
    *,
    to_group: bool,
    command: tuple,
    seconds: float = SWEEP_SECONDS,
    shift: float = 0.0,
) -> dict[int, str]:
    """By delay in milliseconds, what went wrong. ``shift`` is a part of the step between two delays."""
    delays = [seconds * (point + shift) / points for point in range(points)]
    faults = {}
    for delay in delays:
        if fault := interrupted(skitter, delay, number, to_group=to_group, command=command):
            faults[round(delay * 1000)] = fault
    return faults


def crawl(url: str) -> tuple:
    return ("crawl", url, "-o", "out.jsonl", "--job", "j", "--workers", 2, "-q")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_an_import_ends_the_command_without_a_word(skitter, number, code) -> None:
    skitter.write("own.py", f"import os, skitter\nos.kill(os.getpid(), {int(number)})\nclass S(skitter.Spider): pass\n")
    ended = skitter.run("crawl", "own.py", code=code)
    assert ended.stderr == ""


def test_ctrl_c_while_a_short_command_runs_is_quiet(skitter, url) -> None:
    skitter.run("crawl", url, "--job", "j", "--max-pages", 3, "-q")
    commands = [("status", "--job", "j"), ("jobs",), ("--help",)]
    for place, command in enumerate(commands):
        shift = place / len(commands)
        assert sweep(skitter, 4, signal.SIGINT, to_group=True, command=command, seconds=0.3, shift=shift) == {}


@pytest.mark.parametrize("way", range(len(WAYS)), ids=[str(way.id) for way in WAYS])
def test_a_signal_while_a_crawl_starts_is_quiet(skitter, url, way) -> None:
    """Each way at instants between those of the others; at all of them in the soak."""
    number, to_group = WAYS[way].values
    assert sweep(skitter, 6, number, to_group=to_group, command=crawl(url), shift=way / len(WAYS)) == {}


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("number", "to_group"), WAYS)
def test_a_signal_at_300_instants_of_the_start_is_quiet(skitter, url, number, to_group) -> None:
    assert sweep(skitter, 300, number, to_group=to_group, command=crawl(url)) == {}
