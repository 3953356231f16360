"""``view`` of the shell: links of a page lead to where they led on its site."""

from __future__ import annotations

import pytest

from skitter.cli.page_view import with_base

TAG = '<base href="https://a.example/?x=1&amp;y=%22">'


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<html><head><title>", f"<html><head>{TAG}<title>"),
        ("<HTML><HEAD lang=de\n>x", f"<HTML><HEAD lang=de\n>{TAG}x"),
        ("<header>x", f"{TAG}<header>x"),
        ("x", f"{TAG}x"),
        ("<head><base href='/x'>", "<head><base href='/x'>"),
        ("<head", f"{TAG}<head"),
        ("", TAG),
    ],
)
def test_a_base_is_added_where_there_is_none(html: str, expected: str) -> None:
    assert with_base(html.encode(), "https://a.example/?x=1&y=%22").decode() == expected
