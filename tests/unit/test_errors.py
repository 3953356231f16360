"""Errors cross the border of a process as what they are, and tell their hint in a traceback."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator

import pytest

from skitter import errors
from skitter.errors import SkitterError


def all_kinds(kind: type[SkitterError] = SkitterError) -> Iterator[type[SkitterError]]:
    yield kind
    for other in kind.__subclasses__():
        yield from all_kinds(other)


SPECIAL = {
    "ClusterConflictError": ("/a", "taken"),
    "BadItemsError": ("out.db", {3: "too long"}),
    "UrlError": ("scheme", "not http: ftp://a"),
    "SitemapError": ("dtd", "has a DTD"),
    "FetchError": ("dns", "no such host"),
    "ExtraMissingError": ("Parquet", "parquet"),
}
KINDS = sorted({kind for kind in all_kinds() if kind.__module__ == errors.__name__}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_is_the_same_after_pickling(kind: type[SkitterError]) -> None:
    error = kind(*SPECIAL.get(kind.__name__, ("what happened",)))
    error.add_note("in a note")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.args, vars(again)) == (kind, str(error), error.args, vars(error))


def test_a_traceback_ends_with_the_hint() -> None:
    error = errors.UsageError("nothing to crawl", hint="give a URL")
    assert traceback.format_exception(error)[-1] == "hint: give a URL\n"
    assert not hasattr(errors.UsageError("without"), "__notes__")
