"""Reads hostile answers as a worker does: ``python answer_eater.py SEED FROM TO``. Says each number before it begins.

An answer that holds the process for a second of the processor ends it, in whatever library it is. A sitemap is read in
pieces, and each of them has that second.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import defaultdict

from rig.answers import Answer, answer
from skitter.errors import SkitterError
from skitter.extract.response import Response
from skitter.fetch.contract import FetchRequest
from skitter.fetch.header_lines import HeaderLines, final_block
from skitter.model.lease import Lease, Work
from skitter.model.outcome import Outcome
from skitter.model.page import Page
from skitter.model.request import Fingerprinter, Links, Request, encode
from skitter.node.process_rlimits import limit_memory
from skitter.policy.robots import Robots
from skitter.policy.scope import Scope
from skitter.policy.traps import TrapRules
from skitter.settings import Settings
from skitter.spiders.site_spider import SiteSpider
from skitter.spiders.sitemaps import SITEMAP_CALLBACK, followed
from skitter.worker.callbacks import Callbacks
from skitter.worker.known_urls import KnownUrls
from skitter.worker.page_visit import Visitor
from skitter.worker.page_yield import LinkContext, PageYield
from skitter.worker.robots_gate import RobotsGate
from skitter.worker.url_table import UrlTable

HELD_SECONDS = 2.0
ANSWER_SECONDS = 5.0
"""Of a whole sitemap."""
MAX_BYTES = 2_000_000_000
URL = "http://a.example/a/b?c"


class Reader:
    """What a worker has, with a fetcher that gives the answer of the moment."""

    def __init__(self) -> None:
        obeyed = {"obey_nofollow": True, "obey_noindex": True, "obey_canonical": True, "obey_tdm": True}
        self._settings = Settings.from_layers([("fuzz", {"traps": "strict", "max_attempts": 1, **obeyed})])
        self._rules = LinkContext(
            spider=SiteSpider(),
            fingerprinter=Fingerprinter(b"secret", ignore_sessions=True),
            scope=Scope(traps=TrapRules(self._settings.traps, 2026)),
            known=KnownUrls(UrlTable.alone(1_000, b"secret", 1)),
        )
        self._visitor = Visitor(
            rules=self._rules,
            fetcher=self,  # type: ignore[arg-type]
            settings=self._settings,
            callbacks=Callbacks(callback_seconds=60, commit_part=self._commit_part),
        )
        self._gate = RobotsGate(source=self, fetcher=self, settings=self._settings)  # type: ignore[arg-type]
        self._lines = HeaderLines()

    async def _commit_part(self, part: Outcome, urls: list[str]) -> bool:
        return True

    async def fetch(self, request: FetchRequest) -> Page:
        """As the engine makes a page of what libcurl has read."""
        given = self._answer
        headers, _ = self._lines.read((final_block(given.lines) or [])[1:-1])
        return Page(url=request.url, status=given.status, headers=headers, body=given.body, address="192.0.2.1")

    async def read(self, given: Answer) -> None:
        self._answer = given
        if given.kind == "headers":
            await self._visitor.visit(_lease(Work.PAGE, Request(URL)), Request(URL))
        elif given.kind == "robots":
            outcome = await self._gate.read(_lease(Work.ROBOTS, Request(URL)))
            assert outcome.news is not None
            assert outcome.news.robots is not None
            robots = Robots.parse(outcome.news.robots.text, self._settings.fetch.agent)
            for url in given.urls:
                _arm()
                str(robots.deciding(url))
            self._follow("http://a.example/robots.txt", given)
        else:
            self._follow("http://a.example/sitemap.xml", given)

    def _follow(self, url: str, given: Answer) -> None:
        request = Request(url, SITEMAP_CALLBACK)
        response = Response(Page(url=url, status=200, headers=[], body=given.body), request)
        harvest = PageYield(self._rules, 7, request)
        for output in followed(response, [URL]):
            harvest.take(output)
            if isinstance(output, Links) and not output:
                # Here the worker does something else.
                _arm()
            if harvest.is_large:
                harvest.take_part(_lease(Work.PAGE, request))


def _lease(work: Work, request: Request) -> Lease:
    return Lease(work=work, id=7, epoch=1, host_key="http://a.example", payload=encode(request), leased_at=1.7e9)


def _arm() -> None:
    signal.setitimer(signal.ITIMER_PROF, HELD_SECONDS)


async def main(seed: int, start: int, end: int) -> None:
    limit_memory(MAX_BYTES)
    reader = Reader()
    longest: defaultdict[str, tuple[float, int]] = defaultdict(lambda: (0.0, 0))
    for number in range(start, end):
        os.write(1, b"%d\n" % number)
        given = answer(seed, number)
        began = time.thread_time()
        _arm()
        try:
            await reader.read(given)
        except SkitterError as error:
            os.write(1, f"refused {given.kind} {type(error).__name__}\n".encode())
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.thread_time() - began
        longest[given.kind] = max(longest[given.kind], (seconds, number))
        if seconds > ANSWER_SECONDS:
            sys.exit(f"it took {seconds:.1f} s")
    for kind, (seconds, number) in longest.items():
        os.write(1, f"longest {kind} {seconds:.3f} {number}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
