"""Write the pictures of the READMEs: docs/pictures/terminal.svg and docs/pictures/dashboard.png.

.venv/bin/python scripts/readme_pictures.py [terminal] [dashboard]

The terminal is a real one: a crawl of the demo site in a pty, killed with SIGKILL and started again. Only the prompts
are added. The dashboard is photographed as by scripts/dashboard_screenshots.py, with the system's Chromium.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from dashboard_demo import Demo
from skitter.fetch.browser.chromium import find_chromium

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
COLUMNS, LINES = 100, 24
COMMAND = ("crawl", "{url}", "-o", "pages.jsonl", "--job", "shop", "--workers", "2", "--delay", "0.03")
COUNT_DUPLICATES = """grep -o '"url":"[^"]*"' pages.jsonl | sort | uniq -d | wc -l"""
PROMPT = "\x1b[1;32m$\x1b[0m"
KILLED_AFTER_PAGES = 90
DONE_IN_DASHBOARD = 7_000
_CONTROL = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+|\x1b")
_SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
  line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""
"""As rich's own, without the fonts that it fetches from another host."""


class Screen:
    """The lines that a terminal shows and those that have scrolled away, for the sequences that rich's Live writes."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0

    def feed(self, text: str) -> None:
        for found in _CONTROL.finditer(text):
            part, code, letter = found[0], found[1], found[2]
            if part == "\n":
                self._row += 1
                if self._row == len(self.lines):
                    self.lines.append("")
            elif letter == "A":
                self._row = max(0, self._row - int(code or 1))
            elif letter == "K":
                self.lines[self._row] = ""
            elif letter == "m" or not part.startswith(("\x1b", "\r")):
                self.lines[self._row] += part


class Terminal:
    """A pty in which commands run one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.screen = Screen()

    def run(self, *words: str, kill_when: str = "") -> None:
        """Run a command to its end; with ``kill_when``, until the screen matches, and then kill its processes."""
        self.screen.feed(f"{PROMPT} skitter {' '.join(words)}\n")
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        process = subprocess.Popen(
            [sys.executable, "-m", "skitter", *words],
            cwd=self._folder,
            env=environment | {"TERM": "xterm-256color"},
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)
        killer = threading.Timer(120, os.killpg, (process.pid, signal.SIGKILL))
        killer.start()
        try:
            # A pty without a writer is an error to read, and not an end.
            with contextlib.suppress(OSError):
                while data := os.read(main, 65536):
                    self.screen.feed(data.decode())
                    if kill_when and re.search(kill_when, plain("\n".join(self.screen.lines))):
                        os.killpg(process.pid, signal.SIGKILL)
                        kill_when = ""
        finally:
            killer.cancel()
            os.close(main)
        if process.wait() == -signal.SIGKILL:
            self.screen.feed("\n\x1b[31mKilled\x1b[0m\n")


def plain(text: str) -> str:
    return Text.from_ansi(text).plain


@contextlib.contextmanager
def demo_site() -> Iterator[str]:
    """The address of ``skitter demo``, on a free port."""
    command = [sys.executable, "-m", "skitter", "demo", "--bind", "127.0.0.1:0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


def take_terminal(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, demo_site() as url:
        terminal = Terminal(Path(folder))
        words = [word.format(url=url) for word in COMMAND]
        done = "|".join(str(number) for number in range(KILLED_AFTER_PAGES, KILLED_AFTER_PAGES + 60))
        terminal.run(*words, kill_when=rf"done +({done})\b")
        # What the killed processes held is noticed by the next command, at once.
        terminal.run(*words)
        terminal.screen.feed(f"{PROMPT} {COUNT_DUPLICATES}\n")
        counted = subprocess.run(
            ["/bin/bash", "-c", COUNT_DUPLICATES], cwd=folder, check=True, capture_output=True, text=True
        )
        terminal.screen.feed(counted.stdout)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    shown = "\n".join(terminal.screen.lines).rstrip()
    # The port of this run says nothing to the reader; where it is followed by a column, the column stays where it is.
    shown = shown.replace(url, "http://127.0.0.1:8600/").replace(url.rstrip("/"), "http://127.0.0.1:8600 ")
    console.print(Text.from_ansi(shown))
    console.save_svg(str(path), title="skitter", theme=MONOKAI, code_format=_SVG, unique_id="skitter")


def take_dashboard(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, Demo(Path(folder)) as demo, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(""), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 760}, locale="en", color_scheme="light")
        page.goto(f"{demo.url}/#/jobs/{demo.store}/catalogue")
        page.locator("h1").wait_for()
        # The charts have a sample every few seconds, and need some of them.
        demo.wait_for(lambda: demo.get("/jobs/catalogue")["done"] > DONE_IN_DASHBOARD, seconds=120)
        page.screenshot(path=path)
        browser.close()


PICTURES = {"terminal": ("terminal.svg", take_terminal), "dashboard": ("dashboard.png", take_dashboard)}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        file, take = PICTURES[name]
        began = time.monotonic()
        take(FOLDER / file)
        print(f"docs/pictures/{file}: {(FOLDER / file).stat().st_size:,} bytes, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
