"""The blocking form, for scripts: threads hold locks, which are renewed while they work."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import pytest

import skitter.cluster
from skitter.cluster import MemberChange, Put, SessionState, connect_blocking
from skitter.errors import ClusterConflictError, LockLostError, UsageError


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'cluster.db'}"


def test_threads_exclude_each_other(url: str) -> None:
    inside: list[int] = []
    most: list[int] = []
    with connect_blocking(url) as cluster:

        def work() -> None:
            for _ in range(5):
                with cluster.lock("lock", retry_seconds=0.01) as held:
                    inside.append(1)
                    most.append(len(inside))
                    held.check()
                    inside.pop()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1] * 20


def test_a_lock_is_renewed_while_the_thread_is_busy(url: str) -> None:
    with connect_blocking(url) as one, connect_blocking(url) as other:
        with one.lock("lock", lifetime_seconds=3.0) as held:
            time.sleep(4.0)  # beyond the lifetime
            with pytest.raises(TimeoutError), other.lock("lock", timeout_seconds=0):
                pass
            assert not held.is_lost
            assert not held.wait_until_lost(0.01)
            held.extend(20.0)
        with other.lock("lock", timeout_seconds=60.0) as second:
            assert second.token is not None
            assert held.token is not None
            assert second.token > held.token
        with pytest.raises(LockLostError):
            held.check()


def test_a_thread_enters_a_reentrant_lock_again(url: str) -> None:
    with connect_blocking(url) as one:
        with one.lock("lock", reentrant=True), one.lock("lock", reentrant=True) as inner:
            inner.check()
        with one.lock("lock"), pytest.raises(UsageError, match="already"), one.lock("lock"):
            pass
        with (
            one.lead("work") as held,
            pytest.raises(TimeoutError),
            one.locks(["a", "leader of work"], timeout_seconds=0),
        ):
            held.check()
        with one.locks(["b", "a"]) as tokens:
            assert set(tokens) == {"a", "b"}


def test_keys_groups_and_limits(url: str) -> None:
    with connect_blocking(url) as one:
        assert one.state == SessionState.CONNECTED
        version = one.put("a/b", b"1")
        assert one.transaction([Put("a/b", b"2", version), Put("a/c", b"3")])[1] > version
        with pytest.raises(ClusterConflictError):
            one.put("a/b", b"4", version=version)
        entry = one.read("a/b")
        assert entry is not None
        assert entry.value == b"2"
        assert one.children("a") == ["b", "c"]
        assert [found.children for found in itertools.islice(one.watch("a"), 1)] == [("b", "c")]
        assert one.delete("a", recursive=True)
        with one.join("group", "me", b"data") as membership:
            assert one.members("group") == {"me": b"data"}
            membership.set_data(b"new")
            (event,) = itertools.islice(one.watch_members("group"), 1)
            assert (event.change, event.name, event.data) == (MemberChange.JOINED, "me", b"new")
        assert one.members("group") == {}
        limit = one.rate("key", per_second=0.01)
        limit.wait()
        assert not limit.take()
        with pytest.raises(TimeoutError):
            limit.wait(timeout_seconds=1.0)
    one.close()


def test_the_body_of_a_lock_may_fail(url: str) -> None:
    with connect_blocking(url) as one:
        with pytest.raises(ZeroDivisionError), one.lock("lock"):
            _ = 1 / 0
        with one.lock("lock", timeout_seconds=60.0):
            pass


def test_a_url_of_nothing_is_refused() -> None:
    for url in ("nowhere://x", "cluster.db", "sqlite:", "sqlite:///x", "redis://a,b", "redis://h?namespace={x}"):
        with pytest.raises(UsageError):
            connect_blocking(url)
        with pytest.raises(UsageError):
            skitter.cluster.connect(url)
    with pytest.raises(UsageError, match="session_seconds"):
        skitter.cluster.connect("sqlite:x", session_seconds=0)
