"""The number of workers for ``--workers auto``: by the cores and the memory that this process may use."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from skitter.policy.capacity_plan import WORKER_BYTES

MEMORY_SHARE = 0.8
"""Of the memory that is free: the rest is for this process, the page cache and whatever else runs here."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a machine that this process may use."""

    cores: int
    """Of the whole machine."""
    affinity: int
    """Cores that the process may run on."""
    quota: float | None = None
    """Cores that its control group has the time of; None: no limit."""
    free_bytes: int | None = None
    """Memory that can still be had; None: not known."""


def auto_workers(machine: Machine) -> tuple[int, str]:
    """Return the number of workers, and the reason in words: ``2 workers: 2 of 8 cores (affinity)``.

    One a core: a worker uses at most one. Of a quota the whole cores count, so that a fraction is left for the parent.
    """
    cores, limit = machine.affinity, "affinity" if machine.affinity < machine.cores else ""
    if machine.quota is not None and machine.quota < cores:
        cores, limit = max(1, int(machine.quota)), f"a quota of {machine.quota:g}"
    shown = f"{cores} of {machine.cores} cores ({limit})" if limit else f"{cores} core{'s' if cores != 1 else ''}"
    workers = cores
    if machine.free_bytes is not None:
        fits = max(1, int(machine.free_bytes * MEMORY_SHARE) // WORKER_BYTES)
        if fits < cores:
            workers = fits
            shown = f"{machine.free_bytes / 1e6:,.0f} MB of memory at {WORKER_BYTES / 1e6:.0f} MB each, {shown}"
    return workers, f"{workers} worker{'s' if workers != 1 else ''}: {shown}"


def this_machine(root: Path = Path("/")) -> Machine:
    """Return what this process may use. ``root`` of the file system, for tests."""
    cores = os.cpu_count() or 1
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    groups = _control_groups(root)
    quotas = [quota for group in groups if (quota := _quota(group)) is not None]
    free = [
        left
        for left in [_free_bytes(root / "proc/meminfo"), *(_left_bytes(group) for group in groups)]
        if left is not None
    ]
    return Machine(
        cores=cores,
        affinity=affinity,
        quota=min(quotas, default=None),
        free_bytes=min(free, default=None),
    )


def _control_groups(root: Path) -> list[Path]:
    """The folders of this process's control group (version 2) and of those above it: the tightest limit counts."""
    lines = _read(root / "proc/self/cgroup").splitlines()
    path = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    if path is None:
        return []
    base = root / "sys/fs/cgroup"
    group = base / path.strip("/")
    return [group, *(parent for parent in group.parents if parent.is_relative_to(base))]


def _quota(group: Path) -> float | None:
    """Read ``cpu.max``: ``150000 100000`` are one and a half cores, ``max 100000`` is no limit."""
    quota, _, period = _read(group / "cpu.max").strip().partition(" ")
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() and int(period) else None


def _left_bytes(group: Path) -> int | None:
    """Return what a control group may still take. Its page cache counts as free: it is given up when needed."""
    limit, used = (_read(group / name).strip() for name in ("memory.max", "memory.current"))
    if not limit.isdecimal() or not used.isdecimal():
        return None
    cache = next(
        (int(line.split()[1]) for line in _read(group / "memory.stat").splitlines() if line.startswith("file ")), 0
    )
    return max(0, int(limit) - int(used) + cache)


def _free_bytes(meminfo: Path) -> int | None:
    line = next((line for line in _read(meminfo).splitlines() if line.startswith("MemAvailable:")), "")
    return int(line.split()[1]) * 1024 if line else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
