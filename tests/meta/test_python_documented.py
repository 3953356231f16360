"""Every public name of Python has an entry in the reference, made from its docstring."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import pytest

import python_reference
import skitter
import skitter.cluster
import skitter.dedup
import skitter.schedules
import skitter.testing
from skitter.extract.forms import Form
from skitter.extract.selector import Selector, SelectorList
from skitter.worker.page_visit import Failure


def test_the_python_pages_are_up_to_date() -> None:
    made = python_reference.pages()
    assert {path: path.read_text(encoding="utf-8") for path in python_reference.FOLDER.glob("*.md")} == made, (
        "run `make docs`"
    )


@pytest.mark.parametrize(
    ("file", "name"), [(page.file, name.rpartition(":")[2]) for page in python_reference.PAGES for name in page.names]
)
def test_public_name_has_one_entry(file: str, name: str) -> None:
    lines = (python_reference.FOLDER / f"{file}.md").read_text(encoding="utf-8").splitlines()
    assert lines.count(f"## {name}") == 1


@pytest.mark.parametrize("module", [skitter.cluster, skitter.dedup, skitter.schedules, skitter.testing])
def test_all_names_of_a_public_module_have_an_entry(module: ModuleType) -> None:
    described = {name for page in python_reference.PAGES for name in page.names}
    own = {f"{module.__name__}:{name}" for name in module.__all__ if name not in python_reference.error_names()}
    assert own - described <= {"skitter.schedules:connect"}


@pytest.mark.parametrize("name", python_reference.error_names())
def test_every_exception_is_in_the_tree(name: str) -> None:
    text = (python_reference.FOLDER / "exceptions.md").read_text(encoding="utf-8")
    assert re.search(rf"^[ │├└─]*{name} ", text, re.MULTILINE)


def test_a_public_name_without_an_entry_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skitter, "__all__", [*skitter.__all__, "Novelty"])
    with pytest.raises(SystemExit, match=r"without an entry in .*: Novelty"):
        python_reference.pages()


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
