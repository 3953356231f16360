"""Freshness for the same number of fetches: skitter's recrawl policy beside the rules of Nutch and StormCrawler.

bench_recrawl.py [--pages 10000] [--days 365] [--write]

The web is simulated, with known change rates (skitter.testing.recrawl_simulation). With --write the table goes to
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse

from report import table, write_section

from skitter.testing.recrawl_simulation import DAY, NutchRule, StormCrawlerRule, equal_budget, simulated_pages

MEDIAN_DAYS = 30
RULES = {"Nutch": NutchRule, "StormCrawler": StormCrawlerRule}
TEXT = """\
## Recrawl

{pages:,} simulated pages at 100 hosts over {days} days. Half of the hosts change more often than every {median} days;
the rates of pages are spread over five orders of magnitude. Nutch's AdaptiveFetchSchedule and StormCrawler's
AdaptiveScheduler have the settings they ship with, and skitter the `recrawl_seconds` with which it makes no more
fetches. `freshness` is the share of pages that are up to date, on average over the time.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for distribution in ("lognormal", "gamma"):
        pages = simulated_pages(options.pages, median_seconds=MEDIAN_DAYS * DAY, distribution=distribution)
        for name, rule in RULES.items():
            theirs, ours, recrawl_seconds = equal_budget(pages, rule, seconds=options.days * DAY)
            rows.append(
                {
                    "rule": name,
                    "rates": distribution,
                    "fetches": f"{theirs.fetches:,}",
                    "freshness": f"{theirs.freshness:.1%}",
                    "skitter: fetches": f"{ours.fetches:,}",
                    "freshness of skitter": f"{ours.freshness:.1%}",
                    "recrawl_seconds": f"{recrawl_seconds:,.0f}",
                }
            )
            print(rows[-1], flush=True)
    if options.write:
        text = f"{TEXT.format(pages=options.pages, days=options.days, median=MEDIAN_DAYS)}\n{table(rows)}"
        write_section("recrawl", "make bench BENCH=recrawl", text)


if __name__ == "__main__":
    main()
