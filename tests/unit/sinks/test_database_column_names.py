"""Columns for whatever a page calls its fields, kinds for whatever it puts there, and addresses that are wrong."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.errors import ExtraMissingError, UsageError
from skitter.sinks.databases.column_names import KEY_BYTES, NameRules, column_of, short_key
from skitter.sinks.databases.value_kinds import Kind, as_text, common_kind, driver_value, holds, kind_of
from skitter.sinks.targets import parse_target, sink_of

RULES = [
    NameRules(longest_bytes=63, folds_case=False, reserved=frozenset(("xmin", "_key"))),
    NameRules(longest_bytes=64, folds_case=True, highest_codepoint=0xFFFF, reserved=frozenset(("_key",))),
]


@pytest.mark.parametrize("rules", RULES)
@given(st.lists(st.text(max_size=100), unique=True, max_size=20))
def test_no_two_fields_share_a_column_and_every_name_is_legal(rules, fields):
    taken = {"_key"}
    columns = {}
    for field in fields:
        columns[field] = column_of(field, taken, rules)
        taken.add(columns[field])
    assert len(taken) == len(fields) + 1
    for name in columns.values():
        assert name
        assert len(name.encode()) <= rules.longest_bytes
        assert name.isprintable()
        assert name == name.strip()
        assert max(map(ord, name)) <= rules.highest_codepoint
    if rules.folds_case:
        assert len({name.lower() for name in taken}) == len(taken)


@pytest.mark.parametrize("rules", RULES)
@given(st.lists(st.text(max_size=100), unique=True, max_size=20), st.randoms(use_true_random=False))
def test_a_field_finds_its_column_again(rules, fields, chance):
    first: dict[str, str] = {}
    for field in fields:
        first[field] = column_of(field, {"_key", *first.values()}, rules)
    # Another start: all columns are there, and the fields come in another order.
    chance.shuffle(fields)
    assert {field: column_of(field, {"_key", *first.values()}, rules) for field in fields} == first


def test_ordinary_names_stay_as_they_are():
    for rules in RULES:
        for field in ("title", "Title", "a b", "select", "größe", 'qu"ote', "order-by", "1st"):
            assert column_of(field, {"_key"}, rules) == field


@given(st.text(max_size=3000), st.text(max_size=3000))
def test_long_keys_are_cut_and_stay_apart(one, other):
    assert len(short_key(one).encode()) <= KEY_BYTES
    assert (short_key(one) == short_key(other)) == (one == other)


@given(st.sampled_from(Kind), st.sampled_from(Kind))
def test_two_kinds_meet_in_one_that_holds_both(one, other):
    wide = common_kind(one, other)
    assert wide is common_kind(other, one)
    assert holds(wide, one)
    assert holds(wide, other)


def test_values_and_their_kinds():
    kinds = {1: Kind.INTEGER, 1.5: Kind.REAL, "": Kind.TEXT, b"": Kind.TEXT, 2**63: Kind.TEXT, None: None}
    assert {value: kind_of(value) for value in kinds} == kinds
    assert (kind_of(True), kind_of([]), kind_of({}), kind_of(float("nan"))) == (
        Kind.BOOLEAN,
        Kind.JSON,
        Kind.JSON,
        None,
    )
    assert [driver_value(value) for value in (True, [1, "ü"], b"\xff", 2**63, float("inf"))] == [
        True,
        '[1,"ü"]',
        "/w==",
        str(2**63),
        None,
    ]
    assert [as_text(value) for value in (True, 5, 1.5, '"', b"\xff", {"a": '"'})] == [
        "true",
        "5",
        "1.5",
        '"',
        "/w==",
        '{"a":"\\""}',
    ]


@pytest.mark.parametrize(
    "target",
    [
        "sqlite:x.db",
        "postgresql://h/d",
        "postgresql://h/d#a.b.c",
        "mysql://h#t",
        "mysql://h/d?charset=latin1#t",
        "mysql://h/d?ssl_mode=perhaps#t",
        "mysql://h1,h2/d#t",
        "mysql://h/d?ssl_ca=/nowhere/ca.pem#t",
        "mongodb://h/d",
        "mongodb://h#c",
        "mongodb+ring:///d#c",
    ],
)
def test_addresses_that_lack_something_are_usage_errors(target):
    with pytest.raises(UsageError) as error:
        sink_of(parse_target(target))
    assert error.value.hint


@pytest.mark.parametrize(
    ("target", "modules", "driver", "extra"),
    [
        ("postgresql://h/d#t", ["postgresql"], "asyncpg", "postgresql"),
        ("mysql://h/d#t", ["mysql"], "pymysql", "mysql"),
        ("mongodb://h/d#t", ["mongodb", "mongodb_collection"], "pymongo", "mongodb"),
    ],
)
def test_a_driver_that_is_not_installed_is_named(monkeypatch, target, modules, driver, extra):
    # Only those that import the driver: a second copy of another module would stay, with classes of its own.
    for name in modules:
        monkeypatch.delitem(sys.modules, f"skitter.sinks.databases.{name}", raising=False)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ExtraMissingError) as error:
        sink_of(parse_target(target))
    assert error.value.hint == f"pip install 'skitter[{extra}]'"


def test_a_ring_is_one_target_whatever_its_servers_are():
    names = {
        sink_of(parse_target(f"mongodb+ring://me:hush@{hosts}/shop#books")).target
        for hosts in ("a,b", "b,a", "a,b,c:1")
    }
    assert names == {"mongodb+ring:///shop#books"}
