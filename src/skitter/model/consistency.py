"""Findings of the consistency check (``skitter fsck``): their codes, and the report that they come in."""

from __future__ import annotations

from collections import Counter

import msgspec

MOST_LISTED = 1000
"""Findings that a report lists; all are counted."""

CODES = {
    "unreadable": "A stored value, or a page of the file, cannot be read. Nothing else of the store is looked at.",
    "count": "A count of requests in the job's record is not what is there.",
    "ended_count": "The seen set has more requests, or fewer, than stand in a place or have ended.",
    "pages_count": "The pages that hosts have had are not those that are done.",
    "errors_count": "The dead of a class of errors are not as many as the job's record says.",
    "sequence": "A sequence (of requests, of epochs, of items) would give a number that is in use.",
    "need_count": "The count of queued requests that have a need is not what is there.",
    "remembered": "More requests are remembered as done or redirected than there were.",
    "filter_bits": "A Bloom filter has fewer bits set than its record says, and has forgotten pages; or more.",
    "set_count": "The record of an exact set has another number of ids than the set.",
    "state": "The job is finished and has unfinished requests, or has none and is not finished.",
    "not_seen": "A request stands in a place, and not in the seen set: it could be added again.",
    "seen_bucket": "An id stands in a part of an exact set where nobody looks for it.",
    "two_places": "A request stands in more than one place.",
    "no_place": "A request has a record, and stands in no place where it would be found.",
    "no_request": "A place names a request that is not stored.",
    "request_index": "A place has a request with another priority, time or number than its record has.",
    "host_missing": "A request belongs to a host that has no record.",
    "host_queue": "A host's record contradicts its queue: how many wait, and the highest priority.",
    "host_in_flight": "A host's record contradicts the leases: how many are in flight, and who reads its robots.txt.",
    "host_phase": "The phase of a host contradicts its record: nobody would serve it, or too early.",
    "host_index": "A host does not stand where its record says, or stands somewhere else as well.",
    "host_reason": "A host is given up without a reason, or has a reason and is not given up.",
    "host_shard": "A host is kept by a shard that it does not belong to.",
    "parked_count": "The number of parked hosts in the job's record is not that of the hosts.",
    "address_count": "The leases that are counted under an IP address are not those that there are.",
    "proxy_count": "The leases of a proxy, or the hosts that remember proxies, are not as many as is counted.",
    "crowded": "The length of a queue that is shown to people is not that of the queue.",
    "lease_worker": "The index of a worker's leases is not what the leases say.",
    "lease_alone": "A worker that holds a lease which nothing may stand beside holds others as well.",
    "lease_deadline": "A lease would be recovered later than its deadline.",
    "lease_epoch": "Two leases have the same epoch.",
    "lease_work": "A lease contradicts what it is of: its host, its request or the seeding.",
    "staged": "Items are staged for a lease that does not exist, or does not know of them.",
    "outbox": "Items are missing in the outbox, or stand behind the newest position.",
    "outbox_leftover": "Items are kept that every sink has.",
    "sink_position": "A sink is ahead of the newest item, or lacks items that are gone.",
    "intakes_count": "The number of open intakes in the job's record is not that of the intakes.",
    "permit": "The list of permitted hosts contradicts the hosts.",
    "robots": "The robots.txt that governs a host is not stored.",
    "known_page": "A page that the job recrawls, its time and its record contradict each other.",
    "worker_card": "A card is kept of a worker that is not known.",
    "shard": "A shard's record contradicts that of the lead.",
    "page_limit": "Shards may fetch more pages together than `max_pages` allows.",
}
"""Code to meaning: the one list, which ``docs/reference/findings.md`` is made from."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A contradiction between two stored values."""

    code: str
    place: str
    """The record, key or row."""
    what: str
    expected: str
    """The value that follows from everything else; empty if the place says it all."""
    found: str
    mendable: bool
    """Whether ``--repair`` can mend it without loss."""
    mended: bool = False


def unreadable(place: str) -> Finding:
    """The finding of a value that cannot be read."""
    return Finding(code="unreadable", place=place, what="a stored value", expected="", found="", mendable=False)


class Consistency(msgspec.Struct, kw_only=True):
    """The report of a consistency check."""

    findings: list[Finding] = []
    """At most ``MOST_LISTED``."""
    counts: dict[str, int] = {}
    """How many there are of each code."""
    mended: int = 0
    """How many of them were mended."""
    checked: dict[str, int] = {}
    """How many requests, hosts, leases and items were looked at."""
    unchecked: list[str] = []
    """What could not be compared, because the job changed all the while."""

    @property
    def total(self) -> int:
        """The number of findings."""
        return sum(self.counts.values())

    def add(self, finding: Finding) -> None:
        self.counts[finding.code] = self.counts.get(finding.code, 0) + 1
        self.mended += finding.mended
        if len(self.findings) < MOST_LISTED:
            self.findings.append(finding)

    def look_at(self, kind: str, number: int) -> None:
        """Count what was looked at."""
        self.checked[kind] = self.checked.get(kind, 0) + number


def merged(reports: list[Consistency]) -> Consistency:
    """One report of several: of the shards of a job."""
    counts: Counter[str] = Counter()
    checked: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
        checked.update(report.checked)
    return Consistency(
        findings=[finding for report in reports for finding in report.findings][:MOST_LISTED],
        counts=dict(counts),
        mended=sum(report.mended for report in reports),
        checked=dict(checked),
        unchecked=list(dict.fromkeys(text for report in reports for text in report.unchecked)),
    )


def with_mended(report: Consistency, left: Consistency) -> Consistency:
    """The findings of a check before the repair, each with whether the check after it has not found it again."""
    still, before = ({_name(finding) for finding in one.findings} for one in (left, report))
    told = Consistency(checked=report.checked, unchecked=report.unchecked)
    for finding in report.findings:
        told.add(msgspec.structs.replace(finding, mended=finding.mendable and _name(finding) not in still))
    for finding in left.findings:
        if _name(finding) not in before:
            told.add(finding)
    if max(report.total, left.total) > MOST_LISTED:
        # Beyond what is listed, the numbers alone can be told.
        told.counts, told.mended = dict(report.counts), max(0, report.total - left.total)
    return told


def _name(finding: Finding) -> tuple[str, str, str]:
    return finding.code, finding.place, finding.what
