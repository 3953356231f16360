"""A crawl through a pool of real proxies with faults: nearly every page comes, and nothing goes past the proxies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rig.processes import HANG_SECONDS
from rig.proxy_farm import Farm, Proxy, Shop

CAP = 4
PASSWORD = "s3cret-w0rd"
FAULTS = ("refuse", "hang", "cut", "garbage", "other-password", "slow")
FAST = ("--set", "connect_timeout_seconds=2", "--set", "timeout_seconds=3", "--set", "retry_delay_seconds=0.1")


def proxies_with_faults() -> list[Proxy]:
    """Twenty by their URLs: one gateway with two users, six faults, one that host A bans, and eleven good ones."""
    gateway = Proxy("gateway", "good", (f"alice:{PASSWORD}", f"bob:{PASSWORD}"))
    faulty = [Proxy(kind, kind) for kind in FAULTS]
    return [gateway, *faulty, Proxy("banned", "good"), *(Proxy(f"good{n}", "good") for n in range(11))]


def listed(skitter: Any, *place: str) -> dict[str, dict[str, Any]]:
    """What ``skitter proxies`` tells, by port and user; nothing while there is no job."""
    rows = [json.loads(line) for line in skitter.run("proxies", "--json", *place, code=None).stdout.splitlines()]
    return {row["proxy"].removeprefix("http://"): row for row in rows}


def write_list(skitter: Any, proxies: str) -> None:
    path = skitter.folder / "proxies.txt"
    path.with_suffix(".new").write_text(f"# the pool\n\n{proxies}\n")
    path.with_suffix(".new").replace(path)


def crawl_arguments(farm: Farm, *more: str) -> list[str]:
    urls = [f"{site.base}/" for site in farm.sites]
    rules = ("--set", "proxy_ban_statuses=403", "--set", f"per_proxy={CAP}", "--set", "per_host=64")
    return ["crawl", *urls, "--proxies", "proxies.txt", *rules, *FAST, "--json", *more]


def check_crawl(skitter: Any, farm: Farm, place: tuple[str, ...], pages: int) -> None:
    sites, proxies = farm.sites, {proxy.name: proxy for proxy in farm.proxies}
    status = skitter.json("status", *place)
    done = status["done"]
    assert done >= 0.99 * pages, status
    assert [site.direct for site in sites] == [[]] * len(sites), "nothing went past the proxies"
    total = sum(proxy.requests.total() for proxy in farm.proxies)
    for kind in ("hang", "cut", "garbage", "other-password"):
        assert proxies[kind].requests.total() <= 20 + 0.01 * total, (kind, proxies[kind].requests)
    for proxy in farm.proxies:
        assert all(most <= CAP for most in proxy.most.values()), (proxy.name, proxy.most)
    rows = listed(skitter, *place)
    refused = rows[f"127.0.0.1:{proxies['refuse'].port}"]
    assert refused["answers"] == 0
    assert 0 < refused["failures"] <= 20 + 0.01 * total
    # Two users of one gateway are two proxies, and no connection served both.
    gateway = proxies["gateway"]
    users = [rows[f"127.0.0.1:{gateway.port} as {user}"] for user in ("alice", "bob")]
    assert all(row["answers"] > 0 for row in users)
    assert {len(seen) for seen in gateway.users_of_connections} == {1}
    # Host A bans one: it is asked a few times, in flight when the first answer came, and goes on at host B.
    banned = rows[f"127.0.0.1:{proxies['banned'].port}"]
    assert 1 <= sites[0].refused["banned"] <= 2 * CAP
    assert sites[1].by["banned"] > 0
    assert banned["failures"] == 0
    # Half of all pages are not there, and no good proxy has a failure for it.
    assert all(rows[f"127.0.0.1:{proxies[f'good{n}'].port}"]["success_rate"] == 1.0 for n in range(11))
    shown = skitter.run("proxies", *place).stdout + skitter.run("status", *place).stdout
    assert PASSWORD not in shown
    assert "as alice" in shown


@pytest.mark.parametrize(
    ("frontier", "pages"),
    [
        ("sqlite", 60),
        ("redis", 60),
        pytest.param("sqlite", 2_000, marks=pytest.mark.soak),
        pytest.param("redis", 2_000, marks=pytest.mark.soak),
    ],
)
def test_a_pool_with_faults_brings_nearly_every_page(
    skitter: Any, services: Any, tmp_path: Any, frontier: str, pages: int
) -> None:
    url = services.need("redis")["url"] if frontier == "redis" else "sqlite:jobs.db"
    place = ("--frontier", url, "--job", tmp_path.name)
    sites = [Shop(pages, frozenset({"banned"})), Shop(pages)]
    with Farm(sites, proxies_with_faults()) as farm:
        arguments = crawl_arguments(farm, "--workers", "4", "--set", "proxy_strategy=least_connections")
        write_list(skitter, farm.proxy_list())
        skitter.run(*arguments, *place, "--set", "concurrency=32")
        check_crawl(skitter, farm, place, pages=2 * (pages + 1))


@pytest.fixture
def start(skitter: Any) -> Iterator[Callable[..., Any]]:
    """Start a node; what a test has left running ends with it."""
    started: list[Any] = []

    def node(*arguments: str) -> Any:
        started.append(skitter.start(*arguments))
        return started[-1]

    yield node
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("frontier", ["sqlite", pytest.param("redis", marks=pytest.mark.soak)])
def test_bans_survive_a_kill_and_without_a_proxy_everything_waits(
    skitter: Any, start: Any, until: Any, services: Any, tmp_path: Any, frontier: str
) -> None:
    url = services.need("redis")["url"] if frontier == "redis" else "sqlite:jobs.db"
    place = ("--frontier", url, "--job", tmp_path.name)
    site, other = Shop(20, frozenset({"banned"})), Shop(0)
    banned, dead, good = Proxy("banned", "good"), Proxy("dead", "refuse"), Proxy("good", "good")
    with Farm([site, other], [banned, dead, good]) as farm:
        write_list(skitter, "\n".join([*banned.urls(), *dead.urls()]))
        arguments = crawl_arguments(
            farm, "--set", "proxy_ban_seconds=600", "--set", "proxy_refresh_seconds=0.5", *place
        )
        first = start(*arguments)

        def is_stuck() -> bool:
            rows = listed(skitter, *place).values()
            return any(row["resting_seconds"] for row in rows) and any(site.base in row["banned_hosts"] for row in rows)

        # One is banned at the site and the other rests.
        until(is_stuck, first)
        (row,) = [row for row in listed(skitter, *place).values() if not row["failures"]]
        assert list(row["banned_hosts"]) == [site.base]
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()
        asked = site.refused.total()
        skitter.run("proxies", "ban", row["id"], *place)
        second = start(*arguments)
        until(lambda: skitter.json("status", *place)["blocked_by"] == "proxy", second)
        kept = listed(skitter, *place)[row["proxy"].removeprefix("http://")]
        assert 0 < kept["banned_hosts"][site.base] < row["banned_hosts"][site.base], "it is the ban of before"
        # A proxy of the watched file is used as soon as it is there.
        write_list(skitter, "\n".join([*banned.urls(), *good.urls()]))
        out, error = second.communicate(timeout=HANG_SECONDS)
        assert second.returncode == 0, error
        assert json.loads(out)["pages"] == 22
        assert site.refused.total() == asked, "the banned one was not asked again"
        assert (site.direct, other.direct) == ([], [])
        assert site.by.keys() == {"good"}


def test_proxies_are_listed_tested_and_banned_by_hand(skitter: Any, tmp_path: Any) -> None:
    place = ("--job", tmp_path.name)
    site, other = Shop(3), Shop(3)
    with Farm([site, other], [Proxy("one", "good", (f"alice:{PASSWORD}",)), Proxy("cut", "cut")]) as farm:
        write_list(skitter, farm.proxy_list())
        command = f"command:cat {skitter.folder / 'proxies.txt'}"
        skitter.run(*[word.replace("proxies.txt", command) for word in crawl_arguments(farm)], *place)
        rows = listed(skitter, *place)
        (one,) = [row for row in rows.values() if "alice" in row["proxy"]]
        assert (one["state"], one["answers"] > 8, one["bytes"] > 0) == ("ready", True, True)
        tested = skitter.run("proxies", "test", *place, "--json", code=1).stdout.splitlines()
        results = {result["id"]: result for result in map(json.loads, tested)}
        assert (results[one["id"]]["status"], results[one["id"]]["error"]) == (200, "")
        assert all(result["error"] for name, result in results.items() if name != one["id"])
        host = ("--host", site.base)
        assert skitter.run("proxies", "ban", one["id"], *host, "--seconds", "900", *place).stdout
        (banned,) = [row for row in listed(skitter, *place).values() if row["id"] == one["id"]]
        assert 600 < banned["banned_hosts"][site.base] <= 900
        assert "banned" in skitter.run("proxies", "ban", one["id"], *place).stdout
        assert "banned, " in skitter.run("proxies", *place).stdout
        skitter.run("proxies", "unban", one["id"], *place)
        (freed,) = [row for row in listed(skitter, *place).values() if row["id"] == one["id"]]
        assert not freed["banned_hosts"]
        assert not freed["banned_seconds"]
        for path in (skitter.folder / ".skitter").iterdir():
            assert path.stat().st_mode & 0o077 == 0, "what holds passwords is for its owner alone"


def test_single_pages_go_through_the_pool_too(skitter: Any) -> None:
    site, one = Shop(1), Proxy("one", "good")
    with Farm([site], [one]):
        (skitter.folder / "skitter.toml").write_text(f"[proxies]\nproxies = ['{one.urls()[0]}']\n")
        assert skitter.run("fetch", f"{site.base}/0").stdout == "a page"
        assert (site.direct, site.by["one"]) == ([], 1)


def test_a_source_that_cannot_be_read_is_told_before_anything_begins(skitter: Any) -> None:
    for source, words in (
        ("nowhere.txt", "cannot be read: nowhere.txt"),
        ("command:false", "exit code 1"),
        (f"htp://me:{PASSWORD}@proxy.example", "unknown source of proxies"),
    ):
        found = skitter.run("crawl", "http://example.com/", "--proxies", source, code=None)
        assert found.returncode in (2, 3)
        assert words in found.stderr
        assert PASSWORD not in found.stderr
    assert not (skitter.folder / ".skitter").exists()
