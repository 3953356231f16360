"""The site that is crawled: a synthetic web on loopback, or a site of the user's."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import msgspec

from skitter.app.crawl_source import seed_url
from skitter.errors import UsageError
from skitter.model.secrets import shown_url
from skitter.model.url import host_name, port
from skitter.policy.network_guard import refused
from skitter.testing.web import WebSpec, served

PAGES = 3000
LINKS = 20
PAGE_BYTES = 7000


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The start URL of crawls, and the number of pages they must fetch."""

    url: str
    pages: int
    """The most pages that are crawled."""
    is_own: bool
    """Whether it is the synthetic web, which has exactly ``pages``."""
    description: str


@contextlib.contextmanager
def opened(url: str | None, pages: int) -> Iterator[Site]:
    """Open the site at a URL, or serve a synthetic one by another process until the end of the block."""
    if url is not None:
        url = _of_this_network(url)
        yield Site(url=url, pages=pages, is_own=False, description=f"at most {pages:,} pages of {shown_url(url)}")
        return
    # One host: what a page costs is asked here, and the order of hosts is the business of ``bench frontier``.
    spec = WebSpec.plain(hosts=1, pages_per_host=pages, links_per_page=LINKS, page_bytes=PAGE_BYTES)
    told = f"{pages:,} pages of {PAGE_BYTES / 1000:g} kB with {LINKS} links, one host, served by this machine"
    with served(spec) as web:
        yield Site(url=web.urls[0], pages=pages, is_own=True, description=told)


def _of_this_network(text: str) -> str:
    """Return the URL if it is in the local network: a bench makes no pauses, and its bare parts read no robots.txt."""
    url = seed_url(text)
    name = host_name(url)
    try:
        answers = socket.getaddrinfo(name.strip("[]"), port(url), type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"the name cannot be resolved: {name}: {error}") from error
    # What the guard keeps strangers' links from is just what is allowed here.
    if any(refused(str(answer[4][0])) is None for answer in answers):
        raise UsageError(
            f"not a server on this machine or its network: {name}",
            hint="a bench makes no pauses: serve a copy of the site, for example with python -m http.server",
        )
    return url
