"""A minimal crawler of pycurl, selectolax and can_ada in a loop, as the baseline of the bench.

``python -m skitter.bench.bare_parts START_URL... MAX_PAGES``. It is the limit of a crawler on these libraries: 64 in
flight, every link of every page joined, each URL fetched once, one JSON line a page. No frontier, no politeness, no
promises. Prints one JSON object.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from io import BytesIO
from typing import Any, TextIO

import can_ada
import pycurl
from selectolax.lexbor import LexborHTMLParser

IN_FLIGHT = 64


class Queue:
    """A queue of URLs of some origins, each once."""

    def __init__(self, starts: Sequence[str]) -> None:
        self._origins = tuple({start[: start.index("/", 8)] + "/" for start in starts})
        self._seen = set(starts)
        self.urls = deque(starts)

    def take_links(self, url: str, body: bytes, out: TextIO) -> None:
        tree = LexborHTMLParser(body)
        title = tree.css_first("title")
        out.write(json.dumps({"url": url, "title": title.text() if title else None}) + "\n")
        base = can_ada.parse(url)
        for node in tree.css("a[href]"):
            href = node.attributes["href"]
            try:
                link = (base + href).href if href is not None else ""
            except (ValueError, TypeError):
                continue
            link = link.partition("#")[0]
            if link not in self._seen and link.startswith(self._origins):
                self._seen.add(link)
                self.urls.append(link)


def crawl(starts: Sequence[str], max_pages: int) -> tuple[int, float]:
    """Crawl, and return the number of pages and the seconds."""
    queue = Queue(starts)
    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_MAXCONNECTS, IN_FLIGHT)
    idle = [_handle() for _ in range(IN_FLIGHT)]
    pages = flying = 0
    began = time.perf_counter()
    with tempfile.TemporaryFile("w") as out:
        while queue.urls or flying:
            while queue.urls and idle and pages + flying < max_pages:
                curl, url, buffer = idle.pop(), queue.urls.popleft(), BytesIO()
                curl.setopt(pycurl.URL, url)
                curl.setopt(pycurl.WRITEDATA, buffer)
                curl.page = (url, buffer)
                multi.add_handle(curl)
                flying += 1
            multi.perform()
            if not flying:
                break
            multi.select(0.1)
            _, ended, failed = multi.info_read()
            if failed:
                sys.exit(f"error: the bare parts cannot fetch a page: {failed[0][0].page[0]}: {failed[0][2]}")
            for curl in ended:
                url, buffer = curl.page
                multi.remove_handle(curl)
                flying -= 1
                idle.append(curl)
                if curl.getinfo(pycurl.RESPONSE_CODE) == 200:
                    pages += 1
                    if "html" in (curl.getinfo(pycurl.CONTENT_TYPE) or ""):
                        queue.take_links(url, buffer.getvalue(), out)
    return pages, time.perf_counter() - began


def _handle() -> Any:
    curl = pycurl.Curl()
    curl.setopt(pycurl.NOSIGNAL, 1)
    return curl


def main(arguments: Sequence[str]) -> int:
    pages, seconds = crawl(arguments[:-1], int(arguments[-1]))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    told = {
        "peer": "bare parts",
        "pages": pages,
        "pages_per_second": round(pages / seconds, 1),
        "cpu_ms_per_page": round((usage.ru_utime + usage.ru_stime) * 1000 / max(1, pages), 3),
        "rss_mb": usage.ru_maxrss // 1024,
    }
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
