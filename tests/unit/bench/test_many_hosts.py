"""The hosts of a broad crawl: all pages reachable, each name a zone of its own, and what is counted."""

from __future__ import annotations

import re

import many_hosts
import pytest

from skitter.fetch.dns_lookups import zone_of


def test_every_page_is_linked_by_the_first_and_none_links_back() -> None:
    links = {page: re.findall(rb'href="/(\d*)"', many_hosts.html_of(page)) for page in range(many_hosts.PAGES)}
    assert [int(link) for link in links[0]] == list(range(1, many_hosts.PAGES))
    assert all(int(link) in range(1, many_hosts.PAGES) for page in links for link in links[page])
    assert {len(many_hosts.html_of(page)) for page in links} <= set(range(3500, many_hosts.PAGE_BYTES + 1))


def test_each_host_is_a_zone() -> None:
    names = [many_hosts.name_of(host) for host in (0, 1, 9_999)]
    assert [zone_of(name) for name in names] == names


def test_requests_and_the_longest_gap_of_a_host_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([1.0, 2.0, 5.0, 5.5])
    monkeypatch.setattr(many_hosts.time, "monotonic", lambda: next(now))
    web = many_hosts.Web()
    heads = [b"GET /%d HTTP/1.1\r\nHost: %b\r\n" % pair for pair in ((1, b"a"), (1, b"b"), (2, b"a"), (2, b"b"))]
    assert [web.request(head)[:15] for head in heads] == [b"HTTP/1.1 200 OK"] * 4
    assert (web.counts.requests, web.counts.longest_gap_seconds) == (4, 4.0)
    monkeypatch.undo()
    assert web.request(b"GET /nothing HTTP/1.1\r\nHost: a\r\n").startswith(b"HTTP/1.1 404")
