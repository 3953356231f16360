"""Findings of the consistency check (``skitter fsck``): their codes, and the report that they come in."""

from __future__ import annotations

from collections import Counter

import msgspec

MOST_LISTED = 1000
"""Findings that a report lists; all are counted."""

CODES = {
    "unreadable": "A stored value, or a page of the file, cannot be read. Nothing else in the store is checked.",
    "count": "A count of requests in the job's record is wrong.",
    "ended_count": "The seen set does not have as many requests as are in a place or have ended.",
    "pages_count": "The page counts of the hosts do not add up to the pages that are done.",
    "errors_count": "The number of failed requests of an error class differs from the job's record.",
    "sequence": "A sequence (of requests, epochs or items) would return a number that is in use.",
    "need_count": "The count of queued requests with a need is wrong.",
    "remembered": "More requests are remembered as done or redirected than there are.",
    "filter_bits": "A Bloom filter has fewer bits set than its record says, so that pages are forgotten, or more bits.",
    "set_count": "The record of an exact set and the set differ in their number of ids.",
    "state": "The job is finished but has unfinished requests, or has none but is not finished.",
    "not_seen": "A request is in a place but not in the seen set: it could be added again.",
    "seen_bucket": "An id is in a part of an exact set where it is never looked up.",
    "two_places": "A request is in more than one place.",
    "no_place": "A request has a record but is in no place where it would be found.",
    "no_request": "A place names a request that is not stored.",
    "request_index": "A place has a request with a priority, time or number that differs from its record.",
    "host_missing": "A request belongs to a host that has no record.",
    "host_queue": "A host's record contradicts its queue: the number of waiting requests, or their highest priority.",
    "host_in_flight": "A host's record contradicts the leases: the number in flight, or the reader of robots.txt.",
    "host_phase": "The phase of a host contradicts its record: it would never be served, or too early.",
    "host_index": "A host is not where its record says, or is also somewhere else.",
    "host_reason": "A host is given up without a reason, or has a reason but is not given up.",
    "host_shard": "A host is stored in a shard that it does not belong to.",
    "halted_count": "The number of hosts that an operator has paused or given up is wrong.",
    "parked_count": "The number of parked hosts in the job's record is wrong.",
    "address_count": "The number of leases of an IP address is wrong.",
    "proxy_count": "The number of leases of a proxy, or of hosts that remember proxies, is wrong.",
    "crowded": "The length of a queue that status shows is wrong.",
    "lease_worker": "The index of a worker's leases contradicts the leases.",
    "lease_alone": "A worker holds other leases besides one that must be held alone.",
    "lease_deadline": "A lease would be recovered later than its deadline.",
    "lease_epoch": "Two leases have the same epoch (fencing token).",
    "lease_work": "A lease contradicts its host, its request or the seeding.",
    "staged": "Items are staged for a lease that does not exist or does not refer to them.",
    "outbox": "Items are missing in the outbox, or are beyond the newest position.",
    "outbox_leftover": "Items are kept although every output has them.",
    "sink_position": "An output is ahead of the newest item, or lacks items that no longer exist.",
    "intakes_count": "The number of open intakes in the job's record is wrong.",
    "jars_count": "The number of cookie jars contradicts the job's record and the index of their domains.",
    "session_in_flight": "The number of requests in flight of a session contradicts the leases.",
    "lost_links": "A shard's server lost links of pages that have ended on other shards: their pages are missing.",
    "permit": "The list of permitted hosts contradicts the hosts.",
    "robots": "The robots.txt that governs a host is not stored.",
    "known_page": "The record of a page that the job recrawls contradicts its due time.",
    "worker_heartbeat": "A heartbeat is stored for an unknown worker.",
    "shard": "A shard's record contradicts that of the lead shard.",
    "page_limit": "Together, the shards may fetch more pages than `max_pages` allows.",
}
"""Code to meaning: the one list, which ``docs/reference/findings.md`` is made from."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A contradiction between two stored values."""

    code: str
    place: str
    """The record, key or row."""
    what: str
    expected: str
    """Expected value, derived from the other data; empty if there is none."""
    found: str
    mendable: bool
    """Whether ``--repair`` can repair it without loss."""
    mended: bool = False


def unreadable(place: str) -> Finding:
    """The finding of a value that cannot be read."""
    return Finding(code="unreadable", place=place, what="a stored value", expected="", found="", mendable=False)


class Consistency(msgspec.Struct, kw_only=True):
    """The report of a consistency check."""

    findings: list[Finding] = []
    """Findings, at most 1,000."""
    counts: dict[str, int] = {}
    """Number of findings of each code."""
    mended: int = 0
    """Number of findings that were repaired."""
    checked: dict[str, int] = {}
    """Number of requests, hosts, leases and items that were checked."""
    unchecked: list[str] = []
    """Checks that were not possible because the job kept changing."""

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
