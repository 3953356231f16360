"""What each frontier carries: ``skitter bench frontier`` up to ten million URLs and a million hosts.

bench_ladder.py [--requests 1e4 1e5 1e6 1e7] [--rounds 3] [--frontier memory: sqlite: redis:] [--write]

One figure changes at a time: how many URLs were offered before, over how many hosts they are spread, and how many of
them are known. Every combination of them takes hours; ``skitter bench frontier`` measures any of them. Redis is a
private server. Prints one JSON object; with --write, the table goes to docs/benchmarks.md as well.
"""

from __future__ import annotations

import argparse
import json
import sys

import msgspec
from private_redis import redis_at
from report import table, write_section

from skitter.bench.figures import Spread
from skitter.bench.frontier_bench import Row, measure

REQUESTS, HOSTS, KNOWN = 1_000_000, 1000, 50
"""What the other figures are when one changes."""
OTHER_HOSTS = (1, 1_000_000)
OTHER_KNOWN = (0, 99)
FRONTIERS = {"memory:": "memory", "sqlite:": "SQLite", "redis:": "Redis"}
TEXT = """\
## What a frontier carries

One client, one call at a time (`skitter bench frontier`). `requests` were offered before, of which `known` of a hundred
were there already. `adds` are URLs offered a second meanwhile; `through` are URLs that pass all three steps in one
call, as a worker makes it: pages committed with their links, and new ones leased. `us` is the time of one of these,
and of the known ones that come with it: with 99 % known that is a hundred URLs. `bytes` is what a URL takes that was
new, its text included, on disk or in memory. Medians of {rounds}, and in brackets the lowest and the highest.
"""


def cases(requests: list[int]) -> list[tuple[int, int, int]]:
    """(requests, hosts, known), the short ones first."""
    lengths = [(length, min(HOSTS, length), KNOWN) for length in requests]
    if REQUESTS not in requests:
        return lengths
    others = [(REQUESTS, hosts, KNOWN) for hosts in OTHER_HOSTS] + [(REQUESTS, HOSTS, known) for known in OTHER_KNOWN]
    return lengths + others


def shown(row: Row) -> dict[str, str]:
    return {
        "frontier": row.frontier,
        "requests": f"{row.requests:,}",
        "hosts": f"{row.hosts:,}",
        "known": f"{row.duplicates} %",
        "adds": f"{row.adds_per_second.median:,.0f}",
        "through": spread_of(row.urls_per_second),
        "us": f"{row.microseconds_per_url.median:.0f}",
        "bytes": "-" if row.bytes_per_url is None else f"{row.bytes_per_url:,.0f}",
    }


def spread_of(figure: Spread) -> str:
    return f"{figure.median:,.0f} ({figure.low:,.0f} to {figure.high:,.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description="what each frontier carries, up to ten million URLs")
    parser.add_argument("--requests", type=float, nargs="+", default=[1e4, 1e5, 1e6, 1e7])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frontier", nargs="+", choices=FRONTIERS, default=list(FRONTIERS))
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    options = parser.parse_args()
    rows: list[Row] = []
    with redis_at() as redis_url:
        for frontier in options.frontier:
            address = redis_url if frontier == "redis:" else frontier
            for case in cases([int(length) for length in options.requests]):
                # One by one: a ladder that is broken off has told what it knows.
                found = measure([address], [case], options.rounds, lambda _: None).rows
                rows += [msgspec.structs.replace(row, frontier=FRONTIERS[frontier]) for row in found]
                print(json.dumps(shown(rows[-1])), flush=True)
    if options.write:
        command = " ".join(["python bench/bench_ladder.py", *sys.argv[1:]])
        write_section(
            "ladder", command, TEXT.format(rounds=options.rounds) + "\n" + table([shown(row) for row in rows])
        )


if __name__ == "__main__":
    main()
