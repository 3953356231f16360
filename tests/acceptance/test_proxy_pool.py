"""A crawl through a pool of real proxies with faults: nearly every page comes, and nothing goes past the proxies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from proxy_farm import Farm, Proxy, Site

CAP = 4
PASSWORD = "s3cret-w0rd"
FAULTS = ("refuse", "hang", "cut", "garbage", "other-password", "slow")
FAST = ("--set", "connect_timeout_seconds=2", "--set", "timeout_seconds=3", "--set", "retry_delay_seconds=0.1")


def proxies_with_faults() -> list[Proxy]:
    """Twenty by their URLs: one gateway with two users, six faults, one that host A bans, and eleven good ones."""
    gateway = Proxy("gateway", "good", (f"alice:{PASSWORD}", f"bob:{PASSWORD}"))
    faulty = [Proxy(kind, kind) for kind in FAULTS]
    return [gateway, *faulty, Proxy("banned", "good"), *(Proxy(f"good{n}", "good") for n in range(11))]


def listed(skitter: Any, *place: str) -> dict[int, dict[str, Any]]:
    """What ``skitter proxies`` tells, by port and user."""
    rows = [json.loads(line) for line in skitter.run("proxies", "--json", *place).stdout.splitlines()]
    return {row["proxy"].removeprefix("http://"): row for row in rows}


def crawl_arguments(skitter: Any, farm: Farm, *more: str) -> list[str]:
    path = skitter.folder / "proxies.txt"
    path.write_text(f"# the pool\n{farm.proxy_list()}\n")
    path.chmod(0o600)
    urls = [f"{site.url}/" for site in farm.sites]
    rules = ("--set", "proxy_ban_statuses=403", "--set", f"per_proxy={CAP}", "--set", "per_host=64")
    return ["crawl", *urls, "--job", "j", "--proxies", "proxies.txt", *rules, *FAST, "--json", *more]


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
    assert {len(seen) for seen in gateway.users_of_connections.values()} == {1}
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


@pytest.mark.parametrize("frontier", ["sqlite", "redis"])
def test_a_pool_with_faults_brings_nearly_every_page(skitter: Any, services: Any, tmp_path: Any, frontier: str) -> None:
    url = services.need("redis")["url"] if frontier == "redis" else "sqlite:jobs.db"
    place = ("--frontier", url, "--job", tmp_path.name)
    sites = [Site(150, frozenset({"banned"})), Site(150)]
    with Farm(sites, proxies_with_faults()) as farm:
        arguments = crawl_arguments(skitter, farm, "--workers", "4", "--set", "proxy_strategy=least_connections")
        arguments[arguments.index("--job") + 1] = tmp_path.name
        skitter.run(*arguments, "--frontier", url, "--set", "concurrency=32")
        check_crawl(skitter, farm, place, pages=302)
