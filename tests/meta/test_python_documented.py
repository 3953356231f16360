"""Every public name of Python has an entry in the reference, made from its docstring."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import python_reference
import skitter
import skitter.testing
from skitter.extract.forms import Form
from skitter.extract.selector import Selector, SelectorList
from skitter.worker.page_visit import Failure

# Crawlo has some of the same names, in a section of their own.
OWN, _, REST = python_reference.PAGE.read_text(encoding="utf-8").partition("\n## Names of Crawlo\n")
HEADINGS = [line.lstrip("# ") for line in (OWN + REST[REST.index("\n## ") :]).splitlines() if line[:3] == "###"]


def test_the_python_page_is_up_to_date() -> None:
    assert python_reference.PAGE.read_text(encoding="utf-8") == python_reference.page(), "run `make docs`"


@pytest.mark.parametrize("name", [*skitter.__all__, *skitter.testing.__all__])
def test_public_name_has_one_entry(name: str) -> None:
    assert HEADINGS.count(name) == 1


def test_a_public_name_without_an_entry_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skitter, "__all__", [*skitter.__all__, "Novelty"])
    with pytest.raises(SystemExit, match=r"without an entry in .*: Novelty"):
        python_reference.page()


@pytest.mark.parametrize(
    "value",
    [skitter.Spider, skitter.Request, skitter.Response, Form, Selector, SelectorList, Failure],
    ids=lambda c: c.__name__,
)
def test_what_spiders_use_is_described_to_the_last_member(value: type) -> None:
    assert _undescribed(value) == []


def _undescribed(value: type[Any]) -> list[str]:
    own = [base for base in value.__mro__ if base.__module__.startswith("skitter")]
    fields = [name for base in own for name, _, _, text in python_reference.fields(base) if not text]
    members = {name: member for base in reversed(own) for name, member in vars(base).items() if name[0] != "_"}
    return fields + [
        name
        for name, member in members.items()
        if (isinstance(member, property) or inspect.isfunction(member)) and not inspect.getdoc(member)
    ]
