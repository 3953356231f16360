"""Every event is named in one place, and the reference is made from it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import gen_reference
from skitter.observe import events
from skitter.observe.event_record import OWN_FIELDS

SOURCE = Path(__file__).resolve().parents[2] / "src" / "skitter"


@cache
def names_in_code() -> frozenset[str]:
    """Every word of the source but for the module that defines the events."""
    texts = (path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if path.name != "events.py")
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


def test_the_events_page_is_up_to_date() -> None:
    assert gen_reference.EVENTS_PAGE.read_text(encoding="utf-8") == gen_reference.events_page(), "run `make docs`"


@pytest.mark.parametrize("kind", events.KINDS.values(), ids=lambda kind: kind.name)
def test_a_sentence_names_only_fields_that_the_event_has(kind: events.Kind) -> None:
    assert set(re.findall(r"{(\w+)}", kind.sentence)) <= set(kind.fields)
    assert "{" not in kind.sentence.format_map(dict.fromkeys(kind.fields, "x"))


@pytest.mark.parametrize("kind", events.KINDS.values(), ids=lambda kind: kind.name)
def test_no_field_hides_one_that_every_line_has(kind: events.Kind) -> None:
    assert set(kind.fields) & set(OWN_FIELDS) <= {"worker"}


@pytest.mark.parametrize("name", [name for name, value in vars(events).items() if isinstance(value, events.Kind)])
def test_every_event_is_told_somewhere(name: str) -> None:
    assert name == "LOG" or name in names_in_code()
