"""Requests: their identity and their stored form."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import FormatError, ItemError
from skitter.model.request import Fingerprinter, Request, decode, encode

URL = "http://a.example/x"
ids = st.integers(-(2**63), 2**63 - 1)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
requests = st.builds(
    Request,
    url=st.sampled_from([URL, "https://b.example/?q=1"]),
    callback=st.none() | st.just("parse_book"),
    errback=st.none() | st.just("failed"),
    method=st.sampled_from(["GET", "POST"]),
    headers=st.dictionaries(texts, texts, max_size=2),
    body=st.binary(max_size=8),
    cookies=st.dictionaries(texts, texts, max_size=2),
    meta=st.dictionaries(texts, plain, max_size=3),
    cb_kwargs=st.dictionaries(texts, plain, max_size=2),
    priority=ids,
    dont_filter=st.booleans(),
    depth=st.integers(0, 2**31),
    referrer=st.none() | st.just("http://r.example/"),
    chain=st.lists(st.just("http://c.example/"), max_size=3).map(tuple),
    seed=st.booleans(),
)


@pytest.fixture
def fingerprinter() -> Fingerprinter:
    return Fingerprinter(b"secret")


class TestIdentity:
    def test_it_is_that_of_the_canonical_form(self, fingerprinter: Fingerprinter) -> None:
        first = fingerprinter.fingerprint("GET", "http://a.example/~x?b=2&a=1")
        assert first == fingerprinter.fingerprint("GET", "http://a.example/%7Ex?a=1&b=2")
        assert -(2**63) <= first < 2**63

    def test_method_url_body_and_secret_tell_requests_apart(self, fingerprinter: Fingerprinter) -> None:
        other = Fingerprinter(b"another")
        found = {
            fingerprinter.fingerprint("GET", URL),
            fingerprinter.fingerprint("POST", URL),
            fingerprinter.fingerprint("POST", URL, b"x"),
            fingerprinter.fingerprint("POST", URL, b"y"),
            fingerprinter.fingerprint("GET", URL + "y"),
            other.fingerprint("GET", URL),
        }
        assert len(found) == 6

    def test_nothing_else_tells_requests_apart(self, fingerprinter: Fingerprinter) -> None:
        plain = fingerprinter.request_id(Request(URL))
        dressed = Request(URL, callback="parse", headers={"a": "b"}, meta={"k": 1}, priority=5, depth=3, seed=True)
        assert fingerprinter.request_id(dressed, parent=7, place=2) == plain

    def test_the_parts_of_a_request_do_not_run_together(self, fingerprinter: Fingerprinter) -> None:
        assert fingerprinter.fingerprint("POST", URL, b"1:x") != fingerprinter.fingerprint("POST", URL + "1:x")

    @given(ids, st.integers(0, 1000))
    def test_an_unfiltered_request_is_known_by_its_parent_and_place(self, parent: int, place: int) -> None:
        fingerprinter = Fingerprinter(b"secret")
        request = Request(URL, dont_filter=True)
        mine = fingerprinter.request_id(request, parent, place)
        assert mine == fingerprinter.request_id(request, parent, place), "a repeated add is the same request"
        assert mine == fingerprinter.request_id(Request(URL), parent, place, filtered=False)
        others = {
            fingerprinter.request_id(request, parent, place + 1),
            fingerprinter.request_id(request, parent ^ 1, place),
            fingerprinter.request_id(Request(URL + "y", dont_filter=True), parent, place),
            fingerprinter.request_id(Request(URL)),
        }
        assert mine not in others

    def test_an_entry_carries_what_orders_it(self, fingerprinter: Fingerprinter) -> None:
        request = Request("http://user@a.example:81/x", priority=-3, seed=True)
        entry = fingerprinter.entry(request)
        assert (entry.host_key, entry.priority, entry.permits) == ("http://a.example:81", -3, True)
        assert decode(entry.payload) == request


class TestStoredForm:
    @given(requests)
    def test_what_is_stored_is_what_is_read(self, request: Request) -> None:
        assert decode(encode(request)) == request

    def test_other_values_that_people_carry_come_back_as_they_were(self) -> None:
        meta: dict[str, Any] = {
            "when": datetime(2024, 2, 29, 12, tzinfo=UTC),
            "day": date(2024, 2, 29),
            "price": Decimal("9.90"),
            "pair": (1, ("x", b"y")),
            "tags": {"a", "b"},
        }
        assert decode(encode(Request(URL, meta=meta))).meta == meta

    def test_a_plain_request_is_small(self) -> None:
        assert len(encode(Request(URL))) < len(URL) + 10

    @pytest.mark.parametrize(
        "fields",
        [
            {"meta": {"f": object()}},
            {"meta": {"f": print}},
            {"cb_kwargs": {"n": 2**70}},
            {"priority": 2**63},
            {"priority": "high"},
            {"headers": {"a": 1}},
            {"body": "text"},
        ],
    )
    def test_what_cannot_be_stored_is_an_error_of_who_made_it(self, fields: dict[str, Any]) -> None:
        with pytest.raises(ItemError, match=r"a\.example"):
            encode(Request(URL, **fields))

    @pytest.mark.parametrize("payload", [b"", b"\x02\x80", b"\x80\x04}q\x00."])
    def test_an_unknown_version_is_refused(self, payload: bytes) -> None:
        with pytest.raises(FormatError, match="unknown version"):
            decode(payload)

    def test_a_copy_changes_only_what_it_names(self) -> None:
        request = Request(URL, meta={"a": 1}, priority=2)
        copy = request.replace(priority=3)
        assert (copy.url, copy.meta, copy.priority, request.priority) == (URL, {"a": 1}, 3, 2)
