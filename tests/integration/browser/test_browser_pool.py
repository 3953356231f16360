"""Browsers that crash, hang, grow old or large, or do not start: what each costs, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rig.browser_sites import browser_folders, browser_processes, descendants, html
from rig.web import Site
from skitter.errors import BrowserLostError, FetchError
from skitter.fetch.browser import browser_process, pool
from skitter.model.browser_actions import WaitFor

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site({"*": html("<p>page</p>"), "/waits": html("<p>waits</p>")})
    yield site
    site.close()


def main_processes() -> set[int]:
    """Of browsers: not their children, and not their guardians."""
    return {
        pid
        for pid, line in browser_processes(os.getpid()).items()
        if "--user-data-dir" in line and "--type=" not in line and "crashpad" not in line and "guardian" not in line
    }


def driver_processes() -> dict[int, str]:
    return {pid: line for pid, line in descendants(os.getpid()).items() if "run-driver" in line}


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited for too long"
        await asyncio.sleep(0.05)


async def lost_by(renderer: Any, site: Site, number: int, **options: Any) -> str:
    """Send a signal to the browser while a page is in it; what the page ends with."""
    before = len(site.seen)
    waiting = asyncio.create_task(renderer.get(site.url("/waits"), actions=[WaitFor(seconds=60)], **options))
    await until(lambda: len(site.seen) > before or waiting.done())
    assert renderer.pool._browser is not None
    for pid in main_processes():
        # A helper process of the browser may just have ended by itself.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    try:
        await waiting
    except FetchError as error:
        return "lost" if isinstance(error, BrowserLostError) else f"{error.error_class}: {error}"
    return "done"


async def test_a_browser_that_is_killed_costs_no_attempt_and_a_page_that_kills_it_each_time_ends(
    make_renderer: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "is_suspect", lambda losses: losses >= 1)
    monkeypatch.setattr(pool, "is_fatal", lambda losses: losses >= 2)
    renderer = make_renderer(timeout_seconds=30)
    assert (await renderer.get(site.url("/first"))).status == 200
    assert await lost_by(renderer, site, signal.SIGKILL) == "lost"
    assert await lost_by(renderer, site, signal.SIGKILL) == "lost"
    ended = await lost_by(renderer, site, signal.SIGKILL)
    assert ended.startswith("browser: lost its browser 3 times, the last ones with this page alone: http://127.0.0.1")
    assert (await renderer.get(site.url("/other"))).status == 200
    await renderer.fetcher.close()
    assert main_processes() == set()
    assert browser_folders(os.getpid()) == []


async def test_a_browser_that_hangs_is_killed_and_so_are_its_processes(
    make_renderer: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_process, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(browser_process, "END_SECONDS", 2.0)
    renderer = make_renderer(timeout_seconds=60)
    assert (await renderer.get(site.url("/first"))).status == 200
    stopped = main_processes()
    assert await lost_by(renderer, site, signal.SIGSTOP, timeout_seconds=3) == "lost"
    await until(lambda: not stopped & main_processes())
    assert (await renderer.get(site.url("/other"))).status == 200
    await renderer.fetcher.close()
    assert browser_processes(os.getpid()) == {}


async def test_a_driver_that_does_not_end_is_killed(
    make_renderer: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_process, "END_SECONDS", 0.5)
    monkeypatch.setattr(pool, "CLOSE_SECONDS", 1.0)
    renderer = make_renderer()
    assert (await renderer.get(site.url("/first"))).status == 200
    os.kill(renderer.pool._driver_pid, signal.SIGSTOP)
    await renderer.fetcher.close()
    assert driver_processes() == {}
    assert browser_processes(os.getpid()) == {}


async def test_a_driver_that_is_just_being_started_is_ended_too(make_renderer: Any, site: Site) -> None:
    renderer = make_renderer()
    rendering = asyncio.create_task(renderer.get(site.url("/first")))
    await until(lambda: renderer.pool is not None and renderer.pool._driver is not None)
    rendering.cancel()
    await renderer.fetcher.close()
    assert driver_processes() == {}


async def test_a_browser_has_its_pages_its_time_and_its_memory(
    make_renderer: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer = make_renderer(browser_max_pages=2, browser_max_bytes=1_000_000_000)
    monkeypatch.setattr(pool, "MEMORY_LOOK_SECONDS", 0.1)
    assert (await renderer.get(site.url("/0"))).status == 200
    first = renderer.pool._browser
    assert (await renderer.get(site.url("/1"))).status == 200
    # The third page is in another one, and the first is closed.
    assert (await renderer.get(site.url("/2"))).status == 200
    await until(lambda: not first.is_alive)
    second = renderer.pool._browser
    assert 10_000_000 < second.memory_bytes() < 1_000_000_000
    # Above the limit it takes no page more.
    monkeypatch.setattr(second, "memory_bytes", lambda: 1_000_000_001)
    await until(lambda: not second.is_alive)
    assert (await renderer.get(site.url("/3"))).status == 200
    # Far above it, it is killed, with the page in it.
    third = renderer.pool._browser
    waiting = asyncio.create_task(renderer.get(site.url("/waits"), actions=[WaitFor(seconds=15)]))
    await until(lambda: third.in_use)
    monkeypatch.setattr(third, "memory_bytes", lambda: 1_300_000_000)
    with pytest.raises(BrowserLostError):
        await waiting
    await renderer.fetcher.close()
    assert main_processes() == set()


async def test_a_browser_that_does_not_start_is_told(
    make_renderer: Any, site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pool, "START_PAUSES_SECONDS", (0.1,))
    renderer = make_renderer(browser_path="/bin/false")
    told: list[tuple[bool, bool]] = []
    renderer.fetcher.watch_room(lambda *news: told.append(news))
    for _ in range(3):
        with pytest.raises(BrowserLostError, match="a browser could not be started: /bin/false"):
            await renderer.get(site.url("/"))
        await until(lambda: told[-1][0])
    assert (False, True) in told
    assert told[-1] == (True, False)
    assert "no pages are rendered here for 0.1 s: a browser could not be started: /bin/false" in caplog.text
    await renderer.fetcher.close()


async def test_no_more_pages_at_a_time_than_the_setting_says(make_renderer: Any, site: Site) -> None:
    renderer = make_renderer(browser_pages=2)
    told: list[tuple[bool, bool]] = []
    renderer.fetcher.watch_room(lambda *news: told.append(news))
    rendering = [asyncio.create_task(renderer.get(site.url(f"/{n}"))) for n in range(5)]
    most = 0
    while not all(task.done() for task in rendering):
        most = max(most, renderer.pool._browser.in_use if renderer.pool and renderer.pool._browser else 0)
        await asyncio.sleep(0.01)
    assert [task.result().status for task in rendering] == [200] * 5
    assert most == 2
    assert (told[0], told[-1]) == ((False, True), (True, True))
    await renderer.fetcher.close()
