"""HTTP/2 servers that attack their client: each page ends in time, the event loop goes on, and so do other hosts.

The servers are ``rig/http2_attacks.py``. All attacks run at once against one process, which is measured
(``rig/measured_fetches.py``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from rig.http2_attacks import HTTP2_ANSWERS, HTTP2_FLOODS, good, http2_context
from rig.measured_fetches import measure
from rig.web_connection import CERTIFICATE, Server, start_all

TIMEOUT_SECONDS = 3.0
ANSWERED: dict[str, set[str]] = {
    # Limits that a GET does not come near, and what nghttp2 leaves out.
    "no streams allowed": {"200"},
    "window of one byte": {"200"},
    "window of nothing": {"200"},
    "NUL and line feeds in a header": {"200"},
    "reset flood after the headers": {"200"},
    "421": {"421"},
    "HPACK bomb": {"too_large"},
    "HPACK bomb in trailers": {"protocol", "too_large"},
    "no SETTINGS": {"timeout"},
    "body without an end": {"timeout"},
    "window of nothing, no answer": {"timeout"},
    # The second request is on the stream that the first one's answer names; the first one waits.
    "answer on another stream": {"200", "protocol", "timeout"},
    "HTTP/1.1 where HTTP/2 was agreed": {"protocol", "timeout"},
}
"""How a page may end; others are ``protocol``."""
LASTING = (
    *("reset flood", "reset of idle streams", "DATA of one byte", "DATA that is all padding"),
    *("PING flood, answers read", "PING answers nobody asked for", "WINDOW_UPDATE flood"),
)
"""Floods of frames that are legal, however many there are: they last until the timeout."""
SHORT = [name for name in HTTP2_FLOODS if name not in LASTING]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    with contextlib.ExitStack() as stack:
        yield start_all(HTTP2_ANSWERS | HTTP2_FLOODS | {"good": good}, stack, tls=http2_context())


def _outcome(attacks: Collection[str], servers: dict[str, Server], seconds: float) -> dict[str, Any]:
    """Of all these attacks at once, two pages each. ``of``: the endings of an attack."""
    found = measure(
        urls=[servers[name].url(path) for name in attacks for path in ("/a", "/b")],
        good_url=servers["good"].url(),
        settings={"timeout_seconds": seconds},
        ca_file=str(CERTIFICATE),
        files_at_most=2 * len(attacks),
    )
    endings = iter(found["endings"])
    return found | {"of": {name: [next(endings), next(endings)] for name in attacks}}


@pytest.fixture(scope="module")
def answers(servers: dict[str, Server]) -> dict[str, Any]:
    # Some are asked again on a new connection, for which a busy machine takes its time.
    return _outcome(HTTP2_ANSWERS, servers, 2 * TIMEOUT_SECONDS)


@pytest.fixture(scope="module")
def short_floods(servers: dict[str, Server]) -> dict[str, Any]:
    return _outcome(SHORT, servers, 5 * TIMEOUT_SECONDS)


@pytest.fixture(scope="module")
def lasting_floods(servers: dict[str, Server]) -> dict[str, Any]:
    return _outcome(LASTING, servers, 3 * TIMEOUT_SECONDS)


@pytest.mark.parametrize("name", HTTP2_ANSWERS)
def test_a_bad_answer_ends_its_page(name: str, answers: dict[str, Any]) -> None:
    for ending in answers["of"][name]:
        assert ending["kind"] in ANSWERED.get(name, {"protocol"}), ending
        assert ending["seconds"] < 60, ending


@pytest.mark.parametrize("name", SHORT)
def test_a_flood_that_breaks_a_rule_ends_its_page_at_once(name: str, short_floods: dict[str, Any]) -> None:
    for ending in short_floods["of"][name]:
        assert ending["kind"] in {"protocol", "too_large"}, ending


@pytest.mark.parametrize("name", LASTING)
def test_a_flood_of_legal_frames_ends_with_the_timeout(name: str, lasting_floods: dict[str, Any]) -> None:
    for ending in lasting_floods["of"][name]:
        assert ending["kind"] in {"protocol", "timeout"}, ending
        assert ending["seconds"] < 60, ending


@pytest.mark.parametrize("kind", ["answers", "short_floods", "lasting_floods"])
def test_the_event_loop_and_other_hosts_go_on(kind: str, request: pytest.FixtureRequest) -> None:
    outcome = request.getfixturevalue(kind)
    # A GOAWAY flood alone held the loop until the timeout.
    assert outcome["longest_turn_seconds"] < 1, "of a processor"
    assert outcome["good_failures"] == []
    assert outcome["good"] >= 2


@pytest.mark.parametrize("kind", ["answers", "short_floods", "lasting_floods"])
def test_memory_and_descriptors_are_given_back(kind: str, request: pytest.FixtureRequest) -> None:
    outcome = request.getfixturevalue(kind)
    assert outcome["grown_bytes"] < 64 * 2**20
    # Idle connections to servers that behaved well enough to keep one.
    assert outcome["files_left"] <= 2 * len(outcome["of"])


def test_a_flood_ends_long_before_a_long_timeout(servers: dict[str, Server]) -> None:
    """The flood that libcurl would read for as long as it lasts, eight pages at once as a host may have."""
    urls = [servers["GOAWAY flood"].url(f"/{number}") for number in range(8)]
    found = measure(urls=urls, settings={"timeout_seconds": 90}, ca_file=str(CERTIFICATE))
    assert {ending["kind"] for ending in found["endings"]} == {"protocol"}
    assert "floods its connection" in found["endings"][0]["message"]
    assert found["longest_turn_seconds"] < 1
    assert max(ending["seconds"] for ending in found["endings"]) < 60


def test_a_small_window_does_not_hold_up_a_body_that_is_sent(servers: dict[str, Server]) -> None:
    """A server that lets no byte of a POST through: the page ends with its timeout, and costs nothing meanwhile."""
    found = measure(
        urls=[servers["window of nothing, no answer"].url()],
        settings={"timeout_seconds": TIMEOUT_SECONDS},
        ca_file=str(CERTIFICATE),
        method="POST",
        body_bytes=1_000_000,
    )
    assert [ending["kind"] for ending in found["endings"]] == ["timeout"]
    assert found["cpu_seconds"] < TIMEOUT_SECONDS / 2
