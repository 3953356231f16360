"""Public test tools for skitter and for projects that use it. Each name is imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skitter.testing.clock import FakeClock as FakeClock
    from skitter.testing.contract import ContractStore as ContractStore
    from skitter.testing.contract import FrontierContract as FrontierContract
    from skitter.testing.coordinator import CoordinatorContract as CoordinatorContract
    from skitter.testing.coordinator import CoordinatorPlace as CoordinatorPlace
    from skitter.testing.coordinator import LockContract as LockContract
    from skitter.testing.fetcher_contract import FetcherContract as FetcherContract
    from skitter.testing.given_pages import response as response
    from skitter.testing.intake_contract import IntakeContract as IntakeContract
    from skitter.testing.intake_contract import IntakePlace as IntakePlace
    from skitter.testing.sink_contract import SinkContract as SinkContract
    from skitter.testing.sink_contract import SinkPlace as SinkPlace
    from skitter.testing.spider_run import SpiderRun as SpiderRun
    from skitter.testing.spider_run import record as record
    from skitter.testing.spider_run import run as run
    from skitter.testing.web import SyntheticWeb as SyntheticWeb
    from skitter.testing.web import WebSpec as WebSpec
    from skitter.testing.web import expected as expected
    from skitter.testing.web import page as page
    from skitter.testing.web import served as served

_HOME = {
    "ContractStore": "skitter.testing.contract",
    "CoordinatorContract": "skitter.testing.coordinator",
    "CoordinatorPlace": "skitter.testing.coordinator",
    "FakeClock": "skitter.testing.clock",
    "FetcherContract": "skitter.testing.fetcher_contract",
    "FrontierContract": "skitter.testing.contract",
    "IntakeContract": "skitter.testing.intake_contract",
    "IntakePlace": "skitter.testing.intake_contract",
    "LockContract": "skitter.testing.coordinator",
    "SinkContract": "skitter.testing.sink_contract",
    "SinkPlace": "skitter.testing.sink_contract",
    "SpiderRun": "skitter.testing.spider_run",
    "SyntheticWeb": "skitter.testing.web",
    "WebSpec": "skitter.testing.web",
    "expected": "skitter.testing.web",
    "page": "skitter.testing.web",
    "record": "skitter.testing.spider_run",
    "response": "skitter.testing.given_pages",
    "run": "skitter.testing.spider_run",
    "served": "skitter.testing.web",
}

__all__ = [
    "ContractStore",
    "CoordinatorContract",
    "CoordinatorPlace",
    "FakeClock",
    "FetcherContract",
    "FrontierContract",
    "IntakeContract",
    "IntakePlace",
    "LockContract",
    "SinkContract",
    "SinkPlace",
    "SpiderRun",
    "SyntheticWeb",
    "WebSpec",
    "expected",
    "page",
    "record",
    "response",
    "run",
    "served",
]


if not TYPE_CHECKING:
    # Type checkers know the imports above, and report any other name.
    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if home.endswith("_contract"):
            import pytest

            # Registered before the import, so that a failed assert shows its values there as in any test.
            pytest.register_assert_rewrite(home)
        return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
