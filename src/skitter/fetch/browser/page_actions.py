"""Runs the actions of a rendered request on its page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from playwright.async_api import Error, Page

from skitter.errors import FetchError
from skitter.fetch.browser.abandoned_calls import within
from skitter.model.browser_actions import Action, Click, Fill, JavaScript, Screenshot, Scroll, WaitFor
from skitter.model.page import Rendering

MAX_RESULT_BYTES = 1_048_576
"""Of what scripts return, all together."""
MAX_SCREENSHOT_BYTES = 67_108_864
_TO_THE_END = "() => window.scrollTo(0, document.documentElement.scrollHeight)"


class ActionRun:
    """The actions of one page; ``deadline`` is by the monotonic clock."""

    def __init__(self, page: Page, deadline: float) -> None:
        self._page = page
        self._deadline = deadline
        self.rendering = Rendering()

    async def run(self, actions: Sequence[Action]) -> None:
        """Run them in their order. Raises FetchError (``browser``) for one that fails."""
        for place, action in enumerate(actions, 1):
            try:
                await self._run(action)
            except Error as error:
                # Playwright's message goes on with its log, in which the text of a field may stand.
                told = error.message.partition("\n")[0][:200]
                raise FetchError("browser", f"action {place} failed: {action!r:.200}: {told}") from error

    def _milliseconds(self, seconds: float | None) -> float:
        left = max(self._deadline - time.monotonic(), 0.001)
        return 1000 * min(left, seconds if seconds is not None else left)

    async def _run(self, action: Action) -> None:
        page = self._page
        match action:
            case WaitFor(selector=""):
                await asyncio.sleep(self._milliseconds(action.seconds) / 1000)
            case WaitFor():
                timeout = self._milliseconds(action.seconds)
                await page.locator(action.selector).first.wait_for(state=action.state, timeout=timeout)
            case Click():
                await page.locator(action.selector).first.click(timeout=self._milliseconds(action.seconds))
            case Fill():
                timeout = self._milliseconds(action.seconds)
                await page.locator(action.selector).first.fill(action.text, timeout=timeout)
            case Scroll():
                await self._scroll(action)
            case JavaScript():
                await self._run_script(action)
            case Screenshot():
                await self._take_picture(action)

    async def _scroll(self, action: Scroll) -> None:
        for _ in range(action.times):
            if action.pixels is None:
                await self._page.evaluate(_TO_THE_END)
            else:
                await self._page.evaluate("by => window.scrollBy(0, by)", action.pixels)
            await asyncio.sleep(min(action.pause_seconds, self._milliseconds(None) / 1000))

    async def _run_script(self, action: JavaScript) -> None:
        seconds = self._milliseconds(action.seconds) / 1000
        # As text, whose length no page can lie about: this process must not be filled with a value of any size.
        wrapped = f"""async most => {{
            const value = ({action.code}
            );
            const text = `${{JSON.stringify(await (typeof value === "function" ? value() : value))}}`;
            if (text.length > most) throw new Error("its value is too large");
            return text === "undefined" ? "null" : text;
        }}"""
        try:
            text: Any = await within(seconds, self._page.evaluate(wrapped, MAX_RESULT_BYTES))
        except TimeoutError as error:
            raise FetchError("browser", f"a script took longer than {seconds:g} s") from error
        try:
            self.rendering.script_results.append(msgspec.json.decode(str(text)))
        except (msgspec.DecodeError, RecursionError) as error:
            raise FetchError("browser", "the value of a script has no form in JSON") from error

    async def _take_picture(self, action: Screenshot) -> None:
        timeout = self._milliseconds(None)
        if action.selector:
            picture = await self._page.locator(action.selector).first.screenshot(timeout=timeout)
        else:
            picture = await self._page.screenshot(full_page=action.full_page, timeout=timeout)
        pictures = self.rendering.screenshots
        if sum(map(len, pictures)) + len(picture) > MAX_SCREENSHOT_BYTES:
            raise FetchError("too_large", f"the screenshots of the page have more than {MAX_SCREENSHOT_BYTES} bytes")
        pictures.append(picture)
