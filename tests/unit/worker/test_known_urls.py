"""What a worker knows: bounded, and never a URL that it was not told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.worker.known_urls import KnownUrls
from skitter.worker.url_table import UrlTable, new_table

SECRET = b"secret"


def alone(texts: int, urls: int = 1000) -> KnownUrls:
    return KnownUrls(UrlTable.alone(urls, SECRET, 1), texts=texts)


def test_it_knows_what_it_learnt() -> None:
    known = alone(10)
    known.learn(["a", "b"])
    assert "a" in known
    assert "c" not in known


def test_what_is_forgotten_as_text_is_known_by_its_hash() -> None:
    known = alone(10)
    pages = [f"page {number}" for number in range(500)]
    for page in pages:
        known.learn([page])
    assert known.unknown([*pages, "page 500"]) == ["page 500"]


def test_what_neither_layer_has_room_for_is_forgotten() -> None:
    known = alone(10, urls=1)
    pages = [f"page {number}" for number in range(100)]
    for page in pages:
        known.learn([page])
        assert page in known
    # Ten texts at most, and eight hashes: which of them is a matter of chance.
    assert len(known.unknown(pages)) >= 82


def test_what_comes_often_is_a_text_again() -> None:
    known = alone(10)
    known.learn(["home", *(f"page {number}" for number in range(100))])
    assert "home" not in known._young | known._old
    assert all("home" in known for _ in range(20))
    assert "home" in known._young


@given(st.integers(1, 20), st.integers(1, 30), st.lists(st.integers(0, 50).map(str)))
def test_it_is_bounded_and_invents_nothing(texts: int, size: int, urls: list[str]) -> None:
    known = alone(texts, size)
    told: set[str] = set()
    for url in urls:
        assert (url not in known) or url in told
        known.learn([url])
        told.add(url)
        assert url in known
        assert len(known._young) + len(known._old) <= texts + 1


def test_unknown_leaves_the_known_ones_out_in_order() -> None:
    known = alone(2)
    known.learn(["a", "b", "c"])
    assert known.unknown(["x", "a", "y", "c", "b", "x"]) == ["x", "y", "x"]


def test_another_life_of_the_store_begins_with_nothing() -> None:
    known = alone(3)
    pages = [f"page {number}" for number in range(20)]
    known.learn(pages)
    known.forget("second life")
    assert known.unknown(pages) == pages
    known.learn(pages[:10])
    assert known.unknown(pages) == pages[10:]


class TestTable:
    """The hashes alone."""

    def test_a_table_that_is_full_has_forgotten_less_than_one_in_a_hundred(self) -> None:
        table = UrlTable.alone(2**15, SECRET, 1)
        urls = [f"url {number}" for number in range(2**15)]
        table.learn(urls)
        assert sum(url in table for url in urls) > 0.99 * len(urls)

    def test_what_is_no_text_for_the_wire_is_asked_for_like_any_other(self) -> None:
        table = UrlTable.alone(100, SECRET, 1)
        assert "http://a.example/\udc80" not in table
        table.learn(["http://a.example/\udc80"])
        assert "http://a.example/\udc80" in table
        assert "http://a.example/\udc81" not in table

    def test_what_is_learnt_twice_takes_one_place(self) -> None:
        table = UrlTable.alone(1, SECRET, 1)
        urls = [f"url {number}" for number in range(8)]
        for _ in range(5):
            table.learn(urls)
        assert all(url in table for url in urls)

    def test_a_full_bucket_takes_a_newer_one(self) -> None:
        table = UrlTable.alone(1, SECRET, 1)
        for number in range(200):
            table.learn([f"url {number}"])
            assert f"url {number}" in table
        assert sum(f"url {number}" in table for number in range(200)) == 8


class TestShared:
    """Two workers of a node, each with its own map of one table."""

    @pytest.fixture
    def table(self) -> Iterator[int]:
        descriptor = new_table(1000)
        yield descriptor
        os.close(descriptor)

    @staticmethod
    def worker(table: int, secret: bytes = SECRET, run: int = 1) -> KnownUrls:
        return KnownUrls(UrlTable(table, secret, run), shared=True, texts=100)

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

    @pytest.mark.parametrize(("secret", "run"), [(b"another", 1), (SECRET, 2)])
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
            "from skitter.worker.url_table import UrlTable\n"
            f"UrlTable({table}, b'secret', 1).learn(['from elsewhere'])\n"
        )
        subprocess.run([sys.executable, "-c", program], pass_fds=[table], check=True)
        assert "from elsewhere" in self.worker(table)
