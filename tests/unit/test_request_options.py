"""Options of requests: forms, JSON and files as bodies, and what is stored of the others."""

from __future__ import annotations

from email import message_from_bytes
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import FormatError, RequestError
from skitter.model.request import Fingerprinter, Request, decode, encode

URL = "http://a.example/search"
FINGERPRINTER = Fingerprinter(b"secret")
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def identity(request: Request) -> int:
    return FINGERPRINTER.request_id(request)


class TestForms:
    @given(pairs=st.lists(st.tuples(text, text)))
    def test_fields_arrive_in_their_order_and_repeated_names_stay(self, pairs: list[tuple[str, str]]) -> None:
        posted = Request(URL, form=pairs)
        assert parse_qsl(posted.body.decode(), keep_blank_values=True) == pairs
        assert (posted.method, posted.headers) == ("POST", {"Content-Type": "application/x-www-form-urlencoded"})
        asked = Request(f"{URL}?lang=en", method="GET", form=pairs)
        assert parse_qsl(urlsplit(asked.url).query, keep_blank_values=True) == [("lang", "en"), *pairs]
        assert (asked.method, asked.body, asked.headers) == ("GET", b"", {})

    def test_values_are_text_bytes_and_numbers_and_lists_of_them(self) -> None:
        form = {"q": "\u00e4 b", "raw": b"\xe4", "page": 2, "tag": ["new", "used"], "none": []}
        assert Request(URL, form=form).body == b"q=%C3%A4+b&raw=%E4&page=2&tag=new&tag=used"

    def test_a_method_and_headers_that_are_given_win(self) -> None:
        request = Request(URL, method="PUT", form={"a": 1}, headers={"content-type": "x/y"})
        assert (request.method, request.headers) == ("PUT", {"content-type": "x/y"})
        assert Request(f"{URL}?a=1#top", method="get", form={"b": 2}).url == f"{URL}?a=1&b=2#top"

    def test_nothing_of_it_is_kept_but_what_is_sent(self) -> None:
        request = Request(URL, form={"a": 1})
        assert (request.form, request.json, request.files) == (None, None, None)
        stored = decode(encode(request))
        assert stored == request
        assert request.replace(url=f"{URL}2").body == b"a=1"
        assert identity(request) == identity(Request(URL, form=[("a", "1")])) != identity(Request(URL, form={"a": 2}))

    def test_a_copy_with_another_content_has_that_one(self) -> None:
        request = Request(URL, form={"a": 1}, headers={"X": "1"}).replace(json=[1])
        assert (request.method, request.body) == ("POST", b"[1]")
        assert request.headers == {"X": "1", "Content-Type": "application/json"}


def test_json_keeps_the_order_of_its_keys() -> None:
    request = Request(URL, json={"b": [1, None, "\u00e4"], "a": {}})
    assert request.body == '{"b":[1,null,"\u00e4"],"a":{}}'.encode()
    assert (request.method, request.headers) == ("POST", {"Content-Type": "application/json"})
    assert Request(URL, json=0).body == b"0"


