"""An edited class is told from an unchanged one, in the same way in every process."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from skitter.errors import SpiderError
from skitter.spiders.base import Spider
from skitter.spiders.class_changes import attributes_of, check_attributes_of, code_of_class

SOURCE = """
class Books(Spider):
    name = "books"
    shelves = {"a", "b", "c"}
    pages = ["1", 2.5, None, {"x": (1, b"y")}]
    pattern = re.compile("x")

    def parse(self, response):
        kept = [part for part in response if part in {"a", "b", "c"}]
        yield {"price": "1", "kept": kept}

    @staticmethod
    def clean(text):
        return text.strip()

    @property
    def shelf(self):
        return "a"
"""


def made(source: str = SOURCE) -> type[Spider]:
    names: dict[str, Any] = {"Spider": Spider, "re": re, "__name__": "books"}
    exec(source, names)
    kind: type[Spider] = names["Books"]
    return kind


def test_a_class_that_is_defined_again_has_the_same_code() -> None:
    assert code_of_class(made()) == code_of_class(made("\n\n" + SOURCE))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"price": "1"', '"cost": "1"'),
        ("text.strip()", "text.rstrip()"),
        ('{"x": (1,', '{"x": (2,'),
        ('part in {"a", "b", "c"}', 'part in {"a", "b", "d"}'),
        ('return "a"', 'return "b"'),
        ('name = "books"', 'name = "films"'),
    ],
)
def test_an_edited_class_has_other_code(old: str, new: str) -> None:
    assert old in SOURCE
    assert code_of_class(made()) != code_of_class(made(SOURCE.replace(old, new)))


def test_the_hashes_are_the_same_in_another_process() -> None:
    """Where sets of text have another order."""
    program = (
        "import re\nfrom skitter.spiders.base import Spider\n"
        "from skitter.spiders.class_changes import attributes_of, code_of_class\n"
        f"{SOURCE}\nprint(code_of_class(Books), attributes_of(Books))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == f"{code_of_class(made())} {attributes_of(made())}\n"


def test_a_worker_names_the_attributes_that_differ() -> None:
    changed = made()
    changed.name = "other"
    changed.extra = 7  # type: ignore[attr-defined]
    changed.parse = lambda self, response: None  # type: ignore[assignment, method-assign]
    check_attributes_of(made(), attributes_of(made()))
    check_attributes_of(made(), {})
    with pytest.raises(SpiderError, match=r"passed in: extra, name, parse\n"):
        check_attributes_of(made(), attributes_of(changed))
