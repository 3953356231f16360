"""One Chromium: started through Playwright and its guardian, with its age, its memory and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from playwright.async_api import Browser, BrowserContext, Error, Playwright

from skitter.errors import BrowserLostError
from skitter.fetch.browser import process_guardian
from skitter.fetch.browser.abandoned_calls import within
from skitter.fetch.browser.chromium import chromium_arguments

START_SECONDS = 60.0
ANSWER_SECONDS = 10.0
"""A browser that does not say its version for so long hangs. It may have to share a busy machine."""
END_SECONDS = 5.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class BrowserProcess:
    """A browser that runs."""

    def __init__(self, browser: Browser, folder: Path, on_end: Callable[[BrowserProcess], None]) -> None:
        self._browser = browser
        self._folder = folder
        self._guardian, self.driver_pid = map(int, (folder / process_guardian.PID_FILE).read_text().split())
        self._started_at = time.monotonic()
        self.served = 0
        """Pages that it was given."""
        self.in_use = 0
        """Pages that it has, without the one that waits ready."""
        self.is_retired = False
        """It is given no more pages."""
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it has ended, when it has."""
        self._on_end = on_end
        browser.on("disconnected", lambda _: self._ended("it has ended"))

    @classmethod
    async def start(
        cls,
        playwright: Playwright,
        program: str,
        folder: Path,
        *,
        refusing_port: int,
        sandbox: bool,
        on_end: Callable[[BrowserProcess], None],
    ) -> BrowserProcess:
        """Start one whose files are in ``folder``. Raises BrowserLostError."""
        command = [*("-I", "-S", process_guardian.__file__, str(folder), str(os.getpid())), program]
        command += chromium_arguments(refusing_port=refusing_port, sandbox=sandbox)
        try:
            launching = playwright.chromium.launch(
                executable_path=sys.executable,
                ignore_default_args=True,
                args=command,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=START_SECONDS * 1000,
            )
            browser = await within(START_SECONDS + END_SECONDS, launching)
            return cls(browser, folder, on_end)
        except (Error, TimeoutError, OSError, ValueError) as error:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise BrowserLostError(f"a browser could not be started: {program}: {_reason(error)}") from error

    @property
    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return not self.lost.done()

    @property
    def age_seconds(self) -> float:
        """Return how long it has been running."""
        return time.monotonic() - self._started_at

    async def new_context(self, *, proxy_port: int, user_agent: str, verify_tls: bool) -> BrowserContext:
        """A fresh context, without cookies and cache, whose traffic goes through this proxy."""
        return await self._browser.new_context(
            proxy={"server": f"http://127.0.0.1:{proxy_port}", "bypass": "<-loopback>"},
            user_agent=user_agent,
            ignore_https_errors=not verify_tls,
            accept_downloads=False,
            service_workers="block",
        )

    async def answers(self) -> bool:
        """Whether it still does what it is asked."""
        try:
            await within(ANSWER_SECONDS, self._ask_version())
        except (Error, TimeoutError):
            return False
        return True

    async def _ask_version(self) -> None:
        session = await self._browser.new_browser_cdp_session()
        await session.send("Browser.getVersion")
        await session.detach()

    def memory_bytes(self) -> int:
        """Memory of all its processes that they do not share. Reads /proc, so it is called in a thread."""
        total = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                if int(stat.read_bytes().rpartition(b")")[2].split()[2]) == self._guardian:
                    resident, shared = stat.with_name("statm").read_bytes().split()[1:3]
                    total += (int(resident) - int(shared)) * _PAGE_BYTES
        return total

    async def close(self) -> None:
        """End it, in peace if it can."""
        with contextlib.suppress(Error, TimeoutError):
            await within(END_SECONDS, self._browser.close())
        await self.kill("it was closed")

    async def kill(self, reason: str) -> None:
        """End it at once with all its processes, and remove its files."""
        self._ended(reason)
        await asyncio.to_thread(self._kill)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._guardian, signal.SIGTERM)
            deadline = time.monotonic() + END_SECONDS
            while time.monotonic() < deadline and self._folder.exists():
                time.sleep(0.02)
                os.kill(self._guardian, 0)
            os.killpg(self._guardian, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ended(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)
            self._on_end(self)


def _reason(error: Exception) -> str:
    """The line of Chromium's own words that says most, or Playwright's first one."""
    if isinstance(error, TimeoutError):
        return f"no answer within {START_SECONDS:g} s"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "FATAL" in line or "ERROR" in line or "error while loading" in line]
    return (told or lines or [type(error).__name__])[0][:300]
