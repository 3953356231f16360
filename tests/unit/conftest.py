"""What every unit test begins with."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _same_import_path() -> Iterator[None]:
    """Projects are added to the import path; the next test must not find their modules."""
    path = list(sys.path)
    yield
    sys.path[:] = path
