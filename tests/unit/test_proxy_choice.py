"""Choice and health of proxies: strategies, rests, bans, and whose fault a failure is."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from skitter.model.proxy import HostProxies, ProxyRecord, ProxyState, proxy_id, shown_proxy
from skitter.policy import proxy_choice as choice


def record(name: str, **fields: object) -> ProxyRecord:
    made = ProxyRecord(name, f"http://{name}.example", "test", 0.0)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def draws(count: int) -> list[int]:
    found, draw = [], 1
    for _ in range(count):
        draw = choice.next_draw(draw)
        found.append(draw)
    return found


def test_random_numbers_are_in_range_and_spread() -> None:
    found = draws(5_000)
    assert all(0 < draw < choice.DRAW_MODULUS for draw in found)
    tenths = Counter(draw * 10 // choice.DRAW_MODULUS for draw in found)
    assert all(400 < count < 600 for count in tenths.values())


def test_strategies() -> None:
    pool = [record("a", served=3, in_flight=1), record("b", served=1, in_flight=2), record("c", served=2, in_flight=1)]
    assert choice.choose("round_robin", pool, 1).id == "b"
    assert choice.choose("least_connections", pool, 1).id == "c"
    assert Counter(choice.choose("random", pool, draw).id for draw in draws(3_000)).keys() == {"a", "b", "c"}
    assert choice.choose("random", pool, choice.DRAW_MODULUS - 1).id == "c"


def test_weights_are_success_over_latency_plus_a_second() -> None:
    pool = [record("a", success=1.0, latency_seconds=0.0), record("b", success=0.5, latency_seconds=1.0)]
    taken = Counter(choice.choose("weighted", pool, draw).id for draw in draws(5_000))
    assert taken["a"] / taken["b"] == pytest.approx(4.0, rel=0.15)
    assert choice.choose("weighted", [record("z", success=0.0)], 5).id == "z"


def test_a_dead_proxy_is_tried_less_and_less() -> None:
    dead, now, tried = record("a"), 0.0, []
    while now < 7 * 86_400:
        if choice.is_alive(dead, now) and choice.has_room(dead, 16):
            tried.append(now)
            choice.failed(dead, now, "proxy")
        now += 1.0
    assert tried[:4] == [0.0, 1.0, 2.0, 17.0]
    after_twenty = [later - sooner for sooner, later in pairwise(tried[20:])]
    assert set(after_twenty) == {choice.MAX_REST_SECONDS}


def test_one_that_answers_has_its_whole_limit_again() -> None:
    proxy = record("a", answers=5, in_flight=3)
    assert choice.has_room(proxy, 4)
    choice.failed(proxy, 10.0, "timeout")
    assert not choice.has_room(proxy, 4)
    choice.answered(proxy, 2.0, 100)
    assert choice.has_room(proxy, 4)
    assert (proxy.latency_seconds, proxy.bytes, proxy.streak, proxy.error) == (2.0, 100, 0, "timeout")
    assert 0.9 < proxy.success < 1.0


@pytest.mark.parametrize(
    "fields",
    [{"state": ProxyState.DRAINING}, {"until": 5.0}, {"rest_until": 20.0}, {"banned_until": 20.0}],
)
def test_who_is_not_alive(fields: dict[str, object]) -> None:
    assert choice.is_alive(record("a", until=20.0), 10.0)
    assert not choice.is_alive(record("a", **fields), 10.0)


def test_a_ban_doubles_and_shrinks_with_answers() -> None:
    at_host = HostProxies()
    assert choice.ban(at_host, "a", 0.0, 60.0)
    assert not choice.ban(at_host, "a", 1.0, 60.0), "what was in flight says nothing new"
    assert choice.banned_until(at_host, "a") == 60.0
    choice.ban(at_host, "a", 60.0, 60.0)
    assert choice.banned_until(at_host, "a") == 180.0
    choice.answered_at(at_host, "a", 200.0)
    choice.answered_at(at_host, "a", 201.0)
    choice.answered_at(at_host, "a", 202.0)
    assert at_host.is_empty
    for _ in range(40):
        choice.ban(at_host, "a", choice.banned_until(at_host, "a"), 60.0)
    pair = at_host.pair("a")
    assert pair is not None
    assert pair.until <= 40 * choice.MAX_BAN_SECONDS


def test_two_proxies_that_agree_blame_the_host_until_it_answers() -> None:
    at_host = HostProxies()
    assert not choice.is_suspected(at_host, "a")
    assert not choice.is_suspected(at_host, "a"), "one proxy twice is one proxy"
    assert choice.is_suspected(at_host, "b")
    assert choice.is_suspected(at_host, "c")
    choice.answered_at(at_host, "c", 1.0)
    assert not choice.is_suspected(at_host, "b")


def test_three_failures_at_a_host_ban_the_proxy_there() -> None:
    at_host = HostProxies(kept="a")
    assert [choice.failed_at(at_host, "a", 1.0, 60.0) for _ in range(3)] == [False, False, True]
    assert choice.banned_until(at_host, "a") == 61.0
    assert at_host.kept == ""


def test_ids_need_the_secret_and_passwords_are_not_shown() -> None:
    url = "http://alice:s3cret@gate.example:3128"
    assert proxy_id(url, b"one") != proxy_id(url, b"two")
    assert proxy_id(url, b"one") != proxy_id(url.replace("alice", "bob"), b"one")
    assert shown_proxy(url) == "http://gate.example:3128 as alice"
    assert shown_proxy("http://T0KEN@gate.example") == shown_proxy("http://gate.example") == "http://gate.example"
    assert "s3cret" not in repr(ProxyRecord("id", url, "me", 0.0))
