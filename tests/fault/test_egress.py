"""Crawls through egresses that redial and are killed: no page is lost, no attempt is charged, no address is foreign.

The addresses are those of loopback: a redial takes the next one of a network of its own, and the server notes from
where it is asked. ``max_attempts=1``: a page that is charged an attempt has failed.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from rig.web import Seen, Site, Whole
from rig.web_connection import Connection

REDIAL = """
    number=$(($(cat number-{place}) + 1))
    echo $number > number-{place}
    echo 127.0.{place}.$number
"""
LIFETIME_SECONDS = 3
WIDTH = 8
"""Chains of pages, so that several requests are in flight."""


class Web:
    """Chains of pages that go on until it is told to end; it notes who asks for what, and when."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, str, str]] = []
        self.is_over = False
        self._site = Site({"*": self._answer})
        self.base = self._site.base
        self.close = self._site.close

    def _answer(self, seen: Seen, connection: Connection) -> Whole:
        path, peer = seen.path, connection.address
        if path == "/address":
            return 200, {}, peer.encode()
        self.seen.append((time.time(), peer, path))
        if path == "/robots.txt":
            return 404, {}, b""
        # Long enough for a redial to come while pages are in flight.
        connection.sleep(0.05)
        _, chain, *number = path.split("/")
        following = [f"{chain}/{int(number[0]) + 1}"] if number else [f"{chain}/0" for chain in range(WIDTH)]
        links = "" if number and self.is_over else "".join(f"<a href='/{name}'>x</a>" for name in following)
        return 200, {"Content-Type": "text/html"}, links.encode()

    def peers(self, place: int) -> set[str]:
        """The addresses of one egress that have asked for something."""
        return {peer for _, peer, _ in list(self.seen) if peer.startswith(f"127.0.{place}.")}


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.close()


class Egresses:
    """Egress processes of one job, and what they have logged."""

    def __init__(self, skitter: Any, frontier: str, web: Web) -> None:
        self._skitter = skitter
        self._frontier = frontier
        self._web = web
        self.processes: dict[int, subprocess.Popen[str]] = {}

    def start(self, place: int, *more: object) -> None:
        self._skitter.write(f"redial-{place}.sh", REDIAL.format(place=place))
        self._skitter.write(f"number-{place}", "1")
        self.processes[place] = self._skitter.start(
            *("egress", "--frontier", self._frontier, "--job", "j", "--listen", "127.0.0.1:0"),
            *("--lifetime", LIFETIME_SECONDS),
            *("--source", f"127.0.{place}.1", "--redial", f"sh redial-{place}.sh", "--allow-private"),
            *(
                "--address-url",
                f"{self._web.base}/address",
                "--log-format",
                "json",
                "--log",
                f"log-{place}.jsonl",
                *more,
            ),
        )

    def events(self, place: int) -> list[dict[str, Any]]:
        path: Path = self._skitter.folder / f"log-{place}.jsonl"
        # The last line may not be whole.
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def times(self, place: int) -> Iterator[tuple[str, float, float]]:
        """Each address with the time from which it was open, and to which: the next redial was over by then."""
        events = [event for event in self.events(place) if event["event"] in ("egress.opened", "egress.redialed")]
        at = [datetime.fromisoformat(event["time"]).timestamp() for event in events]
        for event, since, until in itertools.zip_longest(events, at, at[1:], fillvalue=float("inf")):
            if event["event"] == "egress.opened":
                yield event["address"], since, until

    def check_addresses(self) -> None:
        """Every request came from an address of an egress, in the time that it was open."""
        times = {address: (since, until) for place in self.processes for address, since, until in self.times(place)}
        for at, peer, path in self._web.seen:
            assert peer in times, f"{path} was asked for from {peer}"
            since, until = times[peer]
            # Of the log lines; a request is noted by its server a moment after it was passed on.
            assert since - 0.1 <= at <= until + 1.0, f"{path} was asked for from {peer}, which was not open"

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.communicate(timeout=HANG_SECONDS)


def _waits(condition: Callable[[], bool], process: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it did not come to it"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("egresses", "redials", "store"),
    [
        pytest.param(2, 3, "sqlite", id="2x3"),
        pytest.param(5, 20, "sqlite", id="5x20-sqlite", marks=pytest.mark.soak),
        pytest.param(5, 20, "redis", id="5x20-redis", marks=pytest.mark.soak),
    ],
)
def test_egresses_that_redial_and_are_killed_harm_no_page(
    skitter: Any, web: Web, request: pytest.FixtureRequest, egresses: int, redials: int, store: str
) -> None:
    frontier = f"sqlite:{skitter.folder / 'j.db'}"
    if store == "redis":
        frontier = request.getfixturevalue("own_redis")().url
    crawl = skitter.start(
        *("crawl", f"{web.base}/", "--frontier", frontier, "--job", "j", "--workers", "2", "-o", "out.jsonl"),
        *("--proxies", "registered", "--set", "max_attempts=1", "--allow-private"),
        *("--log", "crawl.jsonl", "--log-format", "json"),
    )
    running = Egresses(skitter, frontier, web)
    for place in range(1, egresses + 1):
        running.start(place, "--every", "1", "--at-least", "0.5")
    # Each has served pages from one more address than it has redialed.
    _waits(lambda: all(len(web.peers(place)) > redials for place in running.processes), crawl, 60 + 20 * redials)
    os.killpg(running.processes[1].pid, signal.SIGKILL)
    killed_at, before = time.time(), len(web.seen)
    _waits(lambda: len(web.seen) > before + 50 and time.time() > killed_at + LIFETIME_SECONDS, crawl, 60)
    web.is_over = True
    _, error = crawl.communicate(timeout=HANG_SECONDS)
    assert crawl.returncode == 0, error
    running.stop()
    running.check_addresses()
    told = [event["event"] for place in running.processes for event in running.events(place)]
    assert told.count("egress.redialed") >= egresses * redials
    assert "egress.cut" not in told, "each has waited for what was in flight"
    late = [peer for at, peer, _ in web.seen if peer in web.peers(1) and at > killed_at + 1]
    assert late == [], "what was killed has sent nothing more"
    out = [line["url"].removeprefix(web.base) for line in skitter.lines("out.jsonl")]
    assert len(out) == len(set(out))
    assert set(out) == {path for _, _, path in web.seen} - {"/robots.txt"}
    status = skitter.json("status", "--frontier", frontier, "--job", "j")
    assert (status["failed"], status["done"]) == (0, len(out)), "no page was charged an attempt"
    assert "egress:" not in (skitter.folder / "crawl.jsonl").read_text() + error, "no password is told"