class TestFiles:
    def test_fields_and_files_are_parts_in_their_order(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_bytes(b"from the disk")
        files = {"a": b"\x00\r\n--", "b": ('\u00fc"1\n.png', b"PNG", "image/png"), "c": [path, ("d.txt", path)]}
        request = Request(URL, form={"q": "x"}, files=files)
        head = f"Content-Type: {request.headers['Content-Type']}\r\n\r\n".encode()
        parts: Any = message_from_bytes(head + request.body).get_payload()
        assert [part.get_payload(decode=True) for part in parts] == [
            *(b"x", b"\x00\r\n--", b"PNG", b"from the disk", b"from the disk")
        ]
        assert [part.get_content_type() for part in parts[1:3]] == ["application/octet-stream", "image/png"]
        assert 'name="b"; filename="\u00fc%221%0A.png"'.encode() in request.body
        assert b'name="c"; filename="notes.txt"' in request.body
        assert b'name="c"; filename="d.txt"' in request.body
        assert request.method == "POST"

    def test_the_same_files_are_the_same_request(self) -> None:
        first, again = (Request(URL, files={"f": ("a.txt", b"abc")}) for _ in range(2))
        assert (first.body, identity(first)) == (again.body, identity(again))
        other = Request(URL, files={"f": ("a.txt", b"abd")})
        assert first.headers != other.headers
        assert identity(first) != identity(other)

    def test_a_boundary_is_in_no_content(self) -> None:
        first = Request(URL, files={"f": b"abc"})
        boundary = first.headers["Content-Type"].partition("boundary=")[2].encode()
        assert Request(URL, files={"f": boundary}).body.count(boundary) == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"timeout": "5"}, "timeout must be a number of seconds above 0, at most 86400, not str"),
        ({"timeout": -1}, "timeout must be .*, not -1"),
        ({"timeout": float("nan")}, "timeout must be .*, not nan"),
        ({"max_attempts": 0}, "max_attempts must be a whole number from 1 to 1000, not 0"),
        ({"max_attempts": True}, "max_attempts must be .*, not bool"),
        ({"handle_statuses": 404}, "handle_statuses must be a list of statuses .*, not int .404."),
        ({"handle_statuses": ["404"]}, "handle_statuses must be .*, not a list with '404'"),
        ({"form": "q=1"}, "form must be a dict or a list of pairs, .* not str"),
        ({"form": ["q"]}, "form must be .*, not a list of other values"),
        ({"form": {"q": None}}, "form must be .*, not NoneType .b'q'."),
        ({"form": {"q": True}}, "form must be .*, not bool"),
        ({"form": {1: "a"}}, "form must be .*, not int as the name of a field"),
        ({"form": {"q": "\ud800"}}, "form must be .*, not text with half a surrogate pair"),
        ({"json": {1, 2}}, "json must be a value that JSON can represent, not set"),
        ({"json": [float("nan")]}, "json must be a value that JSON can represent, not list"),
        ({"files": {"f": "cat.png"}}, "files must be .*, not str .b'f'."),
        ({"files": {"f": ("a", b"b", "c", "d")}}, "files must be .*, not a tuple of 4"),
        ({"files": {"f": (1, b"b")}}, "files must be .*, not a tuple whose file name"),
        ({"files": {"f": ("a", b"b", "x\r\ny")}}, "files must be .*, not a content type that cannot be sent"),
        ({"files": {"f": Path("/nowhere/x")}}, "files must be .*, not a path that is not a file"),
        ({"files": {"f": bytes(17 << 20)}}, "content has more than 16777216 bytes"),
        ({"body": b"x", "json": 1}, "a request can have only one kind of content, not body and json"),
        ({"form": {}, "json": 1}, "a request can have only one kind of content, not json and form"),
    ],
)
def test_a_wrong_option_fails_at_once_with_a_sentence_and_a_hint(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        Request(URL, **fields)
    assert caught.value.hint
    assert URL in str(caught.value)


class TestStoredOptions:
    def test_options_come_back(self) -> None:
        request = Request(URL, timeout=5, max_attempts=2, handle_statuses=[500, 404, 500])
        stored = decode(encode(request))
        assert (stored.timeout, stored.max_attempts, stored.handle_statuses) == (5.0, 2, (404, 500))
        assert decode(encode(Request(URL, handle_statuses="all"))).handle_statuses == "all"
        assert request.replace(url=URL) == request

    def test_an_older_skitter_refuses_options_that_it_would_leave_out(self) -> None:
        plain, optional = encode(Request(URL)), encode(Request(URL, timeout=5))
        assert (plain[0], optional[0]) == (1, 3)
        with pytest.raises(FormatError, match="unknown version: 05"):
            decode(b"\x05" + plain[1:])

    def test_a_wrong_option_in_the_store_is_not_read(self) -> None:
        for fields in ({"timeout": -1.0}, {"max_attempts": 0}, {"handle_statuses": [7]}, {"handle_statuses": "some"}):
            with pytest.raises(msgspec.ValidationError):
                decode(b"\x03" + msgspec.msgpack.encode({"url": URL, **fields}))

    def test_an_option_of_a_wrong_type_is_a_fault_of_who_yields_it(self) -> None:
        request = Request(URL)
        nothing: Any = None
        request.handle_statuses = nothing
        with pytest.raises(RequestError, match="handle_statuses must be"):
            encode(request)
