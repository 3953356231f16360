"""Compare crawls of a served site with an independent walk of its links: check_site.py START_URL [--kills N].

The walk uses the standard library only (urllib, html.parser), so it shares no code with skitter.
Crawls with one worker, with two, and once killed -9 as a whole N times at random moments and started
again each time. Every page must be found exactly once. Prints one JSON object; exits 1 on a difference.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections import Counter, deque
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit


class Links(HTMLParser):
    """The href of every <a> and <area>."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("a", "area"):
            self.found += [value.strip() for name, value in attrs if name == "href" and value is not None]


def walk(start: str) -> set[str]:
    """Every URL of the start's host that answers 200, by following links."""
    host = urlsplit(start).netloc
    seen, queue, pages = {start}, deque([start]), set()
    while queue:
        url = queue.popleft()
        try:
            with urllib.request.urlopen(url) as answer:
                kind, body = answer.headers.get_content_type(), answer.read()
        except urllib.error.HTTPError:
            continue
        pages.add(url)
        if kind != "text/html":
            continue
        parser = Links()
        parser.feed(body.decode("utf-8", "replace"))
        for href in parser.found:
            link = urldefrag(urljoin(url, href)).url.replace(" ", "%20").replace('"', "%22")
            if urlsplit(link).netloc == host and link not in seen:
                seen.add(link)
                queue.append(link)
    return pages


def crawl(start: str, folder: Path, workers: int, kills: int = 0) -> Counter[str]:
    """How often each URL stands in the results."""
    command = [sys.executable, "-m", "skitter", "crawl", start, "-o", "out.jsonl", "--job", "check", "-q"]
    command += ["--workers", str(workers), "--per-host", "64"]
    chance = random.Random(kills)
    for _ in range(kills):
        process = subprocess.Popen(command, cwd=folder, start_new_session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.3, 1.0))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.wait() == 0:
            print("note: the crawl ended before it could be killed", file=sys.stderr)
    subprocess.run(command, cwd=folder, check=True)
    return Counter(json.loads(line)["url"] for line in (folder / "out.jsonl").read_text().splitlines())


def status(folder: Path) -> dict[str, int]:
    command = [sys.executable, "-m", "skitter", "status", "--job", "check", "--json"]
    answer = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)
    names = ("queued", "delayed", "leased", "done", "redirected", "failed", "excluded", "seen")
    return {name: answer[name] for name in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("start")
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    expected = walk(options.start)
    report: dict[str, object] = {"walked": len(expected)}
    wrong = False
    for name, workers, kills in (("one worker", 1, 0), ("two workers", 2, 0), ("killed", 2, options.kills)):
        with tempfile.TemporaryDirectory() as folder:
            found = crawl(options.start, Path(folder), workers, kills)
            counts = status(Path(folder))
        sums = sum(counts.values()) - counts["seen"] == counts["seen"]
        missing, extra = sorted(expected - found.keys()), sorted(found.keys() - expected)
        doubled = [url for url, times in found.items() if times > 1]
        wrong = wrong or bool(missing or extra or doubled or not sums)
        report[name] = {
            "pages": len(found),
            "missing": missing[:5],
            "extra": extra[:5],
            "doubled": doubled[:5],
            "status": counts,
            "sums": sums,
        }
    print(json.dumps(report, indent=1))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
