"""Slim payloads: shorter, and exactly what they were made of."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from skitter.frontier.redis.payload_prefix import STRIPPED, restore_prefix, strip_prefix
from skitter.model.request import Request, encode

HOST = b"http://a.example"
urls = st.text("ab/é\x00Á", max_size=300).map(lambda path: f"http://a.example/{path}")
others = st.sampled_from(["http://b.example/", "http://a.example", "http://a.example.org/x", "http://u:p@a.example/"])
requests = st.builds(
    Request,
    url=urls | others,
    referrer=st.none() | urls | others,
    depth=st.integers(0, 300),
    body=st.binary(max_size=5) | st.just(b"\xc1\x00"),
    meta=st.dictionaries(
        st.sampled_from(["referrer", "url", "x"]), st.binary(max_size=3) | st.just("http://a.example/")
    ),
)


@given(requests)
def test_every_request_comes_back_as_it_was(request: Request) -> None:
    payload = encode(request)
    assert restore_prefix(strip_prefix(payload, HOST), HOST) == payload


@given(st.binary(max_size=60).filter(lambda data: data[:1] != STRIPPED))
def test_what_is_no_request_is_stored_as_it_is(data: bytes) -> None:
    assert restore_prefix(strip_prefix(data, HOST), HOST) == data


@pytest.mark.parametrize("length", [1, 14, 15, 16, 238, 239, 240, 255, 256, 300])
def test_lengths_at_the_borders_of_msgpack(length: int) -> None:
    url = "http://a.example/" + "x" * length
    payload = encode(Request(url, referrer=url))
    assert restore_prefix(strip_prefix(payload, HOST), HOST) == payload


def test_host_and_names_are_left_out() -> None:
    payload = encode(Request("http://a.example/page", depth=2, referrer="http://a.example/"))
    assert b"a.example" not in strip_prefix(payload, HOST)
    assert b"referrer" not in strip_prefix(payload, HOST)
    assert len(strip_prefix(payload, HOST)) < len(payload) - 2 * len(HOST)
