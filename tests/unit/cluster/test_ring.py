"""The ring: every key has one home, and a server that joins or leaves moves its own share and no more."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.cluster.ring import VIRTUAL_NODES, Ring

KEYS = [f"{number:016x}-{number % 3}" for number in range(20_000)]
servers = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=8, unique=True)


def named(count: int) -> list[str]:
    return [f"10.0.0.{number}:27017" for number in range(count)]


def test_a_server_has_150_points():
    assert VIRTUAL_NODES == 150
    assert len(Ring(named(4))._points) == 4 * 150


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_the_keys_are_spread_evenly(count):
    homes = Counter(map(Ring(named(count)).home, KEYS))
    fair = len(KEYS) / count
    assert len(homes) == count
    assert all(0.7 * fair < held < 1.3 * fair for held in homes.values()), homes


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_a_server_that_joins_takes_its_share_and_nothing_else_moves(count):
    before, after = Ring(named(count)), Ring(named(count + 1))
    (new,) = {*after.servers} - {*before.servers}
    moved = [key for key in KEYS if before.home(key) != after.home(key)]
    assert {after.home(key) for key in moved} == {new}
    share = len(KEYS) / (count + 1)
    assert 0.7 * share < len(moved) < 1.3 * share


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
    assert [ring.home(key) for key in KEYS[:6]] == [f"10.0.0.{number}:27017" for number in (0, 0, 2, 1, 2, 0)]


def test_a_ring_without_servers_is_a_mistake():
    with pytest.raises(ValueError, match="at least one"):
        Ring([])
