"""Fixtures of web servers, which end with the test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rig.web import Site


@pytest.fixture
def make_site() -> Iterator[Callable[..., Site]]:
    with contextlib.ExitStack() as stack:

        def make(*arguments: Any, **options: Any) -> Site:
            site = Site(*arguments, **options)
            stack.callback(site.close)
            return site

        yield make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()
