"""Which coordinator a URL names, and what is said of one that cannot be used."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from skitter.cluster import coordinators
from skitter.cluster.coordinators import coordinator_of
from skitter.cluster.redis_coordinator import RedisCoordinator
from skitter.cluster.redlock_coordinator import RedlockCoordinator
from skitter.cluster.sqlite_coordinator import SqliteCoordinator
from skitter.errors import ClusterError, UsageError


class Lacking:
    def __init__(self, url: str, *, session_seconds: float) -> None: ...

    async def open(self) -> None: ...


def refuses(url: str, *, session_seconds: float) -> None:
    raise ClusterError(f"no such place: {url}")


def fails(url: str) -> None: ...


@pytest.mark.parametrize(
    ("url", "kind", "address"),
    [
        ("sqlite:x.db", SqliteCoordinator, "sqlite:x.db"),
        ("redis://:secret@h/2?namespace=a", RedisCoordinator, "redis://h:6379/2"),
        ("REDIS+SENTINEL://h1,h2/main", RedisCoordinator, "redis+sentinel://h1:26379,h2:26379/main"),
        ("redis+cluster://h1,h2?wait_replicas=1", RedisCoordinator, "redis+cluster://h1:6379,h2:6379"),
        ("unix:///tmp/r.sock?namespace=a&db=2", RedisCoordinator, "unix:///tmp/r.sock?db=2"),
        ("redlock://u:secret@a,b:7,[::1]/1", RedlockCoordinator, "redlock://a:6379/1,b:7/1,[::1]:6379/1"),
    ],
)
def test_the_scheme_names_the_coordinator_and_its_address_has_no_password(url: str, kind: type, address: str) -> None:
    made = coordinator_of(url)
    assert isinstance(made, kind)
    assert made.address == address
    assert made.session_seconds == 10.0


@pytest.mark.parametrize("url", ["", "x.db", "ftp://user:secret@host", "redis://h?shards=2", "redis://h?namespace="])
def test_what_is_no_coordinator_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        coordinator_of(url)
    assert "secret" not in f"{caught.value}{caught.value.hint}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("Lacking", UsageError, "it has no close, ping, on_connection_change"),
        ("refuses", ClusterError, "no such place: own:place"),
        ("fails", UsageError, "TypeError"),
        ("missing", UsageError, "cannot be imported"),
    ],
)
def test_a_coordinator_of_a_package_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, error: type[Exception], words: str
) -> None:
    class Found(EntryPoint):
        def load(self) -> Any:
            return globals()[self.value]

    monkeypatch.setattr(coordinators, "find_entry_point", lambda group, scheme: Found(scheme, name, group))
    with pytest.raises(error, match=words):
        coordinator_of("own:place")
