"""The bare parts on a site: pycurl, selectolax and can_ada in a loop, with nothing between them.

bare_parts.py START_URL MAX_PAGES. The limit that a crawler on these parts can reach: 64 in flight,
every link of every page joined, each URL fetched once, one JSON line a page. No frontier, no
politeness, no promises. Prints one JSON object.
"""

import json
import resource
import sys
import tempfile
import time
from collections import deque
from io import BytesIO

import can_ada
import pycurl
from selectolax.lexbor import LexborHTMLParser

start, max_pages = sys.argv[1], int(sys.argv[2])
origin = start[: start.index("/", 8)]
seen, queue = {start}, deque([start])
out = tempfile.TemporaryFile("w")  # noqa: SIM115  until the end of the script
multi = pycurl.CurlMulti()
multi.setopt(pycurl.M_MAXCONNECTS, 64)
idle = []
for _ in range(64):
    curl = pycurl.Curl()
    curl.setopt(pycurl.NOSIGNAL, 1)
    idle.append(curl)


def take(url, body):
    tree = LexborHTMLParser(body)
    title = tree.css_first("title")
    out.write(json.dumps({"url": url, "title": title.text() if title else None}) + "\n")
    base = can_ada.parse(url)
    for node in tree.css("a[href]"):
        try:
            link = (base + node.attributes["href"]).href
        except (ValueError, TypeError):
            continue
        link = link.partition("#")[0]
        if link not in seen and link.startswith(origin):
            seen.add(link)
            queue.append(link)


pages = flying = 0
began = time.perf_counter()
while queue or flying:
    while queue and idle and pages + flying < max_pages:
        curl, url, buffer = idle.pop(), queue.popleft(), BytesIO()
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
    for curl in ended:
        url, buffer = curl.page
        multi.remove_handle(curl)
        flying -= 1
        idle.append(curl)
        if curl.getinfo(pycurl.RESPONSE_CODE) == 200:
            pages += 1
            if "html" in (curl.getinfo(pycurl.CONTENT_TYPE) or ""):
                take(url, buffer.getvalue())
    assert not failed, failed
seconds = time.perf_counter() - began
usage = resource.getrusage(resource.RUSAGE_SELF)
print(
    json.dumps(
        {
            "peer": "bare parts",
            "pages": pages,
            "pages_per_second": round(pages / seconds, 1),
            "cpu_ms_per_page": round((usage.ru_utime + usage.ru_stime) * 1000 / pages, 3),
            "rss_mb": usage.ru_maxrss // 1024,
        }
    )
)
