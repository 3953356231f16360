"""How many requests are in each place of a job in Redis, against what its record says: sums of the check."""

from __future__ import annotations

from typing import Any

import msgspec

_COUNTS = (
    *("queued", "delayed", "leased", "done", "redirected", "failed", "excluded", "parked", "needy"),
    *("paused_hosts", "given_up_hosts"),
)


class PlaceCounts(msgspec.Struct):
    """What the job's record says of its requests, and what was counted (count_places.lua)."""

    recorded: list[int]
    sets: list[tuple[bytes, int, int]]
    """What the keys of each exact set begin with, what its record counts, and how many ids there are."""
    needs: list[tuple[bytes, int, int, int]]
    """Each need, how many are counted, and how many are suspect and queued."""
    suspects: int
    delayed: int
    leased: int
    failed: int
    records: int
    permits: int
    ended: int
    """Items of the filter of what is done or redirected; 0: generations have it, -1: the seen set."""
    queued: int
    returned: int
    pages: int
    permitted: int
    parked: int
    paused_hosts: int
    given_up_hosts: int

    @property
    def seen(self) -> int:
        """Ids in the seen set, which is the first."""
        return self.sets[0][2]

    @property
    def number(self) -> int:
        """All requests."""
        told = dict(zip(_COUNTS, self.recorded, strict=True))
        return self.seen if self.ended < 0 else self.seen + told["done"] + told["redirected"]

    def faults(self, *, is_shard: bool) -> list[list[Any]]:
        """Faults in the form in which scripts tell them."""
        told = dict(zip(_COUNTS, self.recorded, strict=True))
        counted = {
            "queued": self.queued + self.suspects,
            "delayed": self.delayed,
            "leased": self.leased,
            "failed": self.failed,
            "excluded": self.records - self.returned - self.delayed - self.suspects - self.failed,
        }
        found = [_count_fault(name, number, told[name]) for name, number in counted.items() if number != told[name]]
        found += self._of_ended(told, self.seen - sum(counted.values()))
        mend: list[Any] | None
        found += self._of_needs(told["needy"])
        for name, recorded, number in self.sets:
            if recorded != number:
                mend = [b"mend_job", b"ids", name, number]
                shown = name.decode(errors="backslashreplace")
                found.append(fault("set_count", shown, "ids by its record", number, recorded, mend))
        if self.parked != told["parked"]:
            mend = [b"mend_job", b"set", b"parked", self.parked]
            found.append(fault("parked_count", "job", "parked", self.parked, told["parked"], mend))
        for count, number in (("paused_hosts", self.paused_hosts), ("given_up_hosts", self.given_up_hosts)):
            if number != told[count]:
                mend = [b"mend_job", b"set", count.encode(), number]
                found.append(fault("halted_count", "job", count, number, told[count], mend))
        if self.permitted != self.permits and not is_shard:
            mend = [b"mend_job", b"permits", b"0"] if self.permitted > self.permits else None
            found.append(fault("permit", "permits", "permitted hosts in the list", self.permitted, self.permits, mend))
        return found

    def _of_ended(self, told: dict[str, int], left: int) -> list[list[Any]]:
        """Nothing is kept of what is done or redirected but that it was seen, and how many pages each host has had.

        ``left``: ids in the seen set that stand in no place.
        """
        found: list[list[Any]] = []
        expected = told["done"] + told["redirected"]
        if self.ended >= 0:
            # A filter takes some for known, and generations go: there may be fewer.
            ended = self.ended + sum(number for name, _, number in self.sets if b":generation:" in name)
            if ended > expected:
                what = "ids of what is done or redirected"
                found.append(fault("remembered", "job", what, f"{expected} at most", ended))
            left += expected
        if left == expected:
            if self.pages != told["done"]:
                found.append(fault("pages_count", "hosts", "pages done", told["done"], self.pages))
        elif left == self.pages + told["redirected"] and self.ended < 0:
            found.append(_count_fault("done", self.pages, told["done"]))
        else:
            found.append(fault("ended_count", "job", "seen, and in no place: done or redirected", expected, left))
        return found

    def _of_needs(self, needy: int) -> list[list[Any]]:
        found = []
        for need, recorded, suspects, queued in self.needs:
            if need and recorded != queued + suspects:
                mend = [b"mend_job", b"need", need, queued + suspects]
                place = f"need {need.decode(errors='backslashreplace')}"
                found.append(fault("need_count", place, "requests that are queued", queued + suspects, recorded, mend))
        expected = sum(queued + suspects for need, _, suspects, queued in self.needs if need)
        if expected != needy:
            mend = [b"mend_job", b"set", b"needy", expected]
            found.append(fault("need_count", "job", "needy", expected, needy, mend))
        return found


def _count_fault(name: str, expected: int, found: int) -> list[Any]:
    return fault("count", "job", name, expected, found, [b"mend_job", b"set", name.encode(), expected])


def fault(code: str, place: str, what: str, expected: object, found: int, mend: list[Any] | None = None) -> list[Any]:
    """A fault in the form in which scripts tell it."""
    return [*(text.encode() for text in (code, place, what, str(expected), str(found))), mend]
