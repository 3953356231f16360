"""Counters of one worker, in memory that its supervisor reads: what a worker has counted outlives it.

A fixed row of whole numbers: the worker adds to them after each call to its frontier, and the supervisor reads
them when it is asked, also those of a worker that was killed. Times are in microseconds.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from skitter.model.item import ItemKind
from skitter.model.lease import Grant, Work
from skitter.model.outcome import Committed, Ending, Outcome
from skitter.observe import metrics
from skitter.observe.metrics import CALLS, ERROR_CLASSES, LATENCY_SECONDS, Histogram, Sample

_PLACES = {
    **{f"ending:{ending}": 0 for ending in Ending},
    **{f"class:{name}": 0 for name in ERROR_CLASSES},
    **{f"calls:{name}": 0 for name in CALLS},
    **{f"call_us:{name}": 0 for name in CALLS},
    **{f"latency:{number}": 0 for number in range(len(LATENCY_SECONDS) + 1)},
    **dict.fromkeys(("latency_us", "refused", "items", "bytes", "new", "duplicate", "leases", "expired"), 0),
    **dict.fromkeys(("in_flight", "slots"), 0),
}
_PLACE = {name: place for place, name in enumerate(_PLACES)}
LENGTH = len(_PLACE)
GAUGES = (_PLACE["in_flight"], _PLACE["slots"])
"""What is of no use once the worker has ended."""
OFFSET = mmap.ALLOCATIONGRANULARITY
COUNTER_BYTES = 8 * LENGTH

_ENDINGS = {ending: _PLACE[f"ending:{ending}"] for ending in Ending}
_CLASSES = {name: _PLACE[f"class:{name}"] for name in ERROR_CLASSES}
_CALLS = {name: (_PLACE[f"calls:{name}"], _PLACE[f"call_us:{name}"]) for name in CALLS}
_OTHER = _CLASSES[metrics.OTHER]
# A member of an enumeration is slower to get than a name of this module.
_DONE, _PAGE, _RECORD = Ending.DONE, Work.PAGE, ItemKind.RECORD
_LATENCY, _LATENCY_US = _PLACE["latency:0"], _PLACE["latency_us"]
_REFUSED, _ITEMS, _BYTES = _PLACE["refused"], _PLACE["items"], _PLACE["bytes"]
_NEW, _DUPLICATE, _LEASES, _EXPIRED = (_PLACE[name] for name in ("new", "duplicate", "leases", "expired"))


class NodeCounters:
    """The counters of one worker: the worker writes, the supervisor reads."""

    def __init__(self, descriptor: int = -1) -> None:
        """``descriptor``: of memory that has them from ``OFFSET`` on; -1: memory of this process."""
        offset = OFFSET if descriptor >= 0 else 0
        self._bytes = mmap.mmap(descriptor, COUNTER_BYTES, offset=offset)
        self._numbers = memoryview(self._bytes).cast("q")
        self._staged: dict[int, int] = {}
        """Items in parts of pages that have not ended, by epoch."""

    # ---- the worker's side

    def called(self, call: str, seconds: float) -> None:
        """Count a call to the frontier. A kind of call is counted in one thread only."""
        count, microseconds = _CALLS[call]
        self._numbers[count] += 1
        self._numbers[microseconds] += round(seconds * 1e6)

    def granted(self, grant: Grant) -> None:
        """Count what a call has granted."""
        self._numbers[_LEASES] += len(grant.leases)
        if grant.recovered:
            self._numbers[_EXPIRED] += sum(count for _, count in grant.recovered)

    def part_committed(self, part: Outcome, new_links: int) -> None:
        """Count a part of a large page. Its items count when the page is done."""
        self._staged[part.lease.epoch] = self._staged.get(part.lease.epoch, 0) + _records(part)
        self._add_links(len(part.links), part.tally.get("duplicates", 0), new_links)

    def committed(self, outcomes: Sequence[Outcome], answer: Committed) -> None:
        """Count the outcomes of a commit. Sums are made first: a page costs 6,000 instructions here, or 0.6 %."""
        numbers = self._numbers
        done = items = size = microseconds = sent = known = 0
        for outcome, is_accepted in zip(outcomes, answer.accepted):  # noqa: B905  a frontier answers for each
            staged = self._staged.pop(outcome.lease.epoch, 0) if self._staged else 0
            if not is_accepted:
                numbers[_REFUSED] += 1
                continue
            if outcome.ending is _DONE:
                done += outcome.lease.work is _PAGE
                items += staged
                if outcome.items:
                    items += _records(outcome)
            else:
                numbers[_ENDINGS[outcome.ending]] += 1
            if outcome.error_class:
                numbers[_CLASSES.get(outcome.error_class, _OTHER)] += 1
            tally = outcome.tally
            if "bytes" in tally:
                size += tally["bytes"]
            if "duplicates" in tally:
                known += tally["duplicates"]
            if outcome.links:
                sent += len(outcome.links)
            news = outcome.news
            if news is not None and news.latency_seconds is not None:
                numbers[_LATENCY + bisect_left(LATENCY_SECONDS, news.latency_seconds)] += 1
                microseconds += int(news.latency_seconds * 1e6)
        numbers[_ENDINGS[_DONE]] += done
        numbers[_ITEMS] += items
        numbers[_BYTES] += size
        numbers[_LATENCY_US] += microseconds
        self._add_links(sent, known, answer.new_links)

    def holds(self, leases: int, slots: int) -> None:
        """Tell how many leases the worker has now, and may have."""
        self._numbers[GAUGES[0]], self._numbers[GAUGES[1]] = leases, slots

    def _add_links(self, sent: int, known: int, new: int) -> None:
        # Most links that stand on every page are known to the worker and never leave it.
        self._numbers[_NEW] += new
        self._numbers[_DUPLICATE] += known + sent - new

    # ---- the supervisor's side

    def read(self) -> list[int]:
        """Return all numbers."""
        return self._numbers.tolist()

    def close(self) -> None:
        self._numbers.release()
        self._bytes.close()


def _records(outcome: Outcome) -> int:
    return len([1 for item in outcome.items if item.kind is _RECORD])


def samples_of(numbers: Sequence[int]) -> Iterator[Sample]:
    """Give out the series of the summed counters of all workers of a node."""

    def one(metric: metrics.Metric, name: str) -> Sample:
        return Sample(metric, (), numbers[_PLACE[name]])

    yield one(metrics.NODE_IN_FLIGHT, "in_flight")
    yield one(metrics.NODE_SLOTS, "slots")
    for ending, place in _ENDINGS.items():
        yield Sample(metrics.NODE_REQUESTS, (ending,), numbers[place])
    for name, place in _CLASSES.items():
        yield Sample(metrics.NODE_ERRORS, (name,), numbers[place])
    yield one(metrics.NODE_REFUSED, "refused")
    yield one(metrics.NODE_ITEMS, "items")
    yield one(metrics.NODE_BYTES, "bytes")
    counts = numbers[_LATENCY : _LATENCY + len(LATENCY_SECONDS) + 1]
    yield Sample(metrics.NODE_LATENCY, (), Histogram(counts, numbers[_LATENCY_US] / 1e6))
    for call, (count, microseconds) in _CALLS.items():
        yield Sample(metrics.NODE_CALLS, (call,), numbers[count])
        yield Sample(metrics.NODE_CALL_SECONDS, (call,), numbers[microseconds] / 1e6)
    yield one(metrics.NODE_LEASES, "leases")
    yield Sample(metrics.NODE_RECOVERED, ("expired",), numbers[_EXPIRED])
    yield Sample(metrics.NODE_LINKS, ("new",), numbers[_NEW])
    yield Sample(metrics.NODE_LINKS, ("duplicate",), numbers[_DUPLICATE])
