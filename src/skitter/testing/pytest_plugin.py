"""Plugin for pytest: the fixture ``skitter_run`` and the option ``--skitter-record``.

pytest loads it in every environment with skitter, so it imports only pytest until the fixture is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from skitter.testing.spider_run import SpiderRun

FOLDER = "recorded"
"""Folder next to the file of the test, with a subfolder for each test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("skitter").addoption(
        "--skitter-record",
        action="store_true",
        help="fetch the pages of tests with skitter_run from the network, and record them",
    )


@pytest.fixture
def skitter_run(request: pytest.FixtureRequest) -> Callable[..., SpiderRun]:
    """``skitter.testing.run`` with recorded pages: if a test passes no pages, those recorded for it are used.

    They are stored in the folder ``recorded/FILE/TEST`` next to the file of the test. ``pytest --skitter-record``
    fetches and writes them; without that option no test uses the network.
    """
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    folder = request.path.parent / FOLDER / request.path.stem / name

    def run(target: Any, pages: Any = None, urls: Any = (), **options: Any) -> SpiderRun:
        from skitter import testing

        given = folder if pages is None else pages
        if request.config.getoption("--skitter-record") and isinstance(given, (str, Path)):
            return testing.record(target, given, urls, **options)
        return testing.run(target, given, urls, **options)

    return run
