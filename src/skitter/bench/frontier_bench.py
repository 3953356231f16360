"""The frontier bench: URLs a second through add, lease and commit, and bytes a URL, at several queue lengths.

Each case is a job of its own in a process of its own: memory freed by one would hide the use of the next.
``python -m skitter.bench.frontier_bench`` is that process: it reads a BenchCase, measures it and prints a Row.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, product
from pathlib import Path

import msgspec

from skitter.app.event_loop import new_loop
from skitter.bench.bench_frontiers import Store, names_of, own_store
from skitter.bench.figures import Machine, Spread, rounded, spread, this_machine
from skitter.bench.frontier_load import BATCH, Load, Times
from skitter.bench.measured_process import answer_question, measured
from skitter.cli.terminal_text import count

REQUESTS, HOSTS, DUPLICATES = (10_000, 100_000), (1, 1000), (0, 50, 99)
"""The default cases, which take a minute or two."""
URLS_PER_ROUND = 64 * BATCH
"""URLs offered in a round; enough to make a millisecond insignificant."""
FEW_URLS = 1000
"""Below this number, URLs take less than the job itself."""


class BenchCase(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one row."""

    store: Store
    requests: int
    """URLs that are offered, before the rounds begin."""
    hosts: int
    duplicates: int
    """Percentage of duplicates among the offered URLs."""
    rounds: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one case."""

    frontier: str
    requests: int
    """URLs that were offered."""
    hosts: int
    """Hosts that the URLs are spread over."""
    duplicates: int
    """Percentage of duplicates among the offered URLs."""
    queued: int
    """URLs that were new."""
    adds_per_second: Spread
    """URLs offered per second while the queue was filled, including duplicates; in as many parts as rounds."""
    leases_per_second: Spread
    commits_per_second: Spread
    urls_per_second: Spread
    """URLs per second through all three steps in one call, as a worker does it: commit with links, and a new lease."""
    microseconds_per_url: Spread
    """The same as ``urls_per_second``, as time per URL."""
    holds: str
    """Resource of ``bytes_per_url``: ``memory`` or ``disk``."""
    bytes_per_url: float | None
    """Bytes per new URL, including its text; None if the store does not tell, or if there were too few URLs."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the frontier bench."""

    machine: Machine
    rounds: int
    rows: list[Row]


def bench_cases(requests: Iterable[int], hosts: Iterable[int], duplicates: Iterable[int]) -> list[tuple[int, int, int]]:
    """Return every combination, short queues first, without those of more hosts than URLs."""
    return [(urls, keys, known) for urls, keys, known in product(requests, hosts, duplicates) if keys <= urls]


def measure(
    addresses: Sequence[str], cases: Sequence[tuple[int, int, int]], rounds: int, on_step: Callable[[str], None]
) -> Report:
    """Measure each case on each frontier. ``on_step`` is called with the name of each step."""
    rows = []
    for address, name in names_of(addresses).items():
        for requests, hosts, duplicates in cases:
            on_step(f"{name}: {count(requests, 'request')}, {count(hosts, 'host')}, {duplicates} % duplicates")
            with tempfile.TemporaryDirectory() as folder, own_store(address, Path(folder)) as store:
                case = BenchCase(store=store, requests=requests, hosts=hosts, duplicates=duplicates, rounds=rounds)
                stdin = msgspec.json.encode(case)
                found = measured(["skitter.bench.frontier_bench"], folder=Path(folder), stdin=stdin)
            rows.append(msgspec.convert(found.answer | {"frontier": name}, Row))
    return Report(machine=this_machine(), rounds=rounds, rows=rows)


# ---- the process of one case


async def measure_case(case: BenchCase) -> Row:
    """Fill the queue once, and measure it in rounds."""
    store, rounds = case.store, case.rounds
    gc.collect()
    before = await store.size()
    load = Load(store.open(), case.hosts, duplicates=case.duplicates)
    try:
        await load.begin(store.job)
        adding = [await load.fill(urls) for urls in _pieces(case.requests, rounds)]
        if store.holds == "disk":
            # Closed, so that its log is in the file.
            await load.frontier.close()
        after = await store.size()
        if store.holds == "disk":
            load.frontier = store.open(create=False)
        leasing, committing, cycles = [], [], []
        # A page brings more than one URL when some are known.
        pages = max(4 * BATCH, min(case.requests, URLS_PER_ROUND) * (100 - case.duplicates) // 100)
        for _ in range(rounds):
            leased, committed = await load.lease_and_commit(pages)
            leasing.append(leased)
            committing.append(committed)
            await load.cycle(1)  # so that the next one begins with leases
            cycles.append(await load.cycle(pages))
    finally:
        await load.frontier.close()
    return Row(
        frontier="",
        requests=case.requests,
        hosts=case.hosts,
        duplicates=case.duplicates,
        queued=load.queued,
        adds_per_second=_rate(adding),
        leases_per_second=_rate(leasing),
        commits_per_second=_rate(committing),
        urls_per_second=_rate(cycles),
        microseconds_per_url=spread(times.wall / times.urls * 1e6 for times in cycles),
        holds=store.holds,
        bytes_per_url=_each(before, after, load.queued),
    )


def _each(before: int | None, after: int | None, urls: int) -> float | None:
    if before is None or after is None or urls < FEW_URLS:
        return None
    return rounded((after - before) / urls)


def _pieces(whole: int, parts: int) -> list[int]:
    """Split a number into nearly equal parts, none of them zero."""
    cuts = [whole * part // parts for part in range(parts + 1)]
    return [high - low for low, high in pairwise(cuts) if high > low]


def _rate(rounds: Iterable[Times]) -> Spread:
    return spread(times.urls / times.wall for times in rounds)


def _measure_case(case: BenchCase) -> Row:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(measure_case(case))


if __name__ == "__main__":
    sys.exit(answer_question(BenchCase, _measure_case))
