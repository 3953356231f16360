"""Targets: the same name for the same place, and never a secret in it."""

from __future__ import annotations

import pytest

from skitter.errors import UsageError
from skitter.sinks.json_lines import LinesSink
from skitter.sinks.targets import Target, parse_target, shown, sink_of, without_options

SECRETS = [
    "postgresql://ann:hush@db/shop#books",
    "postgresql://ann@db/shop?password=hush#books",
    "postgresql://ann:hu%2Fsh@db:5432/shop#books",
    "postgresql://ann:hush@hush@db/shop#books",
    "redis://:hush@cache:6379/0#books",
    "s3://KEY:hush@bucket/books/",
    "s3://bucket/books?secret_access_key=hush&session_token=hush",
    "mongodb://ann:hush@a:1,b:2/shop#books",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_name_holds_no_secret(text: str) -> None:
    target = parse_target(text)
    assert "hush" not in target.name
    assert "hu" not in target.name
    assert "hush" not in repr(target)
    assert "hush" not in shown(text)
    assert without_options(target.name) == without_options(parse_target(target.name).name), "a name is a target again"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:hu/sh@db/shop",
        "postgresql://ann:hu#sh@db/shop",
        "postgresql://ann:1#hush@db/shop",
        "postgresql://ann:12/hush@db/shop",
        "postgresql://ann:hu?sh@db/shop",
    ],
)
def test_a_password_that_breaks_a_url_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_target(text)
    assert str(refused.value) == "not an output: postgresql://***@db/shop"
    assert "%2F" in refused.value.hint
    assert shown(text) == "postgresql://***@db/shop"


def test_what_opens_the_place_again_is_part_of_its_name() -> None:
    target = parse_target("postgresql://ann:hush@db/shop?schema=x&key=isbn,shop#books", job="j")
    assert target.name == "postgresql://ann@db/shop?key=isbn,shop&schema=x#books"
    again = parse_target(target.name, job="j", password="hush")
    assert (again.name, again.key_fields, again.options) == (target.name, ("isbn", "shop"), {"schema": "x"})
    assert again.password == target.password == "hush"
    assert (target.scheme, target.user, target.hosts, target.path, target.fragment) == (
        "postgresql",
        "ann",
        "db",
        "/shop",
        "books",
    )


def test_a_url_wins_over_its_table() -> None:
    target = parse_target("mysql://db/shop?key=isbn&a=1#books", key_fields=["url"], options={"a": "2", "b": "3"})
    assert (target.key_fields, target.options) == (("isbn",), {"a": "1", "b": "3"})
    assert parse_target("mysql://db/shop#books", key_fields=["url"]).name == "mysql://db/shop?key=url#books"


def test_a_password_comes_from_a_file(tmp_path) -> None:
    (tmp_path / "pw").write_text("hush\n")
    target = parse_target(f"postgresql://ann@db/shop?password_file={tmp_path}/pw#books")
    assert target.password == "hush"
    assert target.options == {}
    assert "password_file" in target.name, "a run that goes on reads it again"
    with pytest.raises(UsageError, match="cannot be read"):
        parse_target("postgresql://ann@db/shop?password_file=nowhere#books")


def test_a_password_of_the_environment_is_for_a_named_user() -> None:
    assert parse_target("postgresql://ann@db/shop", password="hush").password == "hush"
    assert parse_target("postgresql://ann:own@db/shop", password="hush").password == "own"
    assert parse_target("redis://cache/0#s", password="hush").password is None


@pytest.mark.parametrize("text", ["a.jsonl", "./a.jsonl", "x/../a.jsonl"])
def test_a_file_has_one_name(text: str) -> None:
    target = parse_target(text)
    assert (target.name, target.scheme) == ("a.jsonl", "")
    assert isinstance(sink_of(target), LinesSink)


def test_a_colon_does_not_make_a_url_of_a_file() -> None:
    target = parse_target("2026-01-01T00:00.jsonl")
    assert target.scheme == ""
    assert parse_target("notes:today.jsonl").scheme == ""
    assert parse_target("out/").name == "out/"


def test_sqlite_is_written_as_its_frontier_is() -> None:
    target = parse_target("sqlite:shop.db?key=isbn#books")
    assert (target.scheme, target.path, target.fragment, target.key_fields) == ("sqlite", "shop.db", "books", ("isbn",))


def test_an_unknown_scheme_is_named_without_its_password() -> None:
    with pytest.raises(UsageError, match="no such output: gopher://ann@db/x") as refused:
        sink_of(parse_target("gopher://ann:hush@db/x"))
    assert "postgresql" in refused.value.hint


def test_a_target_is_a_value() -> None:
    assert parse_target("a.jsonl") == Target(text="a.jsonl", name="a.jsonl")
