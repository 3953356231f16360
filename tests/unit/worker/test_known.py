"""What a worker knows: bounded, and never a URL that it was not told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.worker.known import KnownUrls
from skitter.worker.shared_urls import SharedUrls, new_table


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


class TestShared:
    """Two workers of a node, each with its own map of one table."""

    @pytest.fixture
    def table(self) -> Iterator[int]:
        descriptor = new_table(1000)
        yield descriptor
        os.close(descriptor)

    @staticmethod
    def worker(table: int, secret: bytes = b"secret", run: int = 1) -> KnownUrls:
        return KnownUrls(100, SharedUrls(table, secret, run))

    def test_what_one_learnt_the_other_knows(self, table: int) -> None:
        one, other = self.worker(table), self.worker(table)
        one.learn(["a", "b"])
        assert other.unknown(["a", "x", "b"]) == ["x"]

    def test_what_was_found_there_is_known_from_then_on(self, table: int) -> None:
        one, other = self.worker(table), self.worker(table)
        one.learn(["a"])
        assert "a" in other
        one.learn([f"url {number}" for number in range(20_000)])
        assert "a" in other

    @pytest.mark.parametrize(("secret", "run"), [(b"another", 1), (b"secret", 2)])
    def test_another_job_or_run_has_not_learnt_it(self, table: int, secret: bytes, run: int) -> None:
        self.worker(table).learn(["a"])
        assert "a" not in self.worker(table, secret, run)

    def test_another_life_of_the_store_begins_with_nothing(self, table: int) -> None:
        one, other = self.worker(table), self.worker(table)
        one.learn(["a"])
        other.forget("second life")
        assert "a" not in other
        one.forget("second life")
        one.learn(["a"])
        assert "a" in other

    def test_a_full_table_forgets_and_invents_nothing(self, table: int) -> None:
        one, other = self.worker(table), self.worker(table)
        one.learn([f"url {number}" for number in range(5_000)])
        known = [url for number in range(10_000) if (url := f"url {number}") in other]
        assert len(known) > 500
        assert all(int(url.split()[1]) < 5_000 for url in known)

    def test_it_is_shared_by_processes(self, table: int) -> None:
        program = (
            "from skitter.worker.shared_urls import SharedUrls\n"
            f"SharedUrls({table}, b'secret', 1).learn(['from elsewhere'])\n"
        )
        subprocess.run([sys.executable, "-c", program], pass_fds=[table], check=True)
        assert "from elsewhere" in self.worker(table)
