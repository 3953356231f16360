"""Browsers, their guardians, the driver and the worker are killed while pages are rendered.

Every page is stored once, none has spent an attempt, and of the browsers nothing is left: no process, no folder.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.browser_sites import browser_folders, browser_processes, descendants, html, processes_with, until
from rig.soak import chance_of
from rig.web import Seen, Site, Whole
from rig.web_connection import Connection

SPIDER = """
from skitter import Request, Spider

class Pages(Spider):
    def start(self):
        for n in range(int(self.pages)):
            yield Request(f"{self.site}page/{n}", render=True)

    def parse(self, response):
        yield {"page": int(response.url.rpartition("/")[2]), "text": response.css("#made::text").get()}
"""
PAGE = """<script>document.body.insertAdjacentHTML("beforeend", "<p id=made>" + location.pathname)</script>"""


@pytest.fixture
def site(services: Any) -> Iterator[Site]:
    services.need("chromium")
    site = Site({"*": html(PAGE), "/robots.txt": (404, {}, b"")})
    yield site
    site.close()


def victims(root: int) -> dict[str, list[int]]:
    """Processes of browsers below a process, by what they are."""
    kinds: dict[str, list[int]] = {"main": [], "guardian": [], "renderer": []}
    for pid, line in browser_processes(root).items():
        if "process_guardian" in line:
            kinds["guardian"].append(pid)
        elif "--type=renderer" in line and "--top-chrome" not in line:
            kinds["renderer"].append(pid)
        elif "--user-data-dir" in line and "--type=" not in line and "crashpad" not in line:
            kinds["main"].append(pid)
    return kinds


def folders_below(root: int) -> set[Path]:
    """Folders of the browsers of workers below a process."""
    return {folder for pid in descendants(root) for folder in browser_folders(pid)}


def is_gone(folder: Path) -> bool:
    return not folder.exists() and not processes_with(folder.name)


def memory(root: int) -> int:
    """Of the browsers below a process, without what they share."""
    total = 0
    for pid in browser_processes(root):
        try:
            resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
        except OSError:
            continue
        total += (int(resident) - int(shared)) * 4096
    return total


@pytest.mark.parametrize(
    ("pages", "kills"),
    [
        (30, 3),
        pytest.param(300, 15, marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
        pytest.param(1000, 50, marks=[pytest.mark.soak, pytest.mark.timeout(2400)]),
    ],
)
def test_every_page_once_whatever_is_killed(skitter: Any, site: Site, pages: int, kills: int) -> None:
    skitter.write("pages.py", SPIDER)
    chosen = chance_of(pages)
    at = set(chosen.sample(range(5, pages), kills))
    killed: list[str] = []
    asked, turn = itertools.count(), threading.Lock()

    def kill_and_answer(_seen: Seen, _: Connection) -> Whole:
        with turn:
            number = next(asked)
            if len(killed) < sum(1 for place in at if place <= number):
                # Mostly the browser itself; now and then its guardian, or one page's own process. The request of a
                # browser that was killed a moment ago may find none of them: then at the next request.
                found = victims(crawl.pid)
                kinds = chosen.choices(["main", "guardian", "renderer"], [3, 1, 1], k=20)
                for kind in [kind for kind in kinds if found[kind]][:1]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(chosen.choice(found[kind]), signal.SIGKILL)
                        killed.append(kind)
        return html(PAGE)

    site.answers["*"] = kill_and_answer
    with (skitter.folder / "log").open("w") as log_file:
        crawl = skitter.start(
            *("crawl", "pages.py", "-a", f"site={site.url('/')}", "-a", f"pages={pages}", "-O", "out.jsonl"),
            *("--workers", "1", "--set", "browser_max_pages=50", "--set", "max_attempts=1"),
            stdout=log_file,
            stderr=log_file,
        )
    sizes: list[int] = []
    folders: set[Path] = set()
    try:
        while crawl.poll() is None:
            size = memory(crawl.pid)
            if size:  # none: the next browser is being started
                sizes.append(size)
            folders |= folders_below(crawl.pid)
            time.sleep(0.2)
    finally:
        crawl.kill()
    log = (skitter.folder / "log").read_text()
    assert crawl.returncode == 0, log
    assert len(killed) == kills
    found = [(item["page"], item["text"]) for item in skitter.lines("out.jsonl")]
    assert sorted(found) == [(n, f"/page/{n}") for n in range(pages)]
    report = json.loads(skitter.run("status", "--json").stdout)
    assert report["failed"] == 0
    assert folders
    assert until(lambda: all(map(is_gone, folders)))
    if pages >= 300:
        # Flat: the last third takes no more than the second, and a fifth.
        third = len(sizes) // 3
        middle, last = sorted(sizes[third : 2 * third]), sorted(sizes[2 * third :])
        assert last[len(last) // 2] <= 1.2 * middle[len(middle) // 2]


@pytest.mark.parametrize("is_hung", [False, True])
def test_nothing_is_left_of_the_browsers_of_a_worker_that_is_killed(skitter: Any, site: Site, is_hung: bool) -> None:
    skitter.write("pages.py", SPIDER)
    site.answers["*"] = html("<script>while (true) {}</script>")
    crawl = skitter.start(
        "crawl", "pages.py", "-a", f"site={site.url('/')}", "-a", "pages=4", "--workers", "1", stdout=-3, stderr=-3
    )
    try:
        assert until(lambda: len(site.asked()) >= 3 and victims(crawl.pid)["renderer"], 60)
        if is_hung:
            for pid in victims(crawl.pid)["main"]:
                os.kill(pid, signal.SIGSTOP)
        (folder,) = folders_below(crawl.pid)
        assert processes_with(folder.name)
        if is_hung:
            # The worker and its supervisor, but not the driver: that notices by itself.
            os.kill(crawl.pid, signal.SIGKILL)
            os.kill(int(folder.name.split("-")[3]), signal.SIGKILL)
        else:
            os.killpg(crawl.pid, signal.SIGKILL)
        assert until(lambda: is_gone(folder))
    finally:
        if crawl.poll() is None:
            os.killpg(crawl.pid, signal.SIGKILL)
        crawl.wait()
