"""Through a proxy: everything goes that way, nothing leads inside as far as that can be known, and nothing is told.

The proxies are real, small and our own: one for HTTP that forwards and tunnels, one for SOCKS 5. Both send everything
to the same server, whatever they are asked for, and a test sees what that was.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from rig.proxies import HttpProxy, Socks4Proxy, SocksProxy
from rig.relay import Relay
from skitter.errors import FetchError, SettingsError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.engine import CurlFetcher
from skitter.fetch.proxy import read_proxy
from skitter.model.url import absolute
from skitter.settings import Fetch

PASSWORD = "s3cret-w0rd"
Kind = TypeVar("Kind", bound=Relay)


@pytest.fixture
def proxied() -> Iterator[Callable[..., Any]]:
    """Starts proxies, which end with the test."""
    with contextlib.ExitStack() as stack:

        def start(proxy: Kind) -> Kind:
            return stack.enter_context(proxy)

        yield start


def found(url: str) -> FetchRequest:
    return FetchRequest(url=url)


async def test_everything_goes_through_the_proxy(serve: Any, proxied: Any, make_fetcher: Any) -> None:
    site = serve(serve.answer(b"through"))
    proxy = proxied(HttpProxy(site.port))
    fetcher: CurlFetcher = make_fetcher(proxy=f"http://127.0.0.1:{proxy.port}")
    page = await fetcher.fetch(found("http://example.com/page"))
    assert (page.body, page.address) == (b"through", "")
    assert proxy.asked == ["GET http://example.com/page"]
    assert (await fetcher.fetch(found("http://93.184.216.34:8080/"))).status == 200


async def test_a_tunnel_leaves_nothing_in_the_headers_of_the_page(serve: Any, proxied: Any, make_fetcher: Any) -> None:
    site = serve(serve.answer(b"secure"), tls=True)
    proxy = proxied(HttpProxy(site.port))
    fetcher: CurlFetcher = make_fetcher(Fetch(verify_tls=False), proxy=f"http://127.0.0.1:{proxy.port}")
    headers = {"Authorization": "Bearer token", "Cookie": "a=1"}
    page = await fetcher.fetch(FetchRequest(url="https://example.com/", headers=headers))
    assert page.body == b"secure"
    assert page.header("x-proxy") is None
    assert proxy.asked == ["CONNECT example.com:443"]
    assert b"token" not in proxy.heads[0]
    assert b"a=1" not in proxy.heads[0]
    assert site.seen[0].headers["authorization"] == "Bearer token"


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
async def test_a_password_is_told_to_the_proxy_and_to_nobody_else(
    scheme: str, serve: Any, proxied: Any, make_fetcher: Any
) -> None:
    site = serve(serve.answer(b"known"))
    kind = HttpProxy if scheme == "http" else SocksProxy
    proxy = proxied(kind(site.port, user=f"me:{PASSWORD}"))
    fetcher: CurlFetcher = make_fetcher(proxy=f"{scheme}://me:{PASSWORD}@127.0.0.1:{proxy.port}")
    assert (await fetcher.fetch(found("http://example.com/"))).body == b"known"
    assert PASSWORD not in repr(fetcher._proxy)


@pytest.mark.parametrize("scheme", ["http", "socks5h", "socks5"])
@pytest.mark.parametrize("url", ["http://93.184.216.34/", "https://93.184.216.34/"])
async def test_a_wrong_password_is_the_proxys_fault_and_is_not_repeated(
    scheme: str, url: str, serve: Any, proxied: Any, make_fetcher: Any, caplog: pytest.LogCaptureFixture
) -> None:
    site = serve(serve.answer())
    kind = HttpProxy if scheme == "http" else SocksProxy
    proxy = proxied(kind(site.port, user="me:another"))
    fetcher: CurlFetcher = make_fetcher(proxy=f"{scheme}://me:{PASSWORD}@127.0.0.1:{proxy.port}")
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(found(url))
        assert caught.value.error_class == "proxy"
        assert PASSWORD not in str(caught.value)
    # Told once, not for every page, and not what nobody should know.
    assert len([record for record in caplog.records if record.name == "skitter.fetch"]) == 1
    assert PASSWORD not in caplog.text
    assert site.connections == 0


@pytest.mark.parametrize("scheme", ["http", "https", "socks5", "socks5h"])
@pytest.mark.parametrize("url", ["http://93.184.216.34/", "https://93.184.216.34/"])
async def test_a_proxy_that_is_down_is_the_proxys_fault(scheme: str, url: str, make_fetcher: Any) -> None:
    fetcher: CurlFetcher = make_fetcher(proxy=f"{scheme}://me:{PASSWORD}@127.0.0.1:1")
    with pytest.raises(FetchError, match=r"127\.0\.0\.1:1\b") as caught:
        await fetcher.fetch(found(url))
    assert caught.value.error_class == "proxy"
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "scheme", "answer"),
    [
        (HttpProxy, "http", b"what?\r\n\r\n"),
        (HttpProxy, "http", b""),
        (HttpProxy, "http", b"HTTP/1.1 403 Not you\r\nContent-Length: 0\r\n\r\n"),
        (SocksProxy, "socks5h", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        (SocksProxy, "socks5h", b"\x05\xff"),
        (SocksProxy, "socks5h", b""),
    ],
)
async def test_a_proxy_that_answers_garbage_is_the_proxys_fault(
    kind: Any, scheme: str, answer: bytes, proxied: Any, make_fetcher: Any
) -> None:
    proxy = proxied(kind(0, answer=answer))
    fetcher: CurlFetcher = make_fetcher(proxy=f"{scheme}://127.0.0.1:{proxy.port}")
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(found("https://example.com/"))
    assert caught.value.error_class == "proxy"


async def test_a_proxy_that_says_nothing_is_over_in_time(proxied: Any, make_fetcher: Any) -> None:
    proxy = proxied(Relay("127.0.0.1", 0))
    proxy.black_hole(opens=True)
    for scheme in ("http", "socks5h"):
        fetcher = make_fetcher(Fetch(timeout_seconds=0.5), proxy=f"{scheme}://127.0.0.1:{proxy.port}")
        with pytest.raises(FetchError) as caught:
            await fetcher.fetch(found("https://example.com/"))
        assert caught.value.error_class in {"proxy", "tls", "timeout"}


async def test_a_server_that_a_proxy_cannot_reach_is_the_servers_fault(proxied: Any, make_fetcher: Any) -> None:
    proxy = proxied(HttpProxy(0, answer=b"HTTP/1.1 502 No way\r\nContent-Length: 0\r\n\r\n"))
    fetcher: CurlFetcher = make_fetcher(proxy=f"http://127.0.0.1:{proxy.port}")
    with pytest.raises(FetchError) as caught:
        await fetcher.fetch(found("https://example.com/"))
    assert caught.value.error_class != "proxy"


INSIDE = [
    *("http://127.0.0.1/", "http://[::1]/", "http://10.0.0.1/", "http://169.254.169.254/latest/", "http://2130706433/"),
    *("http://0x7f.1/", "http://[::ffff:7f00:1]/", "http://localhost/", "http://a.localhost/", "http://LOCALHOST./"),
    *("http://router/", "http://metadata.google.internal/", "http://printer.local/", "http://nas.lan/"),
    *("http://example.com:6379/", "http://example.com:22/", "https://93.184.216.34:3306/", "https://127.0.0.1/"),
]


@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h"])
async def test_what_is_known_to_be_inside_is_not_asked_for(
    scheme: str, serve: Any, proxied: Any, make_fetcher: Any
) -> None:
    canary = serve(serve.answer(b"secret"))
    proxy = proxied((HttpProxy if scheme == "http" else SocksProxy)(canary.port))
    fetcher: CurlFetcher = make_fetcher(proxy=f"{scheme}://127.0.0.1:{proxy.port}")
    for url in INSIDE:
        for form in (absolute(url), url):  # also when nobody normalised it
            with pytest.raises(FetchError) as caught:
                await fetcher.fetch(found(form))
            assert caught.value.error_class == "guard", form
    assert (proxy.connections, canary.connections) == (0, 0)
    # What the user typed is asked for all the same.
    assert (await fetcher.fetch(FetchRequest(url="http://10.0.0.1/", trusted=True))).body == b"secret"


async def test_names_that_are_resolved_here_are_checked_here(
    serve: Any, proxied: Any, make_fetcher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = serve(serve.answer(b"fine"))
    proxy = proxied(SocksProxy(canary.port))
    fetcher: CurlFetcher = make_fetcher(proxy=f"socks5://127.0.0.1:{proxy.port}")
    answers = [["93.184.216.34"], ["127.0.0.1"], ["10.0.0.1", "93.184.216.34"], []]
    asked = []

    def getaddrinfo(host: bytes, *_: Any) -> list[Any]:
        asked.append(host)
        return [(2, 1, 6, "", (address, 0)) for address in answers[len(asked) - 1]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert (await fetcher.fetch(found("http://changes.example/"))).body == b"fine"
    with pytest.raises(FetchError, match="loopback"):
        await fetcher.fetch(found("http://changes.example/"))
    assert (await fetcher.fetch(found("http://changes.example:8080/"))).body == b"fine"
    # The proxy was given the checked address, and never the name.
    assert proxy.asked == ["93.184.216.34:80", "93.184.216.34:8080"]


async def test_the_environment_cannot_take_a_host_past_the_proxy(
    serve: Any, proxied: Any, make_fetcher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = serve(serve.answer(b"through"))
    proxy = proxied(HttpProxy(site.port))
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "*")
    fetcher: CurlFetcher = make_fetcher(proxy=f"http://127.0.0.1:{proxy.port}")
    assert (await fetcher.fetch(found("http://example.com/"))).body == b"through"
    assert proxy.connections == 1


@pytest.mark.parametrize(
    "text",
    [
        *("proxy.example:3128", "ftp://proxy.example", "http://", "http://a:b@", f"htp://me:{PASSWORD}@proxy.example"),
        *("http://proxy.example:port", "http://proxy.example/path", f"http://me:{PASSWORD}@proxy.example:99999"),
        *("http://proxy.example\r\nX: y", "socks://proxy.example"),
    ],
)
def test_what_is_no_proxy_is_a_settings_error_without_its_password(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_proxy(text)
    assert PASSWORD not in str(caught.value)


def test_a_proxy_is_read() -> None:
    proxy = read_proxy("socks5://me:p%40ss@[::1]")
    assert proxy is not None
    assert (proxy.url, proxy.user, proxy.password) == ("socks5://[::1]:1080", "me", "p@ss")
    assert read_proxy("") is None


# ---- a proxy of one request


def through(url: str, proxy: str, *, trusted: bool = True) -> FetchRequest:
    return FetchRequest(url=url, proxy=proxy, proxy_trusted=trusted)


@pytest.mark.parametrize("tls", [False, True])
async def test_two_users_of_one_gateway_share_no_connection(
    serve: Any, proxied: Any, make_fetcher: Any, tls: bool
) -> None:
    site = serve(serve.answer(b"through"), tls=tls)
    gateway = proxied(HttpProxy(site.port))
    fetcher: CurlFetcher = make_fetcher(Fetch(verify_tls=False))
    url = f"{'https' if tls else 'http'}://93.184.216.34/"
    for user in ("alice", "bob", "alice", "bob", "alice"):
        page = await fetcher.fetch(through(url, f"http://{user}:{PASSWORD}@127.0.0.1:{gateway.port}"))
        assert page.body == b"through"
    assert gateway.connections == 2
    users = [base64.b64encode(f"{user}:{PASSWORD}".encode()) for user in ("alice", "bob")]
    assert [user in head for user, head in zip(users, gateway.heads, strict=True)] == [True, True]


async def test_requests_with_and_without_proxies_do_not_mix(serve: Any, proxied: Any, make_fetcher: Any) -> None:
    site = serve(serve.answer(b"through"))
    one, other = proxied(HttpProxy(site.port)), proxied(HttpProxy(site.port))
    fetcher: CurlFetcher = make_fetcher(Fetch(allow_private=True))
    for _ in range(2):
        await fetcher.fetch(FetchRequest(url=site.url("/direct")))
        await fetcher.fetch(through("http://93.184.216.34/one", f"http://me:{PASSWORD}@127.0.0.1:{one.port}"))
        await fetcher.fetch(through("http://93.184.216.34/other", f"http://127.0.0.1:{other.port}"))
    assert (one.connections, other.connections) == (1, 1)
    assert (one.asked, other.asked) == (["GET http://93.184.216.34/one"], ["GET http://93.184.216.34/other"])
    assert b"Authorization" not in b"".join(other.heads)
    assert all("proxy-authorization" not in seen.headers for seen in site.seen if seen.path == "/direct")
    assert [seen.path for seen in site.seen].count("/direct") == 2


@pytest.mark.parametrize(("scheme", "asked"), [("socks4", "me 93.184.216.34:80"), ("socks4a", "me example.com:80")])
async def test_socks_4_is_spoken(serve: Any, proxied: Any, make_fetcher: Any, scheme: str, asked: str) -> None:
    site = serve(serve.answer(b"through"))
    proxy = proxied(Socks4Proxy(site.port))
    url = "http://example.com/" if scheme == "socks4a" else "http://93.184.216.34/"
    page = await make_fetcher().fetch(through(url, f"{scheme}://me@127.0.0.1:{proxy.port}"))
    assert (page.body, proxy.asked) == (b"through", [asked])


async def test_a_proxy_that_a_request_names_may_not_be_inside(serve: Any, proxied: Any, make_fetcher: Any) -> None:
    """It may come from a message of a stranger; those of the pool and of the settings were typed by the user."""
    site = serve(serve.answer(b"through"))
    proxy = proxied(HttpProxy(site.port))
    named = f"http://me:{PASSWORD}@127.0.0.1:{proxy.port}"
    with pytest.raises(FetchError, match="loopback address") as caught:
        await make_fetcher().fetch(through("http://example.com/", named, trusted=False))
    assert caught.value.error_class == "guard"
    assert PASSWORD not in str(caught.value)
    assert proxy.connections == 0
    assert (
        await make_fetcher(Fetch(allow_private=True)).fetch(through("http://example.com/", named, trusted=False))
    ).body
    with pytest.raises(FetchError, match="bad value") as caught:
        await make_fetcher().fetch(through("http://example.com/", f"htp://me:{PASSWORD}@a"))
    assert (caught.value.error_class, PASSWORD in str(caught.value)) == ("proxy", False)


async def test_what_is_inside_is_not_asked_of_a_proxy_of_the_pool(serve: Any, proxied: Any, make_fetcher: Any) -> None:
    proxy = proxied(HttpProxy(1))
    for url in ("http://169.254.169.254/", "http://localhost/", "http://intranet/", "http://[::1]/"):
        with pytest.raises(FetchError) as caught:
            await make_fetcher().fetch(through(url, f"http://127.0.0.1:{proxy.port}"))
        assert caught.value.error_class == "guard"
    assert proxy.asked == []
