"""The relay of the tests does what tests rely on: it cuts, loses, swallows, refuses, and tells when it has."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from rig.relay import Relay
from rig.web import Seen, Site
from rig.web_connection import Connection

BODY = b"x" * 1000


def echo(seen: Seen, _: Connection) -> tuple[int, dict[str, str], bytes]:
    return 200, {}, seen.path.encode() + BODY


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site({"*": echo})
    yield site
    site.close()


@pytest.fixture
def relay(site: Site) -> Iterator[Relay]:
    with Relay("127.0.0.1", site.port) as relay:
        yield relay


def ask(client: socket.socket, path: str) -> bytes:
    """What comes back until the whole answer is there or the connection ends."""
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    found = b""
    while not found.endswith(BODY) and (more := client.recv(65_536)):
        found += more
    return found


def connected(relay: Relay) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), 60)


def test_an_answer_that_is_lost_was_given_and_the_next_one_comes(site: Site, relay: Relay) -> None:
    relay.lose(b"/lost")
    with connected(relay) as client:
        assert b"/kept" in ask(client, "/kept")
        assert ask(client, "/lost") == b""
    with connected(relay) as client:
        assert b"/lost" in ask(client, "/lost")
    relay.wait_for(lambda relay: relay.lost == 1)
    assert site.asked() == ["/kept", "/lost", "/lost"]


def test_a_cut_answer_is_a_part_of_it(site: Site, relay: Relay) -> None:
    relay.cut_answers = 1.0
    with connected(relay) as client:
        assert not ask(client, "/a").endswith(BODY)
    relay.wait_for(lambda relay: relay.cuts == 1)
    assert site.asked() == ["/a"]


def test_a_cut_request_does_not_reach_the_server(site: Site, relay: Relay) -> None:
    relay.cut_requests = 1.0
    with connected(relay) as client:
        assert ask(client, "/a") == b""
    assert site.asked() == []


def test_every_connection_ends_at_once(relay: Relay) -> None:
    with connected(relay) as one, connected(relay) as other:
        assert ask(one, "/a")
        assert ask(other, "/a")
        relay.cut()
        assert one.recv(1) == other.recv(1) == b""


def test_a_connection_that_lost_a_piece_gets_nothing_any_more(site: Site, relay: Relay) -> None:
    with connected(relay) as client:
        assert ask(client, "/a")
        relay.black_hole(opens=True)
        with connected(relay) as other:
            for each in (client, other):
                each.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    ask(each, "/swallowed")
            relay.black_hole(opens=False)
            with pytest.raises(TimeoutError):
                ask(client, "/swallowed")
    with connected(relay) as client:
        assert ask(client, "/b")
    assert site.asked() == ["/a", "/b"]


def test_a_relay_that_is_down_refuses_and_has_its_port_when_it_is_back(relay: Relay) -> None:
    relay.go_down_after(1)
    # It is cut, however far its request has come.
    with contextlib.suppress(ConnectionResetError), connected(relay) as client:
        assert ask(client, "/a") == b""
    with pytest.raises(ConnectionRefusedError):
        connected(relay)
    relay.come_up()
    with connected(relay) as client:
        assert ask(client, "/a")
    relay.go_down()
    with pytest.raises(ConnectionRefusedError):
        connected(relay)
