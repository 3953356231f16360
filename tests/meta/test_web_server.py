"""The web server of the tests keeps its own promises: what it holds, counts and tells."""

from __future__ import annotations

import queue
import socket
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from rig import web
from rig.web import Seen, Site
from rig.web_connection import Connection
from rig.web_faults import cut, response, silent


def fetched(url: str) -> tuple[int, bytes]:
    request = urllib.request.Request(url)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        return answer.status, answer.read()


def test_an_answer_that_is_held_comes_when_the_test_releases_it() -> None:
    with Site() as site, ThreadPoolExecutor() as threads:
        held = site.hold("/slow", response(b"at last"))
        waiting = [threads.submit(fetched, site.url("/slow")) for _ in range(2)]
        site.wait_until(lambda: held.waiting == 2)
        assert site.most_at_once == site.under_way == 2
        assert not any(one.done() for one in waiting)
        held.release()
        assert [one.result() for one in waiting] == [(200, b"at last")] * 2
        site.wait_until(lambda: site.under_way == held.waiting == 0)
        assert fetched(site.url("/slow")) == (200, b"at last"), "and from then on at once"


def test_several_answers_of_a_path_come_in_turn_and_the_last_one_for_ever() -> None:
    with Site() as site:
        site.on("/turns", response(b"1"), response(b"2"), lambda _seen, _connection: (200, {}, b"3"))
        assert [fetched(site.url("/turns"))[1] for _ in range(4)] == [b"1", b"2", b"3", b"3"]


def test_what_was_never_asked_for_is_told_with_what_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "WAIT_SECONDS", 0.01)
    with Site({"*": response()}) as site:
        for path in ("/a", "/a?b=1", "/a"):
            fetched(site.url(path))
        with pytest.raises(AssertionError, match=r"GET /a \(2 times\), GET /a\?b=1"):
            site.wait_for("/c")


@pytest.mark.parametrize("answer", ["held", "silent"])
def test_the_end_of_a_server_ends_what_is_under_way(answer: str) -> None:
    site = Site({"/": silent})
    if answer == "held":
        site.hold("/")
    with socket.create_connection(("127.0.0.1", site.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        site.wait_for("/")
        site.close()
        client.recv(1_000)
    assert (site.connections, site.open) == (1, 0)


def test_what_goes_wrong_in_an_answer_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: queue.Queue[type[BaseException]] = queue.Queue()
    # Pytest's own makes the test fail.
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.put(args.exc_type))

    def wrong(_seen: Seen, _: Connection) -> bytes:
        raise ValueError("a mistake in a test")

    with Site({"/wrong": wrong, "/cut": cut()}) as site:
        for path in ("/cut", "/wrong"):
            with pytest.raises(ConnectionError):
                fetched(site.url(path))
        assert raised.get(timeout=60) is ValueError
    assert raised.empty(), "a connection that was cut is no mistake"
