"""Requests: their identity and their stored form."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import FormatError, RequestError
from skitter.model.request import EXPECTED, Fingerprinter, Priority, Request, decode, encode

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
    need=st.sampled_from(["", "browser"]),
    depth=st.integers(0, 2**31),
    referrer=st.none() | st.just("http://r.example/"),
    chain=st.lists(st.just("http://c.example/"), max_size=3).map(tuple),
    seed=st.booleans(),
)


@pytest.fixture
def fingerprinter() -> Fingerprinter:
    return Fingerprinter(b"secret")


class TestIdentity:
    def test_a_need_is_no_part_of_it_and_known_to_the_frontier(self, fingerprinter: Fingerprinter) -> None:
        plain, needy = (fingerprinter.entry(Request(URL, need=need)) for need in ("", "browser"))
        assert plain.id == needy.id
        assert (plain.need, needy.need) == ("", "browser")

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

    def test_a_named_priority_is_the_number_it_stands_for(self, fingerprinter: Fingerprinter) -> None:
        named, plain = Request(URL, priority=Priority.HIGH), Request(URL, priority=100)
        assert fingerprinter.entry(named) == fingerprinter.entry(plain)
        assert type(named.priority) is int
        assert Priority.LOW < Priority.NORMAL == Request(URL).priority < Priority.HIGH < Priority.CRITICAL

    def test_a_named_priority_that_was_assigned_later_is_that_number_too(self, fingerprinter: Fingerprinter) -> None:
        request = Request(URL)
        request.priority = Priority.CRITICAL
        entry = fingerprinter.entry(request)
        assert entry == fingerprinter.entry(Request(URL, priority=1000))
        # Stores write it as text or number, as they like.
        assert f"{entry.priority} {entry.priority!s}" == "1000 1000"


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
        assert len(encode(Request(URL))) == len(URL) + 7, "version, map, the name of a field and the length of a text"

    @pytest.mark.parametrize(
        "fields",
        [
            {"meta": {"f": object()}},
            {"meta": {"f": print}},
            {"cb_kwargs": {"n": 2**70}},
            {"cb_kwargs": {1: "x"}},
            {"priority": 2**63},
        ],
    )
    def test_what_cannot_be_stored_is_an_error_of_who_made_it(self, fields: dict[str, Any]) -> None:
        with pytest.raises(RequestError, match=r"a\.example"):
            encode(Request(URL, **fields))

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("headers", {"a": 1}),
            ("body", 7),
            ("meta", [1]),
            ("priority", "high"),
            ("dont_filter", 1),
            ("method", None),
            ("need", "a b"),
            ("need", None),
        ],
    )
    def test_a_wrong_value_that_was_assigned_later_is_named_in_plain_words(self, field: str, value: Any) -> None:
        request = Request(URL)
        setattr(request, field, value)
        with pytest.raises(RequestError, match=f"a request's {field} must be {EXPECTED[field]}, not ") as caught:
            encode(request)
        assert "`" not in f"{caught.value} {caught.value.hint}", "no names of types"

    @pytest.mark.parametrize("payload", [b"", b"\x02\x80", b"\x80\x04}q\x00."])
    def test_an_unknown_version_is_refused(self, payload: bytes) -> None:
        with pytest.raises(FormatError, match="unknown version"):
            decode(payload)

    @pytest.mark.parametrize("need", ["browser", "session.7", "A-b_c", "x" * 64])
    def test_a_need_is_a_short_plain_name(self, need: str) -> None:
        assert decode(encode(Request(URL, need=need))).need == need

    @pytest.mark.parametrize("need", [None, 7, b"browser", "a b", "a:b", "a@b", "a\n", "\u0130", "x" * 65, ["browser"]])
    def test_what_is_no_name_of_a_need_is_an_error_of_who_made_it(self, need: Any) -> None:
        with pytest.raises(RequestError, match=r"a request's need must be a name of at most 64 letters"):
            Request(URL, need=need)

    def test_a_copy_changes_only_what_it_names(self) -> None:
        request = Request(URL, meta={"a": 1}, priority=2)
        copy = request.replace(priority=3)
        assert (copy.url, copy.meta, copy.priority, request.priority) == (URL, {"a": 1}, 3, 2)


class Other:
    def parse(self, response: Any) -> None: ...

    @staticmethod
    def static(response: Any) -> None: ...


class TestWhereItIsWritten:
    """A wrong value is an error of the line that makes the request, and not of a worker one day."""

    @pytest.mark.parametrize(
        ("fields", "said", "hint"),
        [
            ({"url": None}, "url must be text, not NoneType", "urljoin"),
            ({"url": b"http://a.example/"}, "url must be text, not bytes", "urljoin"),
            ({"method": 7}, "method must be text", "POST"),
            (
                {"callback": lambda response: None},
                "callback must be a method of the spider or its name, not a lambda",
                "",
            ),
            ({"errback": lambda failure: None}, "errback must be a method of the spider or its name, not a lambda", ""),
            ({"callback": 7}, "not int", "cb_kwargs"),
            ({"callback": len}, "not builtin_function_or_method", "cb_kwargs"),
            ({"callback": partial(print, 1)}, "not partial", "cb_kwargs"),
            ({"headers": "Accept: x"}, "headers must be a dict or a list of pairs, of text to text, not str", "Accept"),
            ({"headers": ["Accept: x"]}, "not a list of other values", "Accept"),
            ({"headers": {"X": 1}}, "not int .'X'.", "Accept"),
            ({"headers": [("X", "1"), ("X", "2")]}, "not the same name twice", "Accept"),
            ({"body": {"q": 1}}, "body must be bytes or text, not dict", "json="),
            ({"body": [1]}, "body must be bytes or text, not list", "json="),
            ({"cookies": [{"name": "a", "value": "b"}]}, "cookies must be a dict of text to text, not list", "session"),
            ({"cookies": {"a": None}}, "not NoneType .'a'.", "session"),
            ({"meta": [("a", 1)]}, "meta must be a dict with names as keys, not list", "dict"),
            ({"cb_kwargs": "x"}, "cb_kwargs must be a dict with names as keys, not str", "dict"),
            ({"priority": "high"}, "priority must be a whole number of 64 bits, not str", "whole number"),
            ({"priority": 1.5}, "priority must be a whole number of 64 bits, not float", "whole number"),
            ({"dont_filter": "no"}, "dont_filter must be True or False, not str", "True or False"),
        ],
    )
    def test_a_wrong_value_fails_with_a_sentence(self, fields: dict[str, Any], said: str, hint: str) -> None:
        with pytest.raises(RequestError, match=said) as caught:
            Request(**({"url": URL} | fields))
        assert isinstance(caught.value, TypeError)
        assert hint in caught.value.hint
        assert caught.value.hint
        assert "url" in fields or URL in str(caught.value)

    def test_a_function_inside_a_function_is_no_callback(self) -> None:
        def parse_book(response: Any) -> None: ...

        with pytest.raises(RequestError, match=r"not a function inside a function \(parse_book\)"):
            Request(URL, parse_book)

    def test_methods_static_methods_and_names_are_callbacks(self) -> None:
        for callback in (Other().parse, Other.static, Other().static, "parse_book", None):
            assert Request(URL, callback, callback).callback == callback

    def test_a_copy_is_checked_too(self) -> None:
        with pytest.raises(RequestError, match="body must be"):
            Request(URL).replace(body={})

    def test_no_value_of_a_header_or_cookie_and_no_password_is_repeated(self) -> None:
        for fields in ({"headers": {"Authorization": b"hunter2"}}, {"cookies": {"session": b"hunter2"}}):
            with pytest.raises(RequestError) as caught:
                Request("http://ann:hunter2@a.example/", **fields)
            assert "hunter2" not in f"{caught.value} {caught.value.hint}"

    def test_what_scrapy_takes_is_taken(self) -> None:
        pairs: Any = [("Accept", "x"), ["Accept-Language", "en"]]
        assert Request(URL, headers=pairs).headers == {"Accept": "x", "Accept-Language": "en"}
        text: Any = '{"q": "ü"}'
        assert Request(URL, body=text).body == text.encode()
        nothing: Any = None
        empty = Request(URL, headers=nothing, body=nothing, cookies=nothing, meta=nothing, cb_kwargs=nothing)
        assert empty == Request(URL)
