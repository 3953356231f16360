"""Reads mutated pages as a worker does: ``python page_eater.py SEED FROM TO``. Says each number before it begins.

A page that takes five seconds of the processor ends the process, in whatever library it is.
"""

from __future__ import annotations

import os
import signal
import sys

from rig.mutations import mutant
from skitter.errors import SkitterError
from skitter.extract.items import encode_item
from skitter.extract.response import Response
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.model.url import Joins
from skitter.node.process_rlimits import limit_memory

PAGE_SECONDS = 5.0
MAX_BYTES = 2_000_000_000
QUERIES = ("a::attr(href)", "div p::text", "table tr > td:first-child", "li ~ li", "[href], [src]", "p:has(b)")


def read(number: int, content_type: str, body: bytes, joins: Joins) -> None:
    """All that a spider may ask of a page. What it raises on purpose is an answer; anything else is a finding."""
    url = "http://site.test/a/b?c"
    headers = [("content-type", content_type)] if content_type else []
    response = Response(Page(url=url, status=200, headers=headers, body=body), Request(url), joins)
    record = {"title": response.title, "encoding": response.encoding, "kind": response.kind, "text": response.text[:99]}
    record["links"] = list(response.links())[:99]
    found = response.css(QUERIES[number % len(QUERIES)])
    record["found"] = found.getall()[:9]
    record["inner"] = [one.css("a::text").get() for one in found[:9]]
    record["body"] = response.css("body").text[:99]
    record["html"] = (response.css("html").get() or "")[:99]
    response.follow_all(css="a")
    if number % 10 == 0:
        try:
            record["xpath"] = [str(one) for one in response.xpath("//a/@href").getall()[:9]]
        except ValueError as error:
            # What libxml2 refuses, parsel says so.
            record["xpath"] = str(error)
    encode_item({name: _whole(value) for name, value in record.items()})


def _whole(value: object) -> object:
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def main(seed: int, start: int, end: int) -> None:
    limit_memory(MAX_BYTES)
    joins = Joins()
    for number in range(start, end):
        os.write(1, b"%d\n" % number)
        content_type, body = mutant(seed, number)
        signal.setitimer(signal.ITIMER_PROF, PAGE_SECONDS)
        try:
            read(number, content_type, body, joins)
        except SkitterError as error:
            os.write(1, b"refused %s\n" % type(error).__name__.encode())
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
