"""``skitter plan``: estimates the workers, shards and machines that a crawl needs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, positive

if TYPE_CHECKING:
    from skitter.policy.capacity_plan import Answer, Line

_UNITS = ("", " k", " M", " G", " T", " P")
_OPTIONS = {
    "pages": "pages to crawl, as in 1e9",
    "days": "time there is",
    "bytes-per-page": "on the wire (default 60000)",
    "hosts": "host keys that the pages are spread over (default 1000)",
    "urls-per-page": "different URLs seen for each page crawled (default 1.5)",
    "url-bytes": "length of a URL (default 70)",
    "delay-seconds": "between two requests to a host (default 1)",
    "latency-seconds": "from a request to the end of its answer (default 0.5)",
    "concurrency": "requests in flight per worker (default 64)",
    "node-cores": "cores of one machine (default 8)",
    "node-bits-per-second": "its line (default 1e9)",
    "redis-bytes": "memory of one Redis (default 32e9)",
}


def configure(parser: Parser) -> None:
    for name, text in _OPTIONS.items():
        kind = _delay if name == "delay-seconds" else positive
        parser.add_argument(f"--{name}", metavar="N", type=kind, help=text, required=name in ("pages", "days"))
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="errors with their traceback")


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
