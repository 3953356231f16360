"""The ring: every key has one home, and a server that joins or leaves moves its own share and no more."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.cluster.ring import POINTS, VIRTUAL_NODES, Ring

KEYS = [f"{number:016x}-{number % 3}" for number in range(20_000)]
servers = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=8, unique=True)


def named(count: int) -> list[str]:
    return [f"10.0.0.{number}:27017" for number in range(count)]


NAMINGS = [
    named,
    lambda count: [f"node{number}" for number in range(count)],
    lambda count: [f"https://cache-{number}.example.com:{6379 + number}/0" for number in range(count)],
]


def shares(ring):
    """The exact part of the whole ring that each server has, as multiples of its fair part."""
    sizes = Counter()
    for before, point, owner in zip(
        [ring._points[-1] - 2**64, *ring._points], ring._points, ring._owners, strict=False
    ):
        sizes[owner] += point - before
    whole = sum(ring.weights.values())
    return {server: sizes[server] / 2**64 / (ring.weights[server] / whole) for server in ring.servers}


def test_a_server_has_150_virtual_nodes():
    assert VIRTUAL_NODES == 150
    assert len(Ring(named(4))._points) == 4 * 150 * POINTS
    assert len(Ring(named(4), points=1)._points) == 4 * 150


@pytest.mark.parametrize("names", NAMINGS, ids=lambda names: names(1)[0])
@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_the_keys_are_spread_within_a_tenth(count, names):
    ring = Ring(names(count))
    assert all(0.9 < share < 1.1 for share in shares(ring).values()), shares(ring)
    homes = Counter(map(ring.home, KEYS))
    fair = len(KEYS) / count
    assert all(0.9 * fair < homes[server] < 1.1 * fair for server in ring.servers), homes


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_a_server_that_joins_takes_its_share_and_nothing_else_moves(count):
    before = Ring(named(count))
    after = before.add("10.0.0.99:27017")
    moved = [key for key in KEYS if before.home(key) != after.home(key)]
    assert {after.home(key) for key in moved} == {"10.0.0.99:27017"}
    share = len(KEYS) / (count + 1)
    assert 0.8 * share < len(moved) < 1.2 * share
    back = after.remove("10.0.0.99:27017")
    assert [back.home(key) for key in KEYS] == [before.home(key) for key in KEYS]


def test_weights_are_shares():
    ring = Ring({"small": 0.5, "one": 1, "two": 2.0})
    assert all(0.9 < share < 1.1 for share in shares(ring).values()), shares(ring)
    heavier = ring.add("one", 2.0)
    moved = {heavier.home(key) for key in KEYS if heavier.home(key) != ring.home(key)}
    assert moved == {"one"}


@given(servers, st.text(), st.integers(0, 10))
def test_the_homes_of_copies_are_different_servers_and_begin_with_the_home(names, key, number):
    ring = Ring(names, 5)
    homes = ring.homes(key, number)
    assert len(homes) == len(set(homes)) == min(number, len(names))
    assert homes[:1] == [ring.home(key)][:number]
    if len(names) > 1 and number > 1:
        # The next is the home without the first.
        assert ring.remove(homes[0]).home(key) == homes[1]


@pytest.mark.parametrize("factor", [1.0, 1.1, 1.25, 2.0])
def test_bounded_load_is_kept_whatever_the_keys(factor):
    ring = Ring({"a": 1, "b": 1, "c": 2})
    loads = Counter()
    for key in KEYS[:2000]:
        loads[ring.home_below(f"hot {key[:1]}", loads, factor=factor)] += 1
        total = loads.total()
        assert all(loads[server] <= math.ceil(factor * total * ring.weights[server] / 4) for server in ring.servers)


def test_a_key_with_room_at_home_stays_there():
    ring = Ring(named(5))
    assert all(ring.home_below(key, {}) == ring.home(key) for key in KEYS[:500])
    full = ring.home("key")
    assert ring.home_below("key", dict.fromkeys(ring.servers, 10) | {full: 100}) == ring.homes("key", 2)[1]


@pytest.mark.parametrize("servers", [{"a": 0}, {"a": -1.0}, {"a": float("nan")}, {"a": float("inf")}])
def test_impossible_weights_are_a_mistake(servers):
    with pytest.raises(ValueError, match="weights"):
        Ring(servers)


@given(servers, st.data())
def test_a_server_that_leaves_gives_up_its_own_keys_only(names, data):
    gone = data.draw(st.sampled_from(names))
    rest = [name for name in names if name != gone]
    before = Ring(names)
    if not rest:
        return
    after = Ring(rest)
    for key in KEYS[:200]:
        assert after.home(key) == before.home(key) or before.home(key) == gone


@given(servers, st.randoms(use_true_random=False), st.text())
def test_the_order_of_naming_does_not_matter(names, chance, key):
    shuffled = [*names, *names[:1]]
    chance.shuffle(shuffled)
    assert Ring(shuffled).home(key) == Ring(names).home(key)


def test_homes_are_the_same_in_every_version():
    ring = Ring(named(3))
    assert [ring.home(key) for key in KEYS[:6]] == [f"10.0.0.{number}:27017" for number in (0, 0, 2, 2, 1, 1)]
    ring = Ring(named(3), points=1)
    assert [ring.home(key) for key in KEYS[:6]] == [f"10.0.0.{number}:27017" for number in (0, 0, 2, 1, 2, 0)]


def test_a_ring_without_servers_is_a_mistake():
    with pytest.raises(ValueError, match="at least one"):
        Ring([])
