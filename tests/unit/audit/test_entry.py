"""Entries of the audit trail are bounded, have no secrets, and say what was told."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skitter.audit.entry import DONE, GENESIS, MAX_ENTRY_BYTES, Draft, hash_of, line_of, read_entry, sealed
from skitter.model.audit import Actor

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def told(details: dict[str, Any]) -> dict[str, Any]:
    entry = read_entry(sealed(Draft(actor=Actor("cli:a"), action="set", details=details), None, 1.0))
    assert entry is not None
    return entry.details


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.text(max_size=500))
def test_any_values_become_an_entry_that_can_be_read(values: dict[str, Any], name: str) -> None:
    stored = sealed(Draft(actor=Actor(name, name), action="set", details=values, outcome=DONE), None, 1.0)
    assert len(stored.body) <= MAX_ENTRY_BYTES
    assert stored.hash == hash_of(stored.body)
    entry = read_entry(stored)
    assert entry is not None
    assert (entry.seq, entry.previous, entry.action, entry.outcome) == (1, GENESIS, "set", DONE)
    assert json.loads(line_of(stored))["hash"] == stored.hash


def test_large_values_are_cut_and_counted() -> None:
    many = {f"name{number}": "x" * 1000 for number in range(100)}
    stored = sealed(
        Draft(actor=Actor("cli:" + "a" * 5000), action="set", before={"all": many}, outcome=DONE), None, 1.0
    )
    assert len(stored.body) <= MAX_ENTRY_BYTES
    assert told({"urls": [str(number) for number in range(100)]})["urls"][-1] == "… and 36 more"
    assert told({"text": "x" * 1000})["text"] == "x" * 299 + "…"
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"inner": deep}
    assert "…" in json.dumps(told({"deep": deep}), ensure_ascii=False)


def test_secrets_are_never_in_an_entry() -> None:
    secret = "s3cr3t-value"
    details = {
        "password": secret,
        "settings": {"proxies": [f"http://u:{secret}@h:1"], "credentials": [{"user": "u", "word": secret}]},
        "headers": {"Authorization": f"Bearer {secret}", "X-Session": secret, "Accept": "text/html"},
        "arguments": {"api_key": secret, "page": "2"},
        "first_urls": [f"https://u:{secret}@h/?token={secret}&page=2"],
        "cookies": {"sid": secret},
        "command": f"crawl x.py -a token={secret} --frontier redis://:{secret}@h",
    }
    stored = sealed(
        Draft(actor=Actor("cli:a"), action="set", details=details, outcome=f"refused: redis://:{secret}@h"), None, 1.0
    )
    assert secret not in stored.body.decode()
    found = told(details)
    assert found["headers"]["Accept"] == "text/html"
    assert found["arguments"]["page"] == "2"
    assert told({"cookies": True, "session_pool": 3}) == {"cookies": True, "session_pool": 3}, "a number is no secret"


def test_time_never_goes_back_in_a_chain() -> None:
    first = sealed(Draft(actor=Actor("cli:a"), action="pause"), None, 100.0)
    second = sealed(Draft(actor=Actor("cli:a"), action="pause"), first, 50.0)
    entry = read_entry(second)
    assert entry is not None
    assert (entry.at, entry.previous, entry.seq) == (100.0, first.hash, 2)
