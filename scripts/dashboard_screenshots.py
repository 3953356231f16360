"""Write pictures of every page of the dashboard to build/screenshots: wide and narrow, light and dark.

.venv/bin/python scripts/dashboard_screenshots.py [PAGE...]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, sync_playwright

from dashboard_demo import Demo
from skitter.fetch.browser.chromium import find_chromium

JOB = "#/jobs/demo/catalogue"
PAGES = {
    "jobs": "#/jobs",
    "overview": JOB,
    **{
        name: f"{JOB}/{name}"
        for name in ("hosts", "workers", "failures", "items", "why", "settings", "intakes", "network", "check")
    },
    "hostile": "#/jobs/demo/hostile/failures",
    "submit": "#/submit",
    "schedules": "#/schedules",
    "schedule": "#/schedules/demo/nightly",
    "audit": "#/audit",
}
LOOKS = {
    "wide-light": (1600, "light", "en"),
    "wide-dark": (1600, "dark", "en"),
    "narrow-light": (400, "light", "en"),
    "narrow-dark": (400, "dark", "zh"),
}
FOLDER = Path("build/screenshots")


def _print_error(message: ConsoleMessage) -> None:
    if message.type == "error":
        print(message.text, file=sys.stderr)


def taken(browser: Browser, demo: Demo, names: list[str]) -> Iterator[Path]:
    """Take pictures of pages, each as a whole."""
    failure = demo.get("/jobs/catalogue/failures", "&limit=1")["rows"]
    for look, (width, theme, language) in LOOKS.items():
        context = browser.new_context(viewport={"width": width, "height": 900}, locale=language, color_scheme=theme)  # type: ignore[arg-type]
        page = context.new_page()
        page.on("console", _print_error)
        page.on("pageerror", lambda error: print(error, file=sys.stderr))
        for name in names:
            address = PAGES[name]
            if name == "why" and failure:
                address += f"?url={failure[0]['url']}"
            page.goto("about:blank")
            page.goto(f"{demo.url}/{address}")
            page.locator("h1").wait_for()
            page.wait_for_timeout(4_500 if name == "overview" else 700)
            path = FOLDER / f"{name}-{look}.png"
            page.screenshot(path=path, full_page=True)
            yield path
        context.close()


def main() -> None:
    """Start the demo, and take the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, Demo(Path(folder)) as demo, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(""), args=["--no-sandbox"])
        for path in taken(browser, demo, sys.argv[1:] or list(PAGES)):
            print(path)
        browser.close()


if __name__ == "__main__":
    main()
