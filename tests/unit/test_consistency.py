"""The report of a consistency check: what a repair has mended, and what is left."""

from __future__ import annotations

from skitter.model.consistency import MOST_LISTED, Consistency, Finding, merged, with_mended


def finding(place: str, *, mendable: bool = True) -> Finding:
    return Finding(code="count", place=place, what="queued", expected="1", found="2", mendable=mendable)


def report(*places: str, mendable: bool = True) -> Consistency:
    made = Consistency()
    for place in places:
        made.add(finding(place, mendable=mendable))
    return made


def test_what_is_not_found_again_was_mended() -> None:
    told = with_mended(report("a", "b"), report("b"))
    assert [(one.place, one.mended) for one in told.findings] == [("a", True), ("b", False)]
    assert (told.total, told.mended) == (2, 1)


def test_what_a_repair_brings_to_light_is_left() -> None:
    told = with_mended(report("a"), report("b", mendable=False))
    assert [(one.place, one.mended) for one in told.findings] == [("a", True), ("b", False)]
    assert (told.total, told.mended) == (2, 1)


def test_more_findings_than_are_listed_are_counted() -> None:
    many = report(*map(str, range(MOST_LISTED + 5)))
    assert (len(many.findings), many.total) == (MOST_LISTED, MOST_LISTED + 5)
    told = with_mended(many, report("0"))
    assert told.total - told.mended == 1


def test_reports_of_shards_are_one() -> None:
    one, other = report("a"), report("b", "c")
    one.look_at("hosts", 3)
    other.look_at("hosts", 4)
    other.unchecked.append("counts")
    told = merged([one, other, other])
    assert (told.total, told.checked, told.unchecked) == (5, {"hosts": 11}, ["counts"])
