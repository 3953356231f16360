"""Checker: finds lost pages, duplicates and accepted stale commits, and measures delays and the cost of faults.

It compares independent records: the workers' histories, the web server's log, the frontier's states, the results, and
the known contents of the web.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from skitter.model.lease import Work
from skitter.model.outcome import Ending
from skitter.model.url import canonical, host_key
from skitter.testing.history.events import Event, Fault, What
from skitter.testing.history.evidence import Evidence, Findings

_HAND_BACK = (What.ACCEPTED, What.REFUSED, What.RELEASED, What.LOST)
"""Events after which a worker no longer holds the lease."""
_ENDED = {"ended", "maybe-seen"}
"""States that a store without a history, or a Bloom filter, reports for done and redirected requests."""


def check(evidence: Evidence) -> Findings:
    """Check all evidence and return the findings."""
    events = [event for history in evidence.histories.values() for event in history]
    held = [(fault, _held_at(evidence, fault)) for fault in evidence.faults]
    expected = evidence.expected
    started = _gaps_by_host(start for history in evidence.histories.values() for start in _starts(history))
    sent = _gaps_by_host((event.url, event.at) for event in events if event.what is What.SENT)
    arrived = _gaps_by_host((root, hit.at) for root, hit in evidence.host_hits())
    return Findings(
        pages=len(expected.done) + len(expected.redirected) + len(expected.failed),
        fetches=len(evidence.page_hits()),
        lost=sorted(set(_lost(evidence))),
        doubled=sorted(set(_doubled(evidence, events))),
        stale_accepted=sorted(set(_stale(events))),
        unexpected=sorted(set(evidence.output) - expected.done),
        refetches=_refetches(evidence, events),
        held_at_faults=len({lease.epoch for _, leases in held for lease in leases}),
        faults=list(evidence.faults),
        released_seconds=_released_seconds(events, held),
        resumed_seconds=_resumed_seconds(evidence.faults, events),
        smallest_gap_seconds=_smallest(started),
        smallest_gap_of_sends_seconds=_smallest(sent),
        smallest_gap_at_server_seconds=_smallest(arrived),
        gaps={key: round(gap, 6) for key, gap in sorted(started.items())},
        most_in_flight=max((hit.in_flight for hit in evidence.hits), default=0),
    )


# ---- violations


def _lost(evidence: Evidence) -> Iterator[str]:
    expected = evidence.expected
    for wanted, urls in (
        ("done", expected.done),
        # A URL that occurs twice in a chain is redirected once, and done or failed in the end.
        ("redirected", expected.redirected - expected.done - expected.failed.keys()),
        ("failed", expected.failed.keys() - expected.redirected),
        ("excluded", expected.excluded),
    ):
        fine = {wanted} | (_ENDED if wanted in ("done", "redirected") else set())
        for url in urls:
            state = evidence.states.get(url, "never seen")
            if state not in fine:
                yield f"{url}: {state} instead of {wanted}"
    for url in expected.done - set(evidence.output):
        yield f"{url}: not in the results"
    if evidence.unended:
        yield f"{evidence.unended} requests have not ended"


def _doubled(evidence: Evidence, events: Iterable[Event]) -> Iterator[str]:
    for url, times in Counter(evidence.output).items():
        if times > 1:
            yield f"{url}: {times} times in the results"
    ends = Counter(event.id for event in events if _is_final(event))
    for request_id, times in ends.items():
        if times > 1:
            yield f"request {request_id}: ended by {times} commits"


def _stale(events: Iterable[Event]) -> Iterator[str]:
    """Yield commits of an older lease that were accepted after a newer one had been granted.

    Only certain cases count: the newer grant had been received before the commit was sent. But a page that has ended
    for good must never be granted again, so then the times do not matter.
    """
    grants: dict[tuple[int, int], list[Event]] = defaultdict(list)
    accepted: list[Event] = []
    for event in events:
        if event.what is What.LEASED:
            grants[event.work, event.id].append(event)
        elif event.what in (What.ACCEPTED, What.PART):
            accepted.append(event)
    for event in accepted:
        for grant in grants[event.work, event.id]:
            if grant.epoch > event.epoch and (grant.at < event.since or _is_final(event)):
                yield f"request {event.id}: epoch {event.epoch} accepted, though {grant.epoch} was granted"


def _is_final(event: Event) -> bool:
    return event.what is What.ACCEPTED and event.work == Work.PAGE and event.ending != Ending.RETRY


# ---- cost of the faults


def _refetches(evidence: Evidence, events: Iterable[Event]) -> int:
    """Return the number of fetches that led to no commit; a page that was tried three times is fetched three times."""
    urls = {event.epoch: canonical(event.url) for event in events if event.what is What.LEASED and event.url}
    accounted = Counter(
        urls.get(event.epoch)
        for event in events
        if event.what is What.ACCEPTED and event.work == Work.PAGE and event.ending != Ending.EXCLUDED
    )
    fetched = Counter(url for url, _ in evidence.page_hits())
    # A commit whose answer never arrived also accounts for its fetch: hence at least one.
    return sum(max(0, times - max(1, accounted[url])) for url, times in fetched.items())


def still_held(history: Iterable[Event]) -> list[Event]:
    """Return the grants that a process had according to its own history and has not handed back."""
    held: dict[int, Event] = {}
    for event in history:
        if event.what is What.LEASED:
            held[event.epoch] = event
        elif event.what in _HAND_BACK:
            held.pop(event.epoch, None)
    return list(held.values())


def _held_at(evidence: Evidence, fault: Fault) -> list[Event]:
    """Return the leases that the victims of a fault held when it happened."""
    held: list[Event] = []
    for process in fault.processes:
        history = evidence.histories.get(process, [])
        # Events that a killed process recorded after the timestamp of the kill have still happened.
        held += still_held(event for event in history if fault.ends or event.at <= fault.at)
    return held


def _released_seconds(events: Iterable[Event], held: Iterable[tuple[Fault, list[Event]]]) -> float:
    grants: dict[tuple[int, int], list[Event]] = defaultdict(list)
    ended: set[int] = set()
    for event in events:
        if event.what is What.LEASED:
            grants[event.work, event.id].append(event)
        elif event.what in (What.ACCEPTED, What.RELEASED):
            ended.add(event.epoch)
    waited: dict[int, float] = {}
    for fault, leases in held:
        for lease in leases:
            later = [grant.at for grant in grants[lease.work, lease.id] if grant.epoch > lease.epoch]
            if later and min(later) > fault.at and lease.epoch not in ended:
                # A lease that survived one fault and was lost in another counts for the later one.
                seconds = min(later) - fault.at
                waited[lease.epoch] = min(seconds, waited.get(lease.epoch, seconds))
    return max(waited.values(), default=0.0)


def _resumed_seconds(faults: Iterable[Fault], events: Iterable[Event]) -> float:
    """Return the longest time from the end of a fault until the next accepted commit.

    Of two faults without a commit between them, the later one counts: no worker had time to resume.
    """
    accepted = sorted(event.at for event in events if event.what is What.ACCEPTED)
    ends = sorted(fault.until for fault in faults)
    longest = 0.0
    for at in accepted:
        before = bisect_right(ends, at)
        if before:
            longest = max(longest, at - ends[before - 1])
            # Later commits, up to the next fault, say nothing about this fault.
            del ends[:before]
    return longest


# ---- politeness


def _starts(history: Iterable[Event]) -> Iterator[tuple[str, float]]:
    """Yield the URL of each request of a process and the time at which it started at its socket.

    It starts when a connection is opened for it or, on an existing connection, when it is sent. Politeness is measured
    between these times, because a handshake may take any time.
    """
    opened: dict[str, float] = {}
    for event in history:
        if event.what is What.OPENED:
            opened.setdefault(event.url, event.at)
        elif event.what is What.SENT:
            yield event.url, opened.pop(event.url, event.at)
        elif event.what is What.ANSWERED:
            opened.pop(event.url, None)


def _gaps_by_host(stamps: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the smallest time between two requests to each host key; ``stamps`` has (URL, time) in any order."""
    times: dict[str, list[float]] = defaultdict(list)
    for url, at in stamps:
        times[host_key(url)].append(at)
    return {
        key: min(after - before for before, after in pairwise(sorted(stamped)))
        for key, stamped in times.items()
        if len(stamped) > 1
    }


def _smallest(gaps: dict[str, float]) -> float | None:
    return min(gaps.values(), default=None)
