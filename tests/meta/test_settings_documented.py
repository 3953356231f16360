"""A setting that nobody can read about does not exist."""

from __future__ import annotations

from functools import cache

import gen_reference
from skitter import settings


@cache
def page() -> str:
    return gen_reference.page()


def test_the_settings_page_is_up_to_date() -> None:
    assert gen_reference.PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_setting_is_documented_once() -> None:
    rows = [line.split("`")[1] for line in page().splitlines() if line.startswith("| `")]
    assert [name for name in settings.names() if rows.count(name) != 1] == []


def test_descriptions_are_the_literals_under_the_fields() -> None:
    source = 'class A:\n    """Doc."""\n\n    x: int = 1\n    """What x\n    is."""\n    y: int = 2\n'
    assert gen_reference.descriptions(source) == {("A", "x"): "What x is."}
