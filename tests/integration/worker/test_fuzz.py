"""Mutated pages, read as a worker reads them: none ends the process, none holds it for five seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rig.mutations import mutant
from rig.soak import chance_of

EATER = Path(__file__).parent / "page_eater.py"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
"""The rig is in the folder of the tests."""
PROCESSES = 2


def eat(seed: int, numbers: range, folder: Path) -> tuple[list[str], Counter[str]]:
    """What went wrong, a line each, with the page saved; and what was refused on purpose."""
    findings: list[str] = []
    refused: Counter[str] = Counter()
    start = numbers.start
    while start < numbers.stop:
        command = [sys.executable, str(EATER), *map(str, (seed, start, numbers.stop))]
        process = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
        lines = process.stdout.splitlines()
        refused.update(line for line in lines if line.startswith("refused"))
        last = max((int(line) for line in lines if line.isdigit()), default=start)
        if process.returncode == 0:
            break
        page = folder / f"{seed}-{last}.html"
        content_type, body = mutant(seed, last)
        page.write_bytes(body)
        reason = (process.stderr.strip().splitlines() or [""])[-1]
        findings.append(f"seed {seed} page {last} ({content_type!r}, {page}): {process.returncode} {reason}")
        start = last + 1
    return findings, refused


def _run(seed: int, pages: int, folder: Path) -> tuple[list[str], Counter[str], float]:
    began = time.monotonic()
    share = -(-pages // PROCESSES)
    parts = [range(start, min(start + share, pages)) for start in range(0, pages, share)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        eaten = list(pool.map(lambda part: eat(seed, part, folder), parts))
    refused = sum((one for _, one in eaten), Counter())
    return [line for found, _ in eaten for line in found], refused, time.monotonic() - began


def test_mutated_pages(tmp_path: Path) -> None:
    findings, refused, _ = _run(1, 1_000, tmp_path)
    assert not findings, "\n".join(findings)
    # Not everything may be refused: that would be a test of nothing.
    assert refused.total() < 50


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_mutated_pages(tmp_path: Path) -> None:
    seed = chance_of("fuzz").randrange(1 << 32)
    findings, refused, seconds = _run(seed, 100_000, tmp_path)
    report = Path("build/fault-report")
    report.mkdir(parents=True, exist_ok=True)
    (report / "fuzz-soak.txt").write_text(
        f"fuzz: seed {seed}, 100,000 pages in {seconds:.0f} s, {len(findings)} deaths or hangs, {dict(refused)}\n"
        + "".join(f"  {line}\n" for line in findings)
    )
    assert not findings, "\n".join(findings)
