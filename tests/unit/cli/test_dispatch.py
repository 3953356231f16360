"""Whatever is typed is answered in words, with the exit code that was promised."""

from __future__ import annotations

import pytest

from skitter.errors import FrontierError, SettingsError


@pytest.mark.parametrize(
    ("error", "code"), [(SettingsError("bad", hint="mend it"), 2), (FrontierError("unavailable", hint="start it"), 3)]
)
def test_the_error_decides_the_exit_code(skitter, fake_app, error, code) -> None:
    fake_app.answer = error
    said = skitter("crawl", "https://a.example/", "-q")
    assert said.code == code
    assert said.err == f"error: {error}\nhint: {error.hint}\n"


def test_an_error_among_failed_tasks_is_found(skitter, fake_app) -> None:
    fake_app.answer = ExceptionGroup(
        "tasks", [ValueError("noise"), ExceptionGroup("more", [FrontierError("unavailable")])]
    )
    said = skitter("crawl", "https://a.example/", "-q")
    assert (said.code, said.err) == (3, "error: unavailable\n")


def test_the_unexpected_has_no_traceback_and_says_how_to_get_one(skitter, fake_app) -> None:
    fake_app.answer = ZeroDivisionError("oh \x1b[2Jdear")
    said = skitter("crawl", "https://a.example/", "-q")
    assert said.code == 1
    assert said.err.splitlines() == [
        "error: ZeroDivisionError: oh [2Jdear",
        "hint: run the same command with -v for the details",
    ]


def test_verbose_shows_the_traceback(skitter, fake_app) -> None:
    fake_app.answer = ZeroDivisionError("oh")
    assert "Traceback (most recent call last)" in skitter("crawl", "https://a.example/", "-v").err


def test_ctrl_c_is_130(skitter, fake_app) -> None:
    fake_app.answer = KeyboardInterrupt()
    said = skitter("crawl", "https://a.example/", "-q")
    assert (said.code, said.err) == (130, "")
