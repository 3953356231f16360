"""What reading a page costs: parse, links and title, beside bare selectolax and can_ada.

    python bench/extract_cost.py http://localhost:8000/index.html [more URLs]

Prints one JSON object: per URL its size and links, and CPU microseconds a page. ``bare`` parses,
takes every ``a[href]`` and joins each; ``bare_once`` joins equal hrefs once; ``ours`` is
``Response.links()`` and ``.title``; ``ratio`` is ours to bare; ``wishes`` is ours and what the page's owner asks
for (directives, canonical, nofollow), ``ratio_wishes`` is that to ours; ``guard`` is the share of ours that looking
for bombs takes. The best of several rounds counts, taken in turns, because other programs use the machine too.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import can_ada
from selectolax.lexbor import LexborHTMLParser

from skitter.extract.pathological_markup import cut_pathological
from skitter.extract.response import Response
from skitter.model.page import Page
from skitter.model.request import Request

ROUNDS = 15
SECONDS_PER_ROUND = 0.04


def fetch(url: str) -> Page:
    with urllib.request.urlopen(url) as answer:
        headers = [(name.lower(), value) for name, value in answer.headers.items()]
        return Page(url=url, status=answer.status, headers=headers, body=answer.read())


def bare(page: Page) -> int:
    base = can_ada.parse(page.url)
    return len([(base + (node.attributes["href"] or "")).href for node in LexborHTMLParser(page.body).css("a[href]")])


def bare_once(page: Page) -> int:
    base = can_ada.parse(page.url)
    hrefs = {node.attributes["href"] or "" for node in LexborHTMLParser(page.body).css("a[href]")}
    return len([(base + href).href for href in hrefs])


def ours(page: Page) -> int:
    response = Response(page, Request(page.url))
    links = response.links()
    return len(links) + (response.title is None)


def wishes(page: Page) -> int:
    response = Response(page, Request(page.url))
    links, directives = response.links(), response.directives
    return len(links) + (response.title is None) + (directives.canonical is None) + len(response.nofollow_links())


def guard(page: Page) -> int:
    return len(cut_pathological(page.body))


def microseconds(page: Page, works: list[Callable[[Page], int]]) -> list[float]:
    best = [float("inf")] * len(works)
    for _ in range(ROUNDS):
        for place, work in enumerate(works):
            turns, started = 0, time.process_time()
            while (spent := time.process_time() - started) < SECONDS_PER_ROUND:
                work(page)
                turns += 1
            best[place] = min(best[place], spent / turns * 1e6)
    return best


def main(urls: list[str]) -> None:
    report: dict[str, Any] = {}
    for url in urls:
        page = fetch(url)
        works = [bare, bare_once, ours, wishes, guard]
        bare_us, once_us, ours_us, wishes_us, guard_us = microseconds(page, works)
        report[url] = {
            "bytes": len(page.body),
            "hrefs": bare(page),
            "links": ours(page),
            "bare_us": round(bare_us, 1),
            "bare_once_us": round(once_us, 1),
            "ours_us": round(ours_us, 1),
            "wishes_us": round(wishes_us, 1),
            "guard_us": round(guard_us, 1),
            "guard": round(guard_us / ours_us, 4),
            "ratio": round(ours_us / bare_us, 3),
            "ratio_once": round(ours_us / once_us, 3),
            "ratio_wishes": round(wishes_us / ours_us, 3),
        }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
