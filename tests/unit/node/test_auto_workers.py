"""``--workers auto``: one worker a core, by what this process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skitter.node.auto_workers import Machine, auto_workers, this_machine


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        (Machine(cores=2, affinity=2), "2 workers: 2 cores"),
        (Machine(cores=1, affinity=1), "1 worker: 1 core"),
        (Machine(cores=8, affinity=2), "2 workers: 2 of 8 cores (affinity)"),
        (Machine(cores=8, affinity=8, quota=3.5), "3 workers: 3 of 8 cores (a quota of 3.5)"),
        (Machine(cores=8, affinity=8, quota=0.5), "1 worker: 1 of 8 cores (a quota of 0.5)"),
        (Machine(cores=8, affinity=2, quota=4.0), "2 workers: 2 of 8 cores (affinity)"),
        (Machine(cores=8, affinity=8, free_bytes=10**10), "8 workers: 8 cores"),
        (
            Machine(cores=8, affinity=8, free_bytes=400_000_000),
            "3 workers: 400 MB of memory at 88 MB each, 8 cores",
        ),
        (Machine(cores=2, affinity=2, free_bytes=0), "1 worker: 0 MB of memory at 88 MB each, 2 cores"),
    ],
)
def test_the_number_follows_from_the_machine_and_says_so(machine: Machine, told: str) -> None:
    assert auto_workers(machine) == (int(told.split(maxsplit=1)[0]), told)


def files(root: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_tightest_group_above_the_process_counts(tmp_path: Path) -> None:
    files(
        tmp_path,
        proc__self__cgroup="1:name=systemd:/\n0::/pod/box\n",
        proc__meminfo="MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n",
        sys__fs__cgroup__pod__cpu_dot_max="150000 100000\n",
        sys__fs__cgroup__pod__box__cpu_dot_max="max 100000\n",
        sys__fs__cgroup__pod__box__memory_dot_max="1000000000\n",
        sys__fs__cgroup__pod__box__memory_dot_current="900000000\n",
        sys__fs__cgroup__pod__box__memory_dot_stat="anon 100\nfile 300000000\n",
    )
    machine = this_machine(tmp_path)
    assert (machine.quota, machine.free_bytes) == (1.5, 400_000_000)


def test_a_machine_without_groups_has_no_limit_but_its_own(tmp_path: Path) -> None:
    files(tmp_path, proc__meminfo="MemAvailable: 4000 kB\n")
    assert this_machine(tmp_path).quota is None
    assert this_machine(tmp_path).free_bytes == 4_096_000
    assert this_machine(tmp_path / "nothing").free_bytes is None


def test_affinity_counts() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert this_machine().affinity == 1
    finally:
        os.sched_setaffinity(0, before)
