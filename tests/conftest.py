"""What all suites share: how much Hypothesis tries, the real command line, and servers."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import none
from xdist.scheduler import LoadScopeScheduling

from rig.processes import SERVER, CommandLine
from rig.servers.redis import OwnRedis
from rig.services import OwnServers, Services

# Time limits belong to pytest-timeout: a per-example deadline fails on a busy machine and proves nothing.
settings.register_profile("slice", max_examples=30, derandomize=True, deadline=None)
settings.register_profile(
    "soak",
    max_examples=2_000,
    stateful_step_count=100,
    derandomize=False,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("slice")

# Where a shell runs the tests in the background, SIGINT is ignored, and every command started here would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["rig.costs", "rig.soak", "rig.web_fixtures"]

# Each process that a test starts would compile the package anew: half of the time of a short crawl.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Commands that a crawl prints for its user begin with what a shell would find.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


LONG_TESTS_FIRST = ("fault", "integration", "stateful", "acceptance", "docs", "contract")
"""Folders in the order in which several processes take them: at the end, none waits long for another."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests for several processes."""
    if hasattr(config, "workerinput"):
        items.sort(key=_place_in_order)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at fourteen thousand collected tests again and again."""
    # When it is first used, Hypothesis asks the collector whether something refers to its source of random numbers, and
    # warns if nothing does. The collector does not see referrers that are frozen.
    given(none())(lambda _: None)()
    gc.freeze()


def _place_in_order(item: pytest.Item) -> int:
    folder = item.nodeid.split("/")[1]
    return LONG_TESTS_FIRST.index(folder) if folder in LONG_TESTS_FIRST else len(LONG_TESTS_FIRST)


class GroupScheduling(LoadScopeScheduling):
    """Gives a process of pytest-xdist a class, the functions of a file, or one page of the documentation at a time."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        is_page = nodeid.startswith("tests/docs/")
        return nodeid if is_page else nodeid.partition("[")[0].rpartition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    return GroupScheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> Iterator[None]:
    """Commands are forks of one server, which has the environment that the tests begin with."""
    assert SERVER.environment
    yield
    SERVER.stop()


@pytest.fixture
def skitter(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Servers that no test kills. Slow ones are shared by all processes of pytest-xdist."""
    is_one_of_many = "PYTEST_XDIST_WORKER" in os.environ
    services = Services(tmp_path_factory.getbasetemp().parent if is_one_of_many else None)
    yield services
    services.stop()


@pytest.fixture
def own_server(services: Services) -> Iterator[OwnServers]:
    """Makes servers of the classes in rig.servers, for a test that kills, pauses or misconfigures them."""
    with OwnServers(services) as servers:
        yield servers


@pytest.fixture
def own_redis(own_server: OwnServers, tmp_path: Path) -> Callable[..., OwnRedis]:
    """Makes a redis-server with the settings given, for a test that kills or misconfigures it."""
    folders = (tmp_path / f"own-redis-{number}" for number in count())
    return lambda *settings, config="": own_server(OwnRedis, next(folders), *settings, config=config)
