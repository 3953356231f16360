"""Redirects: what the request becomes, when it is deduped, and where a chain ends."""

from __future__ import annotations

import pytest

from skitter.errors import FetchError
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.policy.redirects import continuation, stays

START = "http://a.example/start"
CREDENTIALS = (
    "Authorization",
    "cookie",
    "Proxy-Authorization",
    "X-Api-Key",
    "X-Passcode",
    "X-Signature",
    "X-Otp",
    "X-Bearer",
    "DPoP",
    "X-Auth-Token",
    "X-CSRFToken",
    "X-XSRF-TOKEN",
    "Private-Token",
    "X-Amz-Security-Token",
    "x-goog-api-key",
    "Ocp-Apim-Subscription-Key",
    "X-RapidAPI-Key",
    "apikey",
    "X-Auth",
    "Authentication",
    "X-Session-Id",
    "X-Client-Secret",
    "X-User-Password",
)


def follow(request: Request, status: int = 302, location: str = "/next", max_redirects: int = 10) -> Request:
    return continuation(request, status, location, max_redirects)[0]


def walk(request: Request, *locations: str) -> tuple[Request, bool]:
    filtered = True
    for location in locations:
        request, filtered = continuation(request, 302, location, 10)
    return request, filtered


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/next", "http://a.example/next"),
        ("next", "http://a.example/next"),
        ("//b.example/x", "http://b.example/x"),
        ("https://a.example/next#part", "https://a.example/next"),
        (" /next\n", "http://a.example/next"),
        ("?page=2", "http://a.example/start?page=2"),
    ],
)
def test_a_location_is_read_as_a_browser_would(location: str, url: str) -> None:
    assert follow(Request(START), location=location).url == url


def test_the_request_goes_on_with_all_that_belongs_to_it() -> None:
    request = Request(
        START,
        callback="item",
        errback="bad",
        meta={"n": 1},
        cb_kwargs={"k": 2},
        priority=3,
        depth=4,
        referrer="http://a.example/",
        headers={"X-Mine": "yes", "Authorization": "secret"},
        cookies={"session": "s"},
        need="browser",
        seed=True,
    )
    assert follow(request) == request.replace(url="http://a.example/next", chain=(START,))


