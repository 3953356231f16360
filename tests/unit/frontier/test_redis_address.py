"""Addresses of a Redis."""

from __future__ import annotations

from pathlib import Path

import pytest

from skitter.errors import UsageError
from skitter.redis_driver.address import Address, parse_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://host", Address(hosts=(("host", 6379),))),
        ("redis://host:7000/3", Address(hosts=(("host", 7000),), db=3)),
        ("redis://:p%40ss@host", Address(hosts=(("host", 6379),), password="p@ss")),
        ("redis://u:p@[::1]:7000/", Address(hosts=(("::1", 7000),), username="u", password="p")),
        ("rediss://host", Address(hosts=(("host", 6379),), tls=True)),
        ("redis://host?wait_replicas=2", Address(hosts=(("host", 6379),), wait_replicas=2)),
        ("rediss+cluster://a", Address(hosts=(("a", 6379),), cluster=True, tls=True)),
        ("rediss+sentinel://a/m", Address(hosts=(("a", 26379),), master="m", tls=True)),
        (
            "redis+sentinel://:p@a/m?sentinel_username=u&sentinel_password=s",
            Address(hosts=(("a", 26379),), master="m", password="p", sentinel_username="u", sentinel_password="s"),
        ),
        ("unix:///run/redis.sock", Address(path="/run/redis.sock")),
        ("unix://u:p@/run/redis.sock?db=2", Address(path="/run/redis.sock", db=2, username="u", password="p")),
        ("redis+cluster://a:1,b", Address(hosts=(("a", 1), ("b", 6379)), cluster=True)),
        ("redis+sentinel://:p@a,b:2/main", Address(hosts=(("a", 26379), ("b", 2)), master="main", password="p")),
        ("redis+sentinel://a/main/4", Address(hosts=(("a", 26379),), master="main", db=4)),
    ],
)
def test_an_address_is_read(url: str, address: Address) -> None:
    assert parse_address(url) == address


def test_files_of_an_address_are_read_from_where_it_says(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("from a file\n")
    with_tls = parse_address(f"rediss://host?ca={file}&cert={file}&key={file}&password_file={file}")
    assert (with_tls.ca, with_tls.cert, with_tls.key) == (str(file), str(file), str(file))
    assert with_tls.password == "from a file"
    assert parse_address(f"redis+sentinel://a/m?sentinel_password_file={file}").sentinel_password == "from a file"
    for wrong in (f"redis://:secret@host?password_file={file}", f"rediss://host?cert={file}"):
        with pytest.raises(UsageError):
            parse_address(wrong)
    with pytest.raises(UsageError, match="cannot be read"):
        parse_address("redis://host?password_file=/nowhere/at/all")


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://:secret@host?wait_replicas=-1",
        "redis://:secret@host?sentinel_password=secret",
        "redis+other://:secret@host",
        "rediss+other://:secret@host",
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
    assert str(parse_address("rediss+sentinel://a/main?sentinel_password=secret")) == "rediss+sentinel://a:26379/main"
    assert str(parse_address("unix://:secret@/run/x.sock")) == "unix:///run/x.sock"
