"""pycurl alone on many hosts: bare_fetches.py FILE, which has the first URL of each.

64 requests in flight; each handle fetches all pages of a host, one after the other, over one connection, and then takes
the next host. Nothing is parsed: it is what the requests of a broad crawl cost at least.
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import pycurl
from many_hosts import PAGES

IN_FLIGHT = 64


def fetch_all(urls: list[str]) -> int:
    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_MAXCONNECTS, IN_FLIGHT)
    left = iter(urls)
    pages: dict[pycurl.Curl, tuple[str, int]] = {}
    done = 0

    def start(curl: pycurl.Curl, url: str, page: int) -> None:
        pages[curl] = (url, page)
        curl.setopt(pycurl.URL, f"{url}{page or ''}")
        curl.setopt(pycurl.WRITEDATA, BytesIO())
        multi.add_handle(curl)

    for url in [url for _, url in zip(range(IN_FLIGHT), left, strict=False)]:
        curl = pycurl.Curl()
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.ACCEPT_ENCODING, "gzip")
        curl.setopt(pycurl.CAINFO, sys.argv[2])
        start(curl, url, 0)
    while pages:
        multi.perform()
        multi.select(0.1)
        _, ended, failed = multi.info_read()
        if failed:
            sys.exit(f"error: {pages[failed[0][0]][0]}: {failed[0][2]}")
        for curl in ended:
            multi.remove_handle(curl)
            url, page = pages.pop(curl)
            done += curl.getinfo(pycurl.RESPONSE_CODE) == 200
            if page + 1 < PAGES:
                start(curl, url, page + 1)
            elif (following := next(left, None)) is not None:
                start(curl, following, 0)
    return done


if __name__ == "__main__":
    print(fetch_all(Path(sys.argv[1]).read_text().split()))