@pytest.mark.parametrize(
    ("status", "before", "after"),
    [
        (301, "GET", "GET"),
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (302, "PUT", "PUT"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (301, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
    ],
)
def test_the_method_changes_as_browsers_change_it(status: int, before: str, after: str) -> None:
    assert follow(Request(START, method=before), status).method == after


def test_a_body_that_is_dropped_takes_its_headers_along() -> None:
    request = Request(START, method="POST", body=b"{}", headers={"Content-Type": "application/json", "X-Mine": "yes"})
    changed = follow(request, 303)
    assert (changed.body, changed.headers) == (b"", {"X-Mine": "yes"})
    kept = follow(request, 307)
    assert (kept.body, kept.headers) == (b"{}", request.headers)


@pytest.mark.parametrize("target", ["http://b.example/", "https://a.example/", "http://a.example:8080/"])
def test_credentials_do_not_go_to_another_origin(target: str) -> None:
    harmless = {"X-Mine": "yes", "Accept-Language": "en", "X-Author": "me", "X-Keyboard": "us", "If-None-Match": '"t"'}
    request = Request(START, headers={**dict.fromkeys(CREDENTIALS, "s"), **harmless})
    for status in (301, 302, 303, 307, 308):
        assert follow(request, status, location=target).headers == harmless
    assert follow(request).headers == request.headers


@pytest.mark.parametrize(
    ("url", "locations", "keeps"),
    [
        ("http://a.example/", ["/next"], True),
        ("https://a.example/", ["/next"], True),
        ("http://a.example/", ["https://a.example/"], True),
        ("http://a.example:8080/", ["https://a.example:8443/"], True),
        ("http://a.example/", ["http://a.example:8080/"], True),
        ("http://a.example:8080/", ["http://a.example/"], True),
        ("https://a.example/", ["https://a.example:8443/"], True),
        ("https://user:word@a.example/", ["https://A.EXAMPLE:8443/"], True),
        ("http://127.0.0.1:8000/", ["https://127.0.0.1:8001/"], True),
        ("http://[::1]:8000/", ["http://[::1]:8001/"], True),
        ("http://a.example/", ["https://a.example/", "https://a.example:8443/", "/next"], True),
        # From TLS to plain text.
        ("https://a.example/", ["http://a.example/"], False),
        ("https://a.example:8443/", ["http://a.example:8080/"], False),
        ("http://a.example/", ["https://a.example/", "http://a.example/"], False),
        # Another host, also above and below.
        ("http://a.example/", ["http://b.example/"], False),
        ("http://a.example/", ["https://www.a.example/"], False),
        ("https://www.a.example/", ["https://a.example/"], False),
        ("http://a.example/", ["http://a.example./"], False),
        ("http://localhost/", ["http://127.0.0.1/"], False),
        ("http://a.example/", ["http://a.example@b.example/"], False),
        # What one hop has dropped, no later one brings back.
        ("https://a.example/", ["http://a.example/", "https://a.example/"], False),
        ("http://a.example/", ["http://b.example/", "http://a.example/"], False),
    ],
)
@pytest.mark.parametrize("status", [302, 307])
def test_cookies_of_a_request_stay_with_its_host_and_never_leave_tls(
    url: str, locations: list[str], keeps: bool, status: int
) -> None:
    request = Request(url, cookies={"session": "s"}, headers={"Cookie": "a=1", "Authorization": "s"})
    for location in locations:
        request = follow(request, status, location=location)
    assert request.cookies == ({"session": "s"} if keeps else {})
    stays_at_origin = locations == ["/next"]
    assert bool(request.headers) is stays_at_origin


def test_user_and_password_of_a_url_do_not_go_to_another_origin() -> None:
    request = Request("http://user:word@a.example/start")
    assert follow(request, location="//b.example/x").url == "http://b.example/x"
    assert follow(request).url == "http://user:word@a.example/next"


def test_another_origin_is_told_the_origin_of_a_referrer_and_not_the_page() -> None:
    request = Request(START, headers={"Referer": "https://u:p@a.example/account?token=1", "X": "y"})
    assert follow(request, location="//b.example/").headers == {"Referer": "https://a.example/", "X": "y"}
    assert follow(request).headers == request.headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_body_goes_where_browsers_send_it_but_not_from_tls_to_plain_text(status: int) -> None:
    request = Request("https://a.example/login", method="POST", body=b"password=hunter22")
    keeps = status in (307, 308)
    elsewhere = follow(request, status, location="https://b.example/")
    assert (elsewhere.method, elsewhere.body) == (("POST", request.body) if keeps else ("GET", b""))
    for target in ("http://a.example/login", "http://b.example/"):
        if keeps:
            with pytest.raises(FetchError, match="from https to http"):
                follow(request, status, location=target)
        else:
            assert follow(request, status, location=target).body == b""
        assert follow(Request("https://a.example/"), status, location=target).url == target


def test_a_hop_is_deduped() -> None:
    assert walk(Request(START), "/a", "/b")[1] is True


def test_a_hop_back_to_where_the_chain_was_is_not_deduped() -> None:
    request, filtered = walk(Request(START), "/set-cookie", "/start")
    assert (request.url, filtered) == (START, False)
    # But that does not make the rest of the chain special.
    assert walk(request, "/elsewhere")[1] is True


@pytest.mark.parametrize("request_", [Request(START, dont_filter=True), Request(START, method="POST", body=b"q=1")])
def test_a_chain_that_began_unfiltered_stays_so(request_: Request) -> None:
    request, filtered = walk(request_, "/a", "/b", "/c")
    assert (request.method, request.url, filtered) == ("GET", "http://a.example/c", False)


@pytest.mark.parametrize(
    ("location", "rule"),
    [("mailto:me@a.example", "scheme"), ("http://", "unparsable"), ("/" + "x" * 5000, "too_long")],
)
def test_a_redirect_to_what_is_no_url_ends_the_chain(location: str, rule: str) -> None:
    with pytest.raises(FetchError, match=rule) as caught:
        follow(Request(START), location=location)
    assert caught.value.error_class == "redirect"


def test_a_chain_has_at_most_so_many_hops() -> None:
    request, _ = walk(Request(START), *(f"/{n}" for n in range(10)))
    assert len(request.chain) == 10
    with pytest.raises(FetchError, match="more than 10 redirects"):
        follow(request)
    with pytest.raises(FetchError, match="more than 0 redirects"):
        follow(Request(START), max_redirects=0)


def test_a_loop_is_noticed_at_its_second_round() -> None:
    with pytest.raises(FetchError, match="redirect loop"):
        walk(Request(START), "/a", "/start", "/a", "/start")


def test_another_spelling_of_a_url_is_the_same_place() -> None:
    with pytest.raises(FetchError, match="redirect loop"):
        walk(Request(START), "/%73tart?", "/start#x", "/./start")


def test_an_empty_location_is_the_page_itself() -> None:
    request, filtered = walk(Request(START), "")
    assert (request.url, filtered) == (START, False)
    with pytest.raises(FetchError, match="redirect loop"):
        follow(request, location="")


@pytest.mark.parametrize(
    ("url", "address", "target", "expected"),
    [
        ("http://intranet/", "10.0.0.1", "https://intranet/", True),
        ("http://127.0.0.1:8000/", "127.0.0.1", "http://127.0.0.1:8001/x", True),
        ("http://[::1]:8000/", "::1", "http://[::1]/", True),
        ("http://user:word@intranet/", "10.0.0.1", "http://intranet:8080/", True),
        # Another machine, by name or by number.
        ("http://intranet/", "10.0.0.1", "http://router/", False),
        ("http://intranet/", "10.0.0.1", "http://169.254.169.254/latest/", False),
        ("http://127.0.0.1:8000/", "127.0.0.1", "http://localhost:8000/", False),
        # The same machine, but not a site.
        ("http://127.0.0.1:8000/", "127.0.0.1", "http://127.0.0.1:6379/", False),
        # From outside nothing is trusted, nor where nobody knows what outside is.
        ("http://example.com/", "8.8.8.8", "http://example.com:8080/", False),
        ("http://intranet/", "", "https://intranet/", False),
    ],
)
def test_a_hop_is_trusted_only_on_the_machine_that_was_typed(
    url: str, address: str, target: str, expected: bool
) -> None:
    page = Page(url=url, status=301, headers=[], body=b"", address=address)
    assert stays(page, Request(target)) is expected
