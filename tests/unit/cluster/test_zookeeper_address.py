"""URLs of ZooKeeper ensembles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.cluster.zookeeper.address import parse_ensemble, quoted, unquoted
from skitter.errors import UsageError


def test_a_url_names_hosts_root_and_session() -> None:
    ensemble = parse_ensemble("zookeeper://h1,h2:99,[::1]/a/b?session_seconds=20", session_seconds=10)
    assert ensemble.hosts == ("h1:2181", "h2:99", "[::1]:2181")
    assert (ensemble.root, ensemble.session_seconds, ensemble.acl) == ("/a/b", 20.0, "open")
    assert ensemble.tls is None


def test_a_url_without_a_path_has_a_root_of_skitters_own() -> None:
    assert parse_ensemble("zookeeper://h1/", session_seconds=10).root == "/skitter"


def test_credentials_make_nodes_their_creators_own_and_are_not_shown() -> None:
    ensemble = parse_ensemble("zookeeper://me:p%40ss@h1/a", session_seconds=10)
    assert (ensemble.user, ensemble.password, ensemble.acl) == ("me", "p@ss", "creator")
    assert ensemble.name == "zookeeper://me@h1/a"


@pytest.mark.parametrize(
    "url",
    [
        "zookeeper://",
        "zookeeper://h1,,h2",
        "zookeeper://h1#fragment",
        "zookeeper://h1?session_seconds=soon",
        "zookeeper://h1?session_seconds=0",
        "zookeeper://h1?acl=some",
        "zookeeper://h1?unknown=1",
        "zookeeper://h1?ca=file.pem",
        "zookeeper+ssl://h1?ca=missing.pem",
        "zookeeper+ssl://h1?client_cert=missing.pem",
        "redis://h1",
    ],
)
def test_what_is_no_such_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        parse_ensemble(url, session_seconds=10)


@given(st.text(min_size=1))
def test_every_name_becomes_that_of_a_node_and_back(name: str) -> None:
    node = quoted(name)
    assert unquoted(node) == name
    assert node.isascii()
    assert node.isprintable()
    assert "/" not in node
    assert node not in (".", "..")
