"""Frontiers and fetchers of installed packages: each mistake of a package is told with its name and what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skitter.app.fetchers import check_fetcher, make_fetcher
from skitter.app.frontiers import is_shared, list_jobs, open_frontier
from skitter.entry_points import find_entry_point
from skitter.errors import SettingsError, UsageError
from skitter.fetch.engine import CurlFetcher
from skitter.settings import Settings

MODULE = """
from skitter.errors import SettingsError
from skitter.frontier.contract import FrontierBackend

class Half:
    async def lease(self, worker, limit): ...

def broken(*arguments, **options):
    raise ZeroDivisionError("by 0")

def no_proxy(settings):
    raise SettingsError("this fetcher has no proxy", hint="omit it")

NOT_A_BACKEND = 3
HALF = FrontierBackend(open=lambda *arguments, **options: Half(), shared=True)
BROKEN = FrontierBackend(open=broken, shared=False)

class Fetcher:
    def __init__(self, settings):
        self.settings = settings
    async def fetch(self, request): ...
    async def close(self): ...
"""
POINTS = """
[skitter.frontiers]
gone = nowhere:X
number = odd_parts:NOT_A_BACKEND
half = odd_parts:HALF
broken = odd_parts:BROKEN
sqlite = odd_parts:BROKEN

[skitter.fetchers]
gone = nowhere:X
half = odd_parts:Half
mine = odd_parts:Fetcher
broken = odd_parts:broken
no-proxy = odd_parts:no_proxy
curl = odd_parts:broken
"""
Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Packages as pip leaves them: a folder that says what each offers."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, points: str) -> None:
        info = tmp_path / f"{name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(points)

    return write


@pytest.fixture
def odd_parts(install: Install, tmp_path: Path) -> None:
    (tmp_path / "odd_parts.py").write_text(MODULE)
    install("odd_parts", POINTS)


def of(fetcher: str) -> Settings:
    return Settings.from_layers([("the test", {"fetcher": fetcher})])


def opened(url: str) -> object:
    return open_frontier(url, "j", create=True)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("gone:x", "it cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("number:x", "a FrontierBackend is expected, not int"),
        ("half:x", "its Half has no add, add_cookies, ban_proxy, begin, capacity, change_settings, check_consistency"),
        ("broken:x", "it cannot be opened: ZeroDivisionError: by 0"),
    ],
)
def test_a_frontier_that_cannot_be_used_is_named_with_its_package(odd_parts: None, url: str, what: str) -> None:
    with pytest.raises(UsageError, match=r"a frontier cannot be used: \w+ \(.*, package odd_parts 1\.5\): ") as caught:
        opened(url)
    assert what in str(caught.value)
    assert "odd_parts 1.5" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("gone", "it cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("half", "it cannot be created: TypeError: Half() takes no arguments"),
        ("broken", "it cannot be created: ZeroDivisionError: by 0"),
    ],
)
def test_a_fetcher_that_cannot_be_used_is_named_with_its_package(odd_parts: None, name: str, what: str) -> None:
    with pytest.raises(UsageError, match=r"a fetcher cannot be used: \w+ \(.*, package odd_parts 1\.5\): ") as caught:
        make_fetcher(of(name))
    assert what in str(caught.value)


def test_a_fetcher_is_made_of_the_settings(odd_parts: None) -> None:
    settings = of("mine")
    check_fetcher(settings)
    made: Any = make_fetcher(settings)
    # Where a browser is installed, it stands before it.
    assert getattr(made, "_fetcher", made).settings is settings


def test_what_a_fetcher_says_of_the_settings_is_passed_on(odd_parts: None) -> None:
    with pytest.raises(SettingsError, match="this fetcher has no proxy"):
        make_fetcher(of("no-proxy"))


@pytest.mark.parametrize("use", [make_fetcher, check_fetcher])
def test_an_unknown_fetcher_is_an_error_that_lists_the_known(
    odd_parts: None, use: Callable[[Settings], object]
) -> None:
    with pytest.raises(SettingsError, match="no such fetcher: curly") as caught:
        use(of("curly"))
    assert "installed: curl, broken, gone, half, mine, no-proxy;" in caught.value.hint


def test_an_unknown_scheme_is_an_error_that_lists_the_known(odd_parts: None) -> None:
    with pytest.raises(UsageError, match="not a frontier: tinny:x") as caught:
        opened("tinny:x")
    assert "sqlite:PATH" in caught.value.hint
    assert "broken:, gone:, half:" in caught.value.hint


def test_whether_a_frontier_is_shared_its_package_says(odd_parts: None) -> None:
    assert [is_shared(url) for url in ("half:x", "broken:x", "sqlite:x", "memory:")] == [True, False, True, False]


async def test_a_package_replaces_nothing_of_skitters_own(odd_parts: None, tmp_path: Path) -> None:
    fetcher: Any = make_fetcher(of("curl"))
    assert isinstance(getattr(fetcher, "_fetcher", fetcher), CurlFetcher)
    await fetcher.close()
    frontier = open_frontier(f"sqlite:{tmp_path}/x.db", "j", create=True)
    await frontier.close()
    for mistake in ("sqlite:", "redis:x"):
        with pytest.raises(UsageError, match="not a frontier"):
            opened(mistake)


async def test_what_a_frontier_cannot_do_is_an_error(odd_parts: None) -> None:
    with pytest.raises(UsageError, match="not supported by this frontier: listing jobs: half:x"):
        await list_jobs("half:x")


def test_two_packages_with_the_same_name_are_an_error(install: Install) -> None:
    install("first", "[skitter.fetchers]\nsame = first:X\n")
    install("second", "[skitter.fetchers]\nsame = second:X\n")
    with pytest.raises(UsageError, match=r"several packages offer the same fetcher: same: first 1\.5, second 1\.5"):
        find_entry_point("skitter.fetchers", "same")
