"""The command ``egress``: in the pool while it works, not while it redials, and gone by itself when it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest

from rig.master import Master
from rig.processes import HANG_SECONDS
from skitter.frontier.contract import Frontier
from skitter.model.job import JobSpec
from skitter.model.proxy import ProxySeen
from skitter.settings import Settings
from skitter.testing.frontiers import open_frontier

T = TypeVar("T")
REDIAL = """
    number=$(($(cat number 2>/dev/null || echo 0) + 1))
    echo $number > number
    # A line that does not come up at once.
    if [ $number = 2 ]; then echo no carrier; exit 1; fi
    echo dialling
    echo 127.0.0.$((10 + number))
"""


class Pool:
    """The pool of a job, asked by the test."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, question: Callable[[Frontier], Awaitable[T]]) -> T:
        async def asked() -> T:
            frontier = open_frontier(self.url, "j", create=True)
            try:
                return await question(frontier)
            finally:
                await frontier.close()

        return asyncio.run(asked())

    def begin(self) -> None:
        settings = Settings.from_layers([("the test", {"proxy_pool": True})]).job_wide()
        self.ask(lambda frontier: frontier.begin(JobSpec(name="j", spider="s", settings=settings)))

    def proxies(self) -> list[ProxySeen]:
        return self.ask(lambda frontier: frontier.proxies())


def fetched(proxy: str, url: str) -> bytes | int:
    """The body that comes through a proxy, or the status of an error."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy}))
    try:
        with opener.open(url, timeout=HANG_SECONDS) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.fixture
def pool(skitter: Any) -> Pool:
    return Pool(f"sqlite:{skitter.folder / 'j.db'}")


@pytest.fixture(
    params=["sqlite", "http", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("redis", "shards"))]
)
def any_pool(request: pytest.FixtureRequest, skitter: Any) -> Iterator[Pool]:
    if request.param == "sqlite":
        yield Pool(f"sqlite:{skitter.folder / 'j.db'}")
    elif request.param == "http":
        with Master(skitter.folder, f"sqlite:{skitter.folder / 'j.db'}") as master:
            yield Pool(master.url)
    else:
        url = request.getfixturevalue("own_redis")().url
        yield Pool(url if request.param == "redis" else f"{url}?shards=3")


def test_an_egress_redials_when_it_is_banned_and_vanishes_when_it_is_killed(
    skitter: Any, site: Any, until: Any, any_pool: Pool
) -> None:
    pool = any_pool
    site.on("/address", lambda _seen, connection: (200, {}, f" {connection.address}\n".encode()))
    skitter.write("redial.sh", REDIAL)
    pool.begin()
    arguments = ("egress", "--frontier", pool.url, "--job", "j", "--listen", "127.0.0.1:0", "--source", "127.0.0.9")
    arguments += ("--redial", "sh redial.sh", "--at-least", "0.1", "--lifetime", "2")
    arguments += ("--address-url", site.url("/address"))
    process = skitter.start(*arguments, "--log-format", "json", "--log", "log.jsonl")
    (first,) = until(pool.proxies, process)
    assert fetched(first.url, site.url("/address").replace("127.0.0.1", "localhost")) == 502, "it leads nobody inside"
    assert first.expires_seconds is not None
    assert first.expires_seconds <= 2

    pool.ask(lambda frontier: frontier.ban_proxy(first.id, "http://a.example", 60))
    (second,) = until(lambda: [one for one in pool.proxies() if one.id != first.id], process)
    assert not second.banned_hosts
    assert urlsplit(second.url).password != urlsplit(first.url).password
    lines = skitter.lines("log.jsonl")
    assert [line["address"] for line in lines if line["event"] == "egress.opened"] == ["127.0.0.9", "127.0.0.11"]
    assert [line["reason"] for line in lines if line["event"] == "egress.draining"] == ["banned"]

    # The second redial fails, and the third does not.
    pool.ask(lambda frontier: frontier.ban_proxy(second.id, "", 60))
    (third,) = until(lambda: [one for one in pool.proxies() if one.id not in (first.id, second.id)], process)
    lines = skitter.lines("log.jsonl")
    failed = [line["error"] for line in lines if line["event"] == "egress.redial_failed"]
    assert failed == ["exit code 1: no carrier"]
    assert [line["address"] for line in lines if line["event"] == "egress.opened"][-1] == "127.0.0.13"
    assert [one.id for one in pool.proxies()] == [third.id]

    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not pool.proxies())
    texts = [(skitter.folder / "log.jsonl").read_text()]
    for one in (first, second, third):
        assert not [text for text in texts if (urlsplit(one.url).password or "?") in text]


def test_an_egress_serves_whoever_has_its_password_until_it_is_stopped(
    skitter: Any, site: Any, until: Any, pool: Pool
) -> None:
    site.on("/address", lambda _seen, connection: (200, {}, connection.address.encode()))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = skitter.run("egress", "--frontier", pool.url, "--job", "j", "--listen", f"127.0.0.1:{port}", code=3)
    assert f"error: cannot listen: 127.0.0.1:{port}: " in refused.stderr
    process = skitter.start(
        *("egress", "--frontier", pool.url, "--job", "j", "--listen", port, "--advertise", f"localhost:{port}"),
        *("--source", "127.0.0.21", "--allow-private", "--log-format", "json"),
    )
    # It is there before the job is, and waits for it.
    while json.loads(process.stderr.readline())["event"] != "egress.store_away":
        pass
    pool.begin()
    (found,) = until(pool.proxies, process)
    assert (urlsplit(found.url).hostname, urlsplit(found.url).port) == ("localhost", port)
    assert fetched(found.url, site.url("/address")) == b"127.0.0.21"
    stranger = found.url.replace(urlsplit(found.url).password or "?", "another")
    assert fetched(stranger, site.url("/address")) == 407
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 143, error
    assert pool.proxies() == []
    stopped = [line for line in map(json.loads, error.splitlines()) if line["event"] == "egress.stopped"]
    assert (stopped[0]["requests"], stopped[0]["redials"]) == (1, 0)


def test_a_proxy_that_runs_already_can_be_an_egress(skitter: Any, until: Any, pool: Pool) -> None:
    pool.begin()
    arguments = ("--frontier", pool.url, "--job", "j", "--proxy", "http://me:canary-of-mine@127.0.0.1:9")
    process = skitter.start("egress", *arguments, "--redial", "true", "--every", "1", "--at-least", "1")
    (found,) = until(pool.proxies, process)
    assert found.url == "http://me:canary-of-mine@127.0.0.1:9"
    shown = [process.stderr.readline()]
    while "redialed in" not in shown[-1]:
        shown.append(process.stderr.readline())
    until(pool.proxies, process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130
    assert "canary-of-mine" not in "".join([*shown, error])
