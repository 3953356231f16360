"""A store with jobs, ``skitter serve`` for it, and a real browser whose every request is watched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from dashboard_demo import Demo

WAIT_SECONDS = 60
expect.set_options(timeout=1_000 * WAIT_SECONDS)


class Watched:
    """A tab, and what must not happen in it."""

    def __init__(self, browser: Browser, demo: Demo, **options: Any) -> None:
        width = options.pop("width", 1600)
        self._demo = demo
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, locale=options.pop("language", "en"), **options
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(1_000 * WAIT_SECONDS)
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.open_streams: set[Any] = set()
        self.page.on("request", self._asked)
        for over in ("requestfinished", "requestfailed"):
            self.page.on(over, self._over)  # type: ignore[call-overload]
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        self.page.on("console", self._said)

    def _asked(self, request: Any) -> None:
        self.requests.append(request.url)
        if "/api/v1/events" in request.url:
            self.open_streams.add(request)

    def _over(self, request: Any) -> None:
        self.open_streams.discard(request)

    def _said(self, message: Any) -> None:
        # A server that is unavailable on purpose is told of by the browser itself.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    def open(self, address: str) -> Page:
        """Open a page of the dashboard, and wait until it is drawn."""
        self.page.goto(f"{self._demo.url}/{address}")
        self.page.wait_for_function("address => document.getElementById('main').dataset.shown === address", arg=address)
        return self.page

    def wait_for_streams(self, count: int) -> None:
        """Wait until so many streams of events are open."""
        deadline = time.monotonic() + WAIT_SECONDS
        while len(self.open_streams) != count:
            assert time.monotonic() < deadline, f"streams: {len(self.open_streams)}, not {count}"
            self.page.wait_for_timeout(20)  # Playwright tells of requests only while it is called

    def foreign_requests(self) -> list[str]:
        """Requests to anything but our own server."""
        own = (self._demo.url, "about:", "data:")
        return [url for url in self.requests if not url.startswith(own)]

    def check(self) -> None:
        """Nothing ran or was asked for that should not have been."""
        assert self.problems == []
        assert self.foreign_requests() == []
        assert self.page.evaluate("window.attacked") is None


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder: Path = tmp_path_factory.mktemp("demo")
    with Demo(folder, pages=2_500, delay_seconds=0.25, wait_pages=40) as demo:
        yield demo


@pytest.fixture(scope="module")
def browser(services: Any) -> Iterator[Browser]:
    program = services.need("chromium")["program"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Browser, demo: Demo) -> Iterator[Callable[..., Watched]]:
    """Makes tabs; each is checked at the end."""
    with ExitStack() as stack:

        def make(**options: Any) -> Watched:
            watched = Watched(browser, demo, **options)
            stack.callback(watched.context.close)
            made.append(watched)
            return watched

        made: list[Watched] = []
        yield make
        for watched in made:
            watched.check()
