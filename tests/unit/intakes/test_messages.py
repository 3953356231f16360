"""Messages as requests, and sources by their URLs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skitter.errors import RequestError, UrlError, UsageError
from skitter.intakes.contract import Message
from skitter.intakes.messages import MAX_BODY_BYTES, reason_of, to_entry, to_request
from skitter.intakes.sources import intake_of, parse_source, shown
from skitter.model.request import Fingerprinter, decode

FINGERPRINTER = Fingerprinter(b"secret")


def message(fields: dict[str, Any], **more: Any) -> Message:
    return Message(json.dumps(fields).encode(), **more)


def test_a_message_is_a_url() -> None:
    assert to_request(Message(b"  https://Example.com/a b#top \r\n")).url == "https://example.com/a%20b"
    assert to_request(Message(b"\xef\xbb\xbfhttps://example.com/")).url == "https://example.com/"


def test_a_message_has_the_fields_of_a_request() -> None:
    fields = {
        "url": "https://example.com/",
        "priority": 5,
        "method": "post",
        "headers": {"Accept": "text/html"},
        "body": "a=1",
        "meta": {"n": [1, {"deep": True}]},
        "callback": "parse_item",
        "cb_kwargs": {"page": 2},
        "dont_filter": True,
    }
    request = to_request(message(fields))
    assert (request.method, request.body, request.callback) == ("POST", b"a=1", "parse_item")
    assert (request.headers, request.meta, request.cb_kwargs) == (fields["headers"], fields["meta"], {"page": 2})
    assert (request.priority, request.dont_filter) == (5, True)


def test_a_message_may_have_options_and_in_one_of_scrapy_redis_they_are_form_fields() -> None:
    fields = {"url": "https://example.com/", "json": {"page": 1}, "timeout": 5, "handle_statuses": [404]}
    request = to_request(message(fields))
    assert (request.method, request.body, request.timeout) == ("POST", b'{"page":1}', 5.0)
    assert request.handle_statuses == (404,)
    posted = to_request(message({"url": "https://example.com/", "method": "POST", "timeout": 5}, form=True))
    assert (posted.body, posted.timeout) == (b"timeout=5", None)
    with pytest.raises(RequestError, match="files must be"):
        to_request(message({"url": "https://example.com/", "files": {"f": "/etc/passwd"}}))


def test_the_priority_of_a_message_is_that_of_its_request_unless_the_body_names_one() -> None:
    assert to_request(Message(b"https://example.com/", priority=3)).priority == 3
    assert to_request(message({"url": "https://example.com/", "priority": 0}, priority=3)).priority == 0


def test_a_message_permits_its_host_and_trusts_nobody() -> None:
    entry = to_entry(Message(b"http://127.0.0.1/"), "queue", FINGERPRINTER)
    assert (entry.permits, entry.trusts, entry.repeats) == (True, False, False)
    assert decode(entry.payload).seed


def test_the_same_url_is_the_same_request_whichever_source_it_comes_from() -> None:
    url = Message(b"https://example.com/", id="1")
    assert to_entry(url, "one", FINGERPRINTER).id == to_entry(Message(url.body, id="2"), "two", FINGERPRINTER).id
    unfiltered = {"url": "https://example.com/", "dont_filter": True}
    ids = {
        to_entry(message(unfiltered, id=name), source, FINGERPRINTER).id
        for name, source in [("1", "one"), ("1", "one"), ("2", "one"), ("1", "two")]
    }
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no url"),
        (b"example.com", "not an absolute URL"),
        (b"mailto:me@example.com", "scheme"),
        (b"[1, 2]", "not an absolute URL"),
        (b'{"url": "https://example.com/"', "not a JSON object"),
        (b'{"url": 5}', "url must be text"),
        (b'{"url": null}', "no url"),
        (b'{"priority": 5}', "no url"),
        (b'{"url": "https://example.com/", "priority": "high"}', "priority"),
        (b'{"url": "https://example.com/", "priority": 99999999999999999999}', "cannot be stored"),
        (b'{"url": "https://example.com/", "headers": [1]}', "headers"),
        (b'{"url": "https://example.com/", "meta": "x"}', "meta"),
        (b'{"url": "https://example.com/", "callback": 7}', "callback"),
        (b'{"url": "https://example.com/", "dont_filter": "yes"}', "dont_filter"),
        (b'{"url": "https://example.com/", "seed": true}', "unknown field: seed"),
        (b'{"url": "https://example.com/", "depth": 1}', "unknown field: depth"),
        (b'{"url": "https://example.com/", "meta": {"n": 99999999999999999999999}}', "cannot be stored"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * (MAX_BODY_BYTES + 1), "longer than"),
        (b'{"url": ' + b"[" * 100_000, "not a JSON object"),
    ],
)
def test_what_cannot_be_a_request_says_why(body: bytes, reason: str) -> None:
    with pytest.raises((RequestError, UrlError)) as caught:
        to_entry(Message(body), "queue", FINGERPRINTER)
    assert reason in reason_of(caught.value)
    assert len(reason_of(caught.value)) <= 500


def test_a_source_is_known_by_its_place_and_not_by_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_source("file:urls.txt").name == parse_source(f"file:{tmp_path}/urls.txt?follow=yes").name
    assert parse_source("redis://h/1?type=list#k").name == "redis://h/1#k"
    assert parse_source("unix:///run/redis.sock?db=2#k").name == "unix:///run/redis.sock?db=2#k"
    assert shown("redis://user:secret@h#k") == "redis://user@h#k"
    assert "secret" not in shown("redis://user:secr/et@h#k")


@pytest.mark.parametrize("text", ["urls.txt", "file://host/urls.txt", "gopher://h#q", "redis://h", ""])
def test_what_is_no_source_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        intake_of(parse_source(text))
    assert caught.value.hint
