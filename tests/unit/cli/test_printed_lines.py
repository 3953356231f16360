"""What workers print is shown in whole lines, and never holds a worker up."""

from __future__ import annotations

import os

import pytest

from skitter.cli.printed_lines import MAX_LINE_BYTES, PrintedLines


def test_lines_are_shown_whole_and_the_last_one_without_its_end() -> None:
    shown: list[str] = []
    printed = PrintedLines(shown.append)
    for piece in (b"one\ntw", b"o\nthr", b"ee"):
        os.write(printed.fd, piece)
    printed.close()
    assert "\n".join(shown).split("\n") == ["one", "two", "three"]


@pytest.mark.parametrize("error", [OSError("gone"), ValueError("I/O operation on closed file")])
def test_the_pipe_is_read_on_when_nothing_can_be_shown(error: Exception) -> None:
    def show(_: str) -> None:
        raise error

    printed = PrintedLines(show)
    for _ in range(8):  # more than a pipe holds
        os.write(printed.fd, b"x" * MAX_LINE_BYTES + b"\n")
    printed.close()
