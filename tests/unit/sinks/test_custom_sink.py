"""Sinks of other packages: found by an entry point, given keys and records, and told apart when they fail."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from skitter.errors import BadItemsError, SinkError, SinkUnavailableError, UsageError
from skitter.extract.items import encode_item
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.contract import Sink
from skitter.sinks.targets import parse_target, sink_of

MODULE = """
batches, calls = [], []
problem = None
refused = None

class Printer:
    def __init__(self, target):
        calls.append(("init", target.hosts, target.options, target.password))
    def open(self):
        calls.append("open")
    def write(self, batch):
        if problem is not None:
            raise problem
        batches.append(batch)
        return refused
    def close(self):
        calls.append("close")

class Plain:
    def write(self, batch):
        batches.append(batch)

class NoSink:
    pass
"""


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Any:
    """A package as pip leaves it: a module, and a folder that says what it offers."""
    (tmp_path / "shop_sinks.py").write_text(MODULE)
    info = tmp_path / "shop_sinks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-sinks\nVersion: 1.0\n")
    points = "printer = shop_sinks:Printer\nplain = shop_sinks:Plain\nnone = shop_sinks:NoSink\ngone = nowhere:X\n"
    (info / "entry_points.txt").write_text(f"[skitter.sinks]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop_sinks", raising=False)
    import importlib

    return importlib.import_module("shop_sinks")


def items(*records: dict[str, Any]) -> list[Item]:
    return [Item(n + 1, 7, n, encode_item(record)) for n, record in enumerate(records)]


def opened(text: str) -> Sink:
    sink = sink_of(parse_target(text))
    sink.take()
    sink.open(SinkProgress())
    return sink


def test_a_class_of_another_package_is_found_by_its_entry_point(installed) -> None:
    sink = opened("printer://ann:hush@host:1/x?color=red")
    assert installed.calls == [("init", "host:1", {"color": "red"}, "hush"), "open"]
    assert sink.write(items({"n": 1}, {"n": 2}))
    assert installed.batches == [[("0000000000000007-0", {"n": 1}), ("0000000000000007-1", {"n": 2})]]
    assert not sink.exact
    assert sink.target == "printer://ann@host:1/x?color=red"
    sink.finish()
    sink.close()
    assert installed.calls[-1] == "close"


@pytest.mark.parametrize("text", ["plain://x", "plain:x", "python:shop_sinks:Plain"])
def test_it_needs_no_more_than_write(installed, text) -> None:
    sink = opened(text)
    sink.write(items({"n": 1}))
    sink.close()
    assert [record for _, record in installed.batches[0]] == [{"n": 1}]


def test_keys_are_made_of_the_fields_that_are_named(installed) -> None:
    sink = opened("plain://x?key=isbn")
    sink.write(items({"isbn": "978"}))
    assert installed.batches == [[("978", {"isbn": "978"})]]
    with pytest.raises(BadItemsError) as refused:
        sink.write(items({"isbn": "1"}, {}))
    assert refused.value.reasons.keys() == {2}


@pytest.mark.parametrize("problem", [ConnectionRefusedError("x"), TimeoutError("x"), SinkUnavailableError("x")])
def test_a_place_that_is_away_is_told_from_a_failure(installed, problem) -> None:
    sink = opened("printer://x")
    installed.problem = problem
    with pytest.raises(SinkUnavailableError):
        sink.write(items({"n": 1}))
    installed.problem = ValueError("no such table")
    with pytest.raises(SinkError, match="ValueError: no such table") as failed:
        sink.write(items({"n": 1}))
    assert not isinstance(failed.value, SinkUnavailableError)


def test_what_it_refuses_is_named_and_the_rest_is_not_written_again(installed) -> None:
    sink = opened("printer://x")
    installed.refused = {"0000000000000007-1": "too long"}
    batch = items({"n": 0}, {"n": 1}, {"n": 2})
    with pytest.raises(BadItemsError) as refused:
        sink.write(batch)
    assert refused.value.reasons == {2: "too long"}
    assert sink.write([batch[0], batch[2]])
    assert len(installed.batches) == 1
    installed.refused = None
    sink.write(items({"n": 3}))
    assert len(installed.batches) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("none://x", "no write"),
        ("gone://x", "cannot be imported"),
        ("python:shop_sinks:Missing", "cannot be imported"),
        ("python:nowhere:X", "cannot be imported"),
        ("python:", "cannot be imported"),
        ("python:subprocess:Popen", "not a module of your own"),
    ],
)
def test_what_is_no_sink_is_a_usage_error(installed, text, message) -> None:
    with pytest.raises(UsageError, match=message):
        sink_of(parse_target(text))
