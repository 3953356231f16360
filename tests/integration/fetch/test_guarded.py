"""No found link reaches the inside of the network, by whatever name."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from rig.http2_attacks import good, http2_context
from rig.web_connection import Server
from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.model.url import absolute
from skitter.settings import Fetch


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "a.localhost",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
    ],
)
async def test_loopback_is_never_reached_unless_trusted(host: str, serve: Any, client: Any) -> None:
    canary = serve(serve.answer(b"secret"))
    assert await client.kind(absolute(canary.url(host=host)), trusted=False) == "guard"
    assert await client.kind(canary.url(host=host), trusted=False) == "guard"  # also when nobody normalised it
    assert canary.connections == 0


async def test_the_message_says_what_was_refused(serve: Any, fetcher: Any) -> None:
    canary = serve(serve.answer(b"secret"))
    with pytest.raises(FetchError, match=r"loopback address \(127\.0\.0\.1\): http://127"):
        await fetcher.fetch(FetchRequest(url=canary.url()))


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
async def test_loopback_of_ipv6_is_refused(serve: Any, client: Any) -> None:
    try:
        canary = serve(serve.answer(b"secret"), host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    assert await client.kind(canary.url(host="[::1]"), trusted=False) == "guard"
    assert canary.connections == 0
    assert (await client.get(canary.url(host="[::1]"))).address == "::1"


async def test_a_kept_connection_of_a_trusted_fetch_is_not_lent(serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"secret"))
    await client.get(site.url(host="localhost"))
    for host in ("localhost", "127.0.0.1", "a.localhost"):
        assert await client.kind(site.url(host=host), trusted=False) == "guard"
    assert len(site.seen) == 1
    assert (await client.get(site.url(host="localhost"))).body == b"secret"


async def test_requests_that_start_together_are_told_apart(serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"secret"))
    requests = [FetchRequest(url=site.url(f"/{number}"), trusted=number % 2 == 0) for number in range(20)]
    results = await asyncio.gather(*(client.fetcher.fetch(request) for request in requests), return_exceptions=True)
    kinds = [result.error_class if isinstance(result, FetchError) else result.status for result in results]
    assert kinds == [200, "guard"] * 10
    assert all(int(seen.path[1:]) % 2 == 0 for seen in site.seen)


async def test_a_handle_forgets_that_it_was_trusted(serve: Any, client: Any) -> None:
    site = serve(serve.answer(b"secret"), keep=False)
    await client.get(site.url())
    assert await client.kind(site.url(), trusted=False) == "guard"
    assert (await client.get(site.url())).status == 200


async def test_private_addresses_can_be_allowed(serve: Any, make_client: Any) -> None:
    site = serve(serve.answer(b"inside"))
    client = make_client(Fetch(allow_private=True))
    assert (await client.get(site.url(), trusted=False)).body == b"inside"


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "169.254.169.254", "192.168.1.1", "[fe80::1]", "[fd00:ec2::254]", "[64:ff9b::7f00:1]"]
)
async def test_no_packet_leaves_for_a_refused_address(address: str, client: Any) -> None:
    # Had it tried to connect, the class would be connect.
    assert await client.kind(f"http://{address}/latest/meta-data/", trusted=False, connect_timeout_seconds=2) == "guard"


async def test_the_environment_cannot_bring_in_a_proxy(
    serve: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = serve(serve.answer(b"proxied"))
    for name in ("http_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url())
    assert await client.kind("http://10.0.0.1/", trusted=False) == "guard"
    assert proxy.connections == 0


async def test_another_service_that_a_server_names_is_not_used(serve: Any, client: Any) -> None:
    """Alt-Svc and HSTS would lead the next request elsewhere: nothing is remembered of them."""
    canary = serve(serve.answer(b"secret"), tls=True)
    elsewhere = [f'Alt-Svc: h2="127.0.0.1:{canary.port}", h3=":{canary.port}"; ma=9999', "Upgrade: h2c"]
    site = serve(serve.answer(b"fine", *elsewhere, "Strict-Transport-Security: max-age=9999; includeSubDomains"))
    for host in ("localhost", "127.0.0.1", "localhost"):
        assert (await client.get(site.url(host=host))).body == b"fine"
    assert len(site.seen) == 3
    assert canary.connections == 0


async def test_a_connection_of_http2_is_not_lent_to_another_name(make_client: Any, certificate: str) -> None:
    """The certificate is good for both names, and both lead to the same address."""
    with Server(good, tls=http2_context()) as site:
        client = make_client(ca_file=certificate)
        assert (await client.get(site.url(host="localhost"))).http_version == "2"
        assert await client.kind(site.url(host="127.0.0.1"), trusted=False) == "guard"
        assert await client.kind(site.url(host="localhost"), trusted=False) == "guard"
        assert site.connections == 1
        assert (await client.get(site.url(host="127.0.0.1"))).http_version == "2"
        assert site.connections == 2
        await client.fetcher.close()
