"""Hostile headers, robots.txt and sitemaps, read as a worker reads them: none ends the process or holds it for long."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from rig.answers import KINDS, answer
from rig.soak import chance_of

EATER = Path(__file__).parent / "answer_eater.py"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
"""The rig is in the folder of the tests."""
PROCESSES = 2
SHARE = 500
"""Answers of one process: so both have work to the end."""


class Eaten(NamedTuple):
    """What came of a number of answers."""

    findings: list[str]
    """What went wrong, a line each, with the answer saved."""
    refused: Counter[str]
    longest: dict[str, tuple[float, int]]
    """Seconds and number, by kind."""


def eat(seed: int, numbers: range, folder: Path) -> Eaten:
    eaten = Eaten([], Counter(), {})
    start = numbers.start
    while start < numbers.stop:
        command = [sys.executable, str(EATER), *map(str, (seed, start, numbers.stop))]
        process = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
        lines = process.stdout.splitlines()
        eaten.refused.update(line for line in lines if line.startswith("refused"))
        for _, kind, seconds, number in (line.split() for line in lines if line.startswith("longest")):
            eaten.longest[kind] = max(eaten.longest.get(kind, (0.0, 0)), (float(seconds), int(number)))
        if process.returncode == 0:
            break
        last = max((int(line) for line in lines if line.isdigit()), default=start)
        saved = folder / f"{seed}-{last}.msgpack"
        saved.write_bytes(msgspec.msgpack.encode(given := answer(seed, last)))
        reason = (process.stderr.strip().splitlines() or [""])[-1]
        eaten.findings.append(f"seed {seed} answer {last} ({given.kind}, {saved}): {process.returncode} {reason}")
        start = last + 1
    return eaten


def _run(seed: int, answers: int, folder: Path) -> Eaten:
    parts = [range(start, min(start + SHARE, answers)) for start in range(0, answers, SHARE)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        all_eaten = list(pool.map(lambda part: eat(seed, part, folder), parts))
    longest = {kind: max(one.longest.get(kind, (0.0, 0)) for one in all_eaten) for kind in set(KINDS)}
    refused = sum((one.refused for one in all_eaten), Counter())
    return Eaten([line for one in all_eaten for line in one.findings], refused, longest)


def test_hostile_answers(tmp_path: Path) -> None:
    eaten = _run(1, 400, tmp_path)
    assert not eaten.findings, "\n".join(eaten.findings)
    # Not everything may be refused: that would be a test of nothing.
    assert eaten.refused.total() < 100
    assert all(seconds > 0 for seconds, _ in eaten.longest.values())


def test_an_answer_is_the_same_whenever_it_is_asked_for() -> None:
    for number in range(30):
        assert answer(7, number) == answer(7, number)
    assert answer(7, 0) != answer(8, 0)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_hostile_answers(tmp_path: Path) -> None:
    seed = chance_of("fuzz").randrange(1 << 32)
    began = time.monotonic()
    eaten = _run(seed, 100_000, tmp_path)
    longest = ", ".join(
        f"{kind} {seconds:.2f} s (number {number})" for kind, (seconds, number) in eaten.longest.items()
    )
    report = Path("build/fault-report")
    report.mkdir(parents=True, exist_ok=True)
    (report / "fuzz-answers-soak.txt").write_text(
        f"fuzz of answers: seed {seed}, 100,000 in {time.monotonic() - began:.0f} s, {len(eaten.findings)} deaths or "
        f"hangs, the longest: {longest}, {dict(eaten.refused)}\n" + "".join(f"  {line}\n" for line in eaten.findings)
    )
    assert not eaten.findings, "\n".join(eaten.findings)
