"""Every event is named in one place, and the reference is made from it."""

from __future__ import annotations

import re
from pathlib import Path

import gen_reference
from skitter.observe import events
from skitter.observe.event_record import OWN_FIELDS

SOURCE = Path(__file__).resolve().parents[2] / "src" / "skitter"


KINDS = list(events.KINDS.values())


def names_in_code() -> frozenset[str]:
    """Every word of the source but for the module that defines the events."""
    texts = (path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if path.name != "events.py")
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


def test_the_events_page_is_up_to_date() -> None:
    assert gen_reference.EVENTS_PAGE.read_text(encoding="utf-8") == gen_reference.events_page(), "run `make docs`"


def test_a_sentence_names_only_fields_that_the_event_has() -> None:
    assert len(KINDS) > 50
    for kind in KINDS:
        assert set(re.findall(r"{(\w+)}", kind.sentence)) <= set(kind.fields), kind.name
        assert "{" not in kind.sentence.format_map(dict.fromkeys(kind.fields, "x")), kind.name


def test_no_field_hides_one_that_every_line_has() -> None:
    assert [kind.name for kind in KINDS if not set(kind.fields) & set(OWN_FIELDS) <= {"worker"}] == []


def test_every_event_is_told_somewhere() -> None:
    names = {name for name, value in vars(events).items() if isinstance(value, events.Kind)} - {"LOG"}
    assert names - names_in_code() == set()
