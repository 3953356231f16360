"""A host as ``skitter hosts`` reads it from the command line, and its state in words."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.app.host_list import key_of
from skitter.cli import hosts
from skitter.errors import UsageError
from skitter.model.job import HostSeen


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("https://shop.example", "https://shop.example"),
        ("HTTP://Shop.Example:8080/a/b?c", "http://shop.example:8080"),
        ("https://user:word@shop.example:443/", "https://shop.example"),
    ],
)
def test_a_host_is_named_by_its_key_or_by_a_page(text: str, key: str) -> None:
    assert key_of(text) == key


@pytest.mark.parametrize("text", ["shop.example", "ftp://shop.example", "http://", ""])
def test_what_is_no_host_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError, match="not a host") as refused:
        key_of(text)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"paused": True, "given_up": True, "blocked_seconds": 5.0}, "paused"),
        ({"given_up": True, "blocked_seconds": 5.0}, "given up"),
        ({"stopped_by": "trap_pages"}, "stopped (trap_pages)"),
        ({"blocked_seconds": 5.0}, "blocked, 5.0 s"),
        ({"queued": 1}, "active"),
        ({"in_flight": 1}, "active"),
        ({}, "idle"),
    ],
)
def test_the_state_of_a_host_in_words(changes: dict[str, Any], state: str) -> None:
    fields: dict[str, Any] = {
        "key": "http://a.example",
        "queued": 0,
        "in_flight": 0,
        "due_seconds": 0.0,
        "blocked_seconds": 0.0,
        "latency_seconds": 0.0,
        "strikes": 0,
        "error_class": "",
    }
    assert hosts.state_of(HostSeen(**fields | changes)) == state
