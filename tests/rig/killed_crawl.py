"""A crawl that is killed and started again, and its server with it; it yields four items a page."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from rig.gate import Gate
from rig.processes import CommandLine
from rig.restarted_command import RestartedCommand
from rig.watched_web import WatchedWeb
from skitter.model.url import canonical

PER_PAGE = 4
SPIDER = """
    from skitter import Spider


    class Parts(Spider):
        name = "parts"

        def __init__(self, urls=""):
            super().__init__()
            self.start_urls = urls.split()

        def parse(self, response):
            for part in range(4):
                yield {"url": response.url, "part": part, "text": "x" * 300, "tags": ["a", part], "half": part / 2}
            yield from response.follow_all(css="a")
"""
QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2")


class Server(Protocol):
    """The server of a target. It keeps through its lives what it has confirmed."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Kill(NamedTuple):
    """Something that is done to a crawl, and when."""

    asked: int
    """The gate is shut when so many things were asked for."""
    act: Callable[[], object]


def kills_at(moments: Iterable[int], act: Callable[[], object]) -> list[Kill]:
    return [Kill(pages, act) for pages in moments]


def spread(number: int, pages: int) -> list[int]:
    """Moments of a crawl that are spread over it evenly, none of them near its beginning or its end."""
    return [pages * (place + 1) // (number + 1) for place in range(number)]


def by_chance(chance: random.Random, number: int, pages: int) -> list[int]:
    """Moments anywhere in a crawl."""
    return sorted(chance.sample(range(1, pages), number))


@contextmanager
def ended(crawl: RestartedCommand) -> Iterator[None]:
    """Nothing of the crawl is left behind the block, however it ends."""
    try:
        yield
    finally:
        crawl.kill()


def under_kills(crawl: RestartedCommand, gate: Gate, kills: Iterable[Kill]) -> None:
    """Run the crawl to its end, with these kills on its way. Nothing is answered while one is carried out."""
    planned = sorted(kills, key=lambda each: each.asked)
    following = [*(float(kill.asked) for kill in planned[1:]), math.inf]
    with ended(crawl):
        for kill, then in zip(planned, following, strict=True):
            with gate.shut_at(kill.asked, crawl.keep_running, then):
                kill.act()
        crawl.finish()


def parts_crawl(skitter: CommandLine, web: WatchedWeb, target: str, *options: object) -> RestartedCommand:
    """Write the spider, and return the crawl that runs it."""
    skitter.write("parts.py", SPIDER)
    urls = ("-a", f"urls={' '.join(web.urls)}")
    return RestartedCommand(skitter, "crawl", "parts.py", *urls, "-o", target, "--job", "j", *QUICK, *options)


def pages_crawl(skitter: CommandLine, web: WatchedWeb, *options: object) -> RestartedCommand:
    """Return a crawl of all pages of a web by two workers."""
    target = ("-o", "out.jsonl", "--workers", 2)
    return RestartedCommand(skitter, "crawl", *web.urls, *target, *QUICK, "--set", "lease_seconds=3", *options)


def has_each_page_once(skitter: CommandLine, web: WatchedWeb) -> bool:
    """Whether the results of the crawl are those that are expected."""
    found = Counter(canonical(record["url"]) for record in skitter.lines("out.jsonl"))
    return found == Counter(web.expected().done)


def kills_of(
    crawl: RestartedCommand, server: Server | None, chance: random.Random, pages: int, kills: int, server_kills: int
) -> list[Kill]:
    """Kill the crawl and the server at moments anywhere in the crawl. The server is back some pages later.

    The crawl is not killed meanwhile: it would not start without its server, and come to no other page.
    """
    away = max(2, pages // (8 * max(1, server_kills)))
    begins = spread(server_kills, pages) if server is not None else []
    outages = [(begin, min(begin + away, pages)) for begin in begins]
    moments = [at for at in range(1, pages) if not any(begin <= at <= end for begin, end in outages)]
    planned = [Kill(moment, crawl.kill) for moment in chance.sample(moments, kills)]
    if server is not None:
        planned += [kill for begin, end in outages for kill in (Kill(begin, server.kill), Kill(end, server.start))]
    return planned


def is_delivered(skitter: CommandLine) -> bool:
    return bool(skitter.json("status", "--job", "j")["undelivered"] == 0)


def expected_items(web: Any) -> Counter[tuple[str, int]]:
    """Page and part of each item of a web."""
    return Counter((page, part) for page in web.expected().done for part in range(PER_PAGE))
