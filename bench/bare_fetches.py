"""pycurl alone on many hosts, or the bare parts: bare_fetches.py FILE CA_FILE [parse].

The file has the first URL of each host. 64 requests are in flight; each handle fetches all pages of a host, one after
the other, over one connection, and then takes the next host. With ``parse``, title and links of every page are found
and a JSON line is written, as ``skitter.bench.bare_parts`` does: what a crawler on these parts must do at least.
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path

import pycurl
from many_hosts import PAGES

from skitter.bench.bare_parts import IN_FLIGHT, Queue


def fetch_all(urls: list[str], ca_file: str, *, parse: bool) -> int:
    multi = pycurl.CurlMulti()
    multi.setopt(pycurl.M_MAXCONNECTS, IN_FLIGHT)
    left = iter(urls)
    running: dict[pycurl.Curl, tuple[str, int, BytesIO]] = {}
    done = 0

    def start(curl: pycurl.Curl, url: str, page: int) -> None:
        body = BytesIO()
        running[curl] = (url, page, body)
        curl.setopt(pycurl.URL, f"{url}{page or ''}")
        curl.setopt(pycurl.WRITEDATA, body)
        multi.add_handle(curl)

    for url in [url for _, url in zip(range(IN_FLIGHT), left, strict=False)]:
        curl = pycurl.Curl()
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.ACCEPT_ENCODING, "gzip")
        curl.setopt(pycurl.CAINFO, ca_file)
        start(curl, url, 0)
    with tempfile.TemporaryFile("w") as out:
        while running:
            multi.perform()
            multi.select(0.1)
            _, ended, failed = multi.info_read()
            if failed:
                sys.exit(f"error: {running[failed[0][0]][0]}: {failed[0][2]}")
            for curl in ended:
                multi.remove_handle(curl)
                url, page, body = running.pop(curl)
                done += curl.getinfo(pycurl.RESPONSE_CODE) == 200
                if parse:
                    Queue([url]).take_links(url, body.getvalue(), out)
                if page + 1 < PAGES:
                    start(curl, url, page + 1)
                elif (following := next(left, None)) is not None:
                    start(curl, following, 0)
    return done


if __name__ == "__main__":
    print(fetch_all(Path(sys.argv[1]).read_text().split(), sys.argv[2], parse="parse" in sys.argv[3:]))
