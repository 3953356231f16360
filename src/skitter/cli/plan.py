"""``skitter plan``: estimates the workers, shards and machines that a crawl needs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, positive

if TYPE_CHECKING:
    from skitter.policy.capacity_plan import Answer, Line

_UNITS = ("", " k", " M", " G", " T", " P")
_OPTIONS = {
    "pages": "pages to crawl, e.g. 1e9",
    "days": "time available",
    "bytes-per-page": "bytes per page on the wire (default 60000)",
    "hosts": "hosts that the pages are spread over (default 1000)",
    "urls-per-page": "distinct URLs seen per crawled page (default 1.5)",
    "url-bytes": "average length of a URL (default 70)",
    "delay-seconds": "delay between two requests to a host (default 0.5, the one of public hosts; 0: none)",
    "latency-seconds": "time from a request to the end of its response (default 0.5)",
    "concurrency": "requests in flight per worker (default 64)",
    "node-cores": "cores per machine (default 8)",
    "node-bits-per-second": "bandwidth per machine (default 1e9)",
    "redis-bytes": "memory per Redis server (default 32e9)",
}

_OF_MACHINES = ("concurrency", "node-cores", "node-bits-per-second", "redis-bytes")


def configure(parser: Parser) -> None:
    parser.describe(
        "--pages N --days N [options]",
        text="Estimate how many workers, shards and machines a crawl needs, and what limits it. Nothing is read or\n"
        "connected to: the answer is arithmetic on measured costs.",
        examples=[
            ("skitter plan --pages 1e9 --days 7", "A billion pages in a week"),
            (
                "skitter plan --pages 1e6 --days 1 --hosts 20 --delay-seconds 2",
                "A million pages of twenty hosts in a day",
            ),
        ],
    )
    for name, text in _OPTIONS.items():
        kind = _delay if name == "delay-seconds" else positive
        group = parser.group("Machines" if name in _OF_MACHINES else "Crawl")
        group.add_argument(f"--{name}", metavar="N", type=kind, help=text, required=name in ("pages", "days"))
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print tracebacks of errors")


def run(options: argparse.Namespace) -> int:
    from skitter.cli.output import print_json
    from skitter.policy.capacity_plan import Question, plan

    given: dict[str, Any] = {
        field: getattr(options, field) for field in Question.__struct_fields__ if getattr(options, field) is not None
    }
    for count in ("concurrency", "node_cores"):
        if count in given:
            given[count] = max(1, int(given[count]))
    answer = plan(Question(**given))
    if options.json:
        print_json(answer)
    else:
        print("\n".join(_as_text(answer)))
    return 0


def _delay(text: str) -> float:
    return 0.0 if text.strip() in ("0", "0.0") else positive(text)


def _as_text(answer: Answer) -> list[str]:
    lines = [f"{line.name:<15} {_amount(line):>16}  {line.basis:<8}  {line.because}" for line in answer.lines]
    return [*lines, "", f"bottleneck: {answer.bottleneck}: {answer.advice}"]


def _amount(line: Line) -> str:
    if line.unit in ("bytes", "bits/s"):
        value, power = line.value, 0
        while value >= 1000 and power < len(_UNITS) - 1:
            value, power = value / 1000, power + 1
        return f"{value:.3g}{_UNITS[power] or ' '}{'B' if line.unit == 'bytes' else 'bit/s'}"
    return f"{line.value:,.0f} {line.unit}" if line.value >= 10 else f"{line.value:.3g} {line.unit}"
