"""kill -9 of a crawl that downloads and whose requests have options: no file is half, no record lost or doubled."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from typing import Any

import pytest

from rig.gate import Gate
from rig.killed_crawl import QUICK, kills_at, spread, under_kills
from rig.restarted_command import RestartedCommand
from rig.web import Seen, Whole
from rig.web_connection import Connection

SPIDER = """
from skitter import Request, Spider

class Files(Spider):
    name = "files"

    def start(self):
        for number in range(int(self.number)):
            yield Request(f"{self.base}/page/{number}", form={"n": number}, handle_statuses=[404])
            yield Request(f"{self.base}/broken/{number}", max_attempts=2, timeout=20, errback="broken")

    def parse(self, response):
        assert response.status == 404
        number = int(response.url.rpartition("/")[2])
        yield {"page": number}
        yield response.download(f"/file/{number}", item={"of": number})
        yield response.download(f"/file/{number // 2}")

    def broken(self, failure):
        yield {"broken": failure.request.url}
"""
KILLS = 2


def content_of(number: int) -> bytes:
    """Two numbers have one content."""
    return random.Random(number // 2).randbytes(200_000)


@pytest.mark.parametrize("number", [12, pytest.param(400, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_files_and_records_are_all_there_once(skitter: Any, make_site: Any, number: int) -> None:
    gate = Gate()

    def answer(seen: Seen, _: Connection) -> Whole:
        """Pages with status 404 for a form, files, and pages that are always broken."""
        gate.arrive(seen.path)
        _, kind, name = seen.path.split("/")
        assert seen.body == (f"n={name}".encode() if kind == "page" else b"")
        status = {"page": 404, "file": 200, "broken": 500}[kind]
        body = content_of(int(name)) if kind == "file" else b"page"
        return status, {"Content-Type": "application/octet-stream"}, body

    site = make_site({"*": answer})
    skitter.write("files.py", SPIDER)
    crawl = RestartedCommand(
        skitter,
        *("crawl", "files.py", "-a", f"base={site.base}", "-a", f"number={number}"),
        *("-o", "out.jsonl", "--workers", 2, "--per-host", 4, "--ignore-robots", "-q"),
        *QUICK,
        *("--set", "max_attempts=5"),
    )
    # A page, a broken page and a file of each number.
    under_kills(crawl, gate, kills_at(spread(KILLS, 3 * number), crawl.kill))

    lines = skitter.lines("out.jsonl")
    assert Counter(line["page"] for line in lines if "page" in line) == Counter(range(number))
    assert len({line["broken"] for line in lines if "broken" in line}) == number
    assert sum("broken" in line for line in lines) == number
    files = {line["url"].rpartition("/")[2]: line for line in lines if "path" in line}
    assert sum("path" in line for line in lines) == len(files) == number
    folder = skitter.folder / "files"
    for name, line in files.items():
        content = (folder / line["path"]).read_bytes()
        assert content == content_of(int(name))
        assert (line["status"], line["checksum"]) == ("stored", hashlib.sha256(content).hexdigest())
    stored = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert stored == {line["path"] for line in files.values()}, "nothing half is left"
    # Two attempts each, and one more for what was in flight at a kill.
    attempts = Counter(path for path in site.paths() if path.startswith("/broken/"))
    assert min(attempts.values()) >= 2
    assert sum(attempts.values()) <= 2 * number + KILLS * 2 * 64
