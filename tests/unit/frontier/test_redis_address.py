"""Addresses of a Redis."""

from __future__ import annotations

import pytest

from skitter.errors import UsageError
from skitter.frontier.redis.address import Address, parse_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://host", Address(places=(("host", 6379),))),
        ("redis://host:7000/3", Address(places=(("host", 7000),), db=3)),
        ("redis://:p%40ss@host", Address(places=(("host", 6379),), password="p@ss")),
        ("redis://u:p@[::1]:7000/", Address(places=(("::1", 7000),), username="u", password="p")),
        ("rediss://host", Address(places=(("host", 6379),), tls=True)),
        ("rediss://host?ca=ca.pem", Address(places=(("host", 6379),), tls=True, ca="ca.pem")),
        ("unix:///run/redis.sock", Address(path="/run/redis.sock")),
        ("unix://u:p@/run/redis.sock?db=2", Address(path="/run/redis.sock", db=2, username="u", password="p")),
        ("redis+cluster://a:1,b", Address(places=(("a", 1), ("b", 6379)), cluster=True)),
        ("redis+sentinel://:p@a,b:2/main", Address(places=(("a", 26379), ("b", 2)), master="main", password="p")),
        ("redis+sentinel://a/main/4", Address(places=(("a", 26379),), master="main", db=4)),
    ],
)
def test_an_address_is_read(url: str, address: Address) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://:secret@host/first",
        "redis://:secret@host:port",
        "redis://:secret@host?x=1",
        "redis://:secret@host?ca=x",
        "redis://:secret@host/-1",
        "unix://",
        "unix:///run/secret.sock?db=x",
        "rediss://:secret@/0",
        "redis://:secret@a,b",
        "redis+cluster://:secret@a/1",
        "redis+sentinel://:secret@a",
        "redis+sentinel://:secret@,/main",
    ],
)
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(url)
    assert "secret" not in str(caught.value) + caught.value.hint
    assert caught.value.hint


def test_an_address_is_shown_without_its_password() -> None:
    assert str(parse_address("rediss://user:secret@[::1]/2")) == "rediss://[::1]:6379/2"
    assert str(parse_address("redis+cluster://:secret@a,b")) == "redis+cluster://a:6379,b:6379"
    assert str(parse_address("redis+sentinel://:secret@a/main")) == "redis+sentinel://a:26379/main"
    assert str(parse_address("unix://:secret@/run/x.sock")) == "unix:///run/x.sock"
