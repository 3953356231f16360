"""A plain function is a spider: from the command line, from a script, and through kill -9."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Any

import pytest

FUNCTIONS = """
    import time
    import urllib.request

    import skitter

    def scrape(url, meta):
        with urllib.request.urlopen(url) as answer:
            text = answer.read().decode()
        with open("calls", "a") as calls:
            calls.write(url + "\\n")
        time.sleep(0.05)
        return {"url": url, "text": text, "meta": meta}

    async def titles(response):
        return [{"title": response.title}, {"status": response.status}]

    def fails(url):
        raise OSError("no such place")

    if __name__ == "__main__":
        import sys

        summary = skitter.crawl(scrape, sys.argv[1:], output="script.jsonl")
        print(summary.state, summary.items)
"""


@pytest.fixture
def urls(skitter: Any, site: Any) -> list[str]:
    skitter.write("functions.py", FUNCTIONS)
    for number in range(60):
        site.page(f"/{number}", f"<title>page {number}</title>")
    return [site.url(f"/{number}") for number in range(60)]


def test_a_function_of_a_url_fetches_by_itself_and_robots_are_obeyed(skitter: Any, site: Any, urls: list[str]) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /3", content_type="text/plain")
    told = skitter.run("crawl", "functions.py:scrape", *urls[:5], "-o", "out.jsonl")
    assert sorted(line["url"] for line in skitter.lines("out.jsonl")) == sorted([*urls[:3], urls[4]])
    assert {line["text"] for line in skitter.lines("out.jsonl")} >= {"<title>page 0</title>"}
    assert "1 excluded" in told.stderr
    assert Counter(site.paths()) == Counter(["/0", "/1", "/2", "/4"]), "nothing was fetched twice"


def test_a_function_of_a_response_is_given_the_page(skitter: Any, urls: list[str]) -> None:
    skitter.run("crawl", "functions.py:titles", urls[0], "-o", "out.jsonl")
    assert skitter.lines("out.jsonl") == [{"title": "page 0"}, {"status": 200}]


def test_a_function_that_raises_is_tried_again_and_then_named(skitter: Any, urls: list[str]) -> None:
    settings = ("--set", "max_attempts=2", "--set", "retry_delay_seconds=0.1")
    told = skitter.run("crawl", "functions.py:fails", urls[0], *settings, code=1)
    assert "OSError: no such place" in told.stderr
    (failed,) = skitter.records("failed", "--job", "fails")
    assert (failed["error_class"], failed["attempts"]) == ("callback", 2)


def test_a_script_crawls_with_its_own_function(skitter: Any, urls: list[str]) -> None:
    import subprocess

    command = [*skitter.python, "functions.py", *urls[:3]]
    ended = subprocess.run(command, cwd=skitter.folder, capture_output=True, text=True, check=True)
    assert ended.stdout == "finished 3\n"
    assert sorted(line["url"] for line in skitter.lines("script.jsonl")) == sorted(urls[:3])


def test_kill_9_in_the_middle_loses_and_doubles_nothing(skitter: Any, urls: list[str], until: Any) -> None:
    command = ("crawl", "functions.py:scrape", *urls, "-o", "out.jsonl", "--concurrency", 3, "-q")
    calls = skitter.folder / "calls"
    for killed_after in (10, 30):
        crawl = skitter.start(*command)
        until(lambda: calls.exists() and len(calls.read_text().splitlines()) >= killed_after, crawl)  # noqa: B023
        os.killpg(crawl.pid, signal.SIGKILL)
        crawl.communicate()
    skitter.run(*command)
    assert Counter(line["url"] for line in skitter.lines("out.jsonl")) == Counter(urls)
