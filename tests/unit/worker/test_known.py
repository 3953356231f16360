"""What a worker knows: bounded, and never a URL that it was not told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skitter.worker.known import KnownUrls


def test_it_knows_what_it_learnt() -> None:
    known = KnownUrls(10)
    known.learn(["a", "b"])
    assert "a" in known
    assert "c" not in known


def test_what_is_asked_for_is_kept_while_others_are_forgotten() -> None:
    known = KnownUrls(10)
    known.learn(["home"])
    for number in range(100):
        known.learn([f"page {number}"])
        assert "home" in known
    assert "page 0" not in known
    assert "page 99" in known


@given(st.integers(1, 20), st.lists(st.integers(0, 50).map(str)))
def test_it_is_bounded_and_invents_nothing(size: int, urls: list[str]) -> None:
    known = KnownUrls(size)
    told: set[str] = set()
    for url in urls:
        assert (url not in known) or url in told
        known.learn([url])
        told.add(url)
        assert url in known
        assert len(known._young) + len(known._old) <= max(2, size)


def test_unknown_leaves_the_known_ones_out_in_order() -> None:
    known = KnownUrls(4)
    known.learn(["a", "b", "c"])
    assert known.unknown(["x", "a", "y", "c", "b", "x"]) == ["x", "y", "x"]
