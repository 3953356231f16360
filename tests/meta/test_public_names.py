"""The public names are few, and they change on purpose only."""

from __future__ import annotations

import pytest

import skitter


def test_public_names() -> None:
    classes = (
        "Answer AsyncClient Ban Click Client CloseSummary Drop DropItem Failure Fill Hooks ItemStream JavaScript"
        " JobInfo Priority RejectItem Request Response Retry Rule Screenshot Scroll SkitterError Spider Stats WaitFor"
    )
    functions = "acrawl aget connect crawl get stream"
    assert skitter.__all__ == [*classes.split(), *functions.split()]


@pytest.mark.parametrize("name", skitter.__all__)
def test_public_name_exists(name: str) -> None:
    assert getattr(skitter, name).__name__ == name
    assert name in dir(skitter)


def test_other_names_do_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Spdier'"):
        skitter.Spdier  # noqa: B018  asking is the test
