"""Which cookies are sent and kept, what counts as a change, and which hosts share them: as RFC 6265bis has it."""

from __future__ import annotations

import pytest

from skitter.model.session import DELETED, Cookie, domains_above
from skitter.policy.cookies import (
    MAX_JAR_BYTES,
    MAX_JAR_COOKIES,
    MAX_SENT_BYTES,
    MAX_SET_COOKIES,
    is_change,
    merged,
    sent_pairs,
    set_by,
    size_of,
)
from skitter.policy.public_suffixes import is_public_suffix, registrable_domain

NOW = 1_000_000.0
KNOWN = Cookie("sid", "1", "a.example", expires=int(NOW) + 800)


@pytest.mark.parametrize(
    ("cookie", "changes"),
    [
        (KNOWN, False),
        (Cookie("sid", "2", "a.example", expires=KNOWN.expires), True),
        (Cookie("sid", "1", "a.example", expires=KNOWN.expires, secure=True), True),
        (Cookie("sid", "1", "a.example", expires=KNOWN.expires + 50), False),
        (Cookie("sid", "1", "a.example", expires=KNOWN.expires + 200), True),
        (Cookie("sid", "1", "a.example", expires=KNOWN.expires - 400), True),
        (Cookie("sid", "1", "a.example"), True),
        (Cookie("sid", "1", "a.example", expires=DELETED), True),
    ],
)
def test_an_expiry_that_is_pushed_a_little_is_no_change(cookie: Cookie, changes: bool) -> None:
    assert is_change(KNOWN, cookie, NOW) is changes


def test_what_nobody_knows_is_a_change_unless_it_is_taken_back() -> None:
    assert is_change(None, KNOWN, NOW)
    assert not is_change(None, Cookie("sid", "", "a.example", expires=DELETED), NOW)


def test_a_cookie_that_is_set_again_keeps_its_place() -> None:
    jar = [Cookie("a", "1", "a.example"), KNOWN, Cookie("b", "1", "a.example")]
    after = merged(jar, [Cookie("a", "2", "a.example"), Cookie("c", "1", "a.example")])
    assert [(cookie.name, cookie.value) for cookie in after] == [("a", "2"), ("sid", "1"), ("b", "1"), ("c", "1")]
    gone = Cookie("a", "", "a.example", expires=DELETED)
    again = merged(merged(after, [gone]), [Cookie("a", "3", "a.example")])
    assert [cookie.name for cookie in again] == ["sid", "b", "c", "a"], "one that was taken back begins anew"


def test_a_jar_that_is_full_keeps_what_was_set_last() -> None:
    jar = merged([], [Cookie(f"n{n}", "v", "a.example") for n in range(MAX_JAR_COOKIES)])
    after = merged(jar, [Cookie("n0", "w", "a.example"), Cookie("new", "v", "a.example")])
    names = [cookie.name for cookie in after]
    assert (names[:2], names[-1], len(names)) == (["n0", "n2"], "new", MAX_JAR_COOKIES)


def test_a_jar_is_bounded_by_number_and_by_bytes() -> None:
    jar = merged([], [Cookie(f"n{n}", "v", "a.example") for n in range(1_000)])
    assert [jar[0].name, len(jar)] == [f"n{1_000 - MAX_JAR_COOKIES}", MAX_JAR_COOKIES]
    jar = merged(jar, [Cookie(f"l{n}", "v" * 4_000, "a.example") for n in range(100)])
    assert sum(map(size_of, jar)) <= MAX_JAR_BYTES
    assert jar[-1].name == "l99"


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.shop.example.co.uk", "example.co.uk"),
        ("user.github.io", "user.github.io"),
        ("github.io", "github.io"),
        ("a.b.example.com.", "example.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("localhost", "localhost"),
    ],
)
def test_the_registrable_domain_of_a_host_is_one_of_the_names_above_it(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain
    assert domain in domains_above(host)
    assert is_public_suffix(domain) == (domain in ("github.io", "localhost"))


# ---- what a request sends

SHARED = Cookie("shared", "1", "a.example", host_only=False)
JAR = [
    Cookie("root", "1", "www.a.example"),
    Cookie("deep", "1", "www.a.example", "/x/y"),
    SHARED,
    Cookie("folder", "1", "www.a.example", "/x/"),
    Cookie("above", "1", "a.example"),
    Cookie("secure", "1", "www.a.example", secure=True),
    Cookie("exact", "1", "www.a.example", "/x"),
    Cookie("late", "1", "www.a.example", expires=int(NOW) + 1),
    Cookie("ended", "1", "www.a.example", expires=int(NOW)),
    Cookie("", "nameless", "www.a.example"),
    Cookie("empty", "", "www.a.example", http_only=True),
    Cookie("root", "2", "a.example", host_only=False),
]


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("http://www.a.example/", "root=1 shared=1 late=1 nameless empty= root=2"),
        ("https://www.a.example/", "root=1 shared=1 secure=1 late=1 nameless empty= root=2"),
        ("http://www.a.example:8080/?/x/y", "root=1 shared=1 late=1 nameless empty= root=2"),
        ("http://www.a.example/x", "exact=1 root=1 shared=1 late=1 nameless empty= root=2"),
        ("http://www.a.example/x/", "folder=1 exact=1 root=1 shared=1 late=1 nameless empty= root=2"),
        ("http://www.a.example/x/y?z", "deep=1 folder=1 exact=1 root=1 shared=1 late=1 nameless empty= root=2"),
        ("http://www.a.example/x/y/z", "deep=1 folder=1 exact=1 root=1 shared=1 late=1 nameless empty= root=2"),
        ("http://www.a.example/x/yz", "folder=1 exact=1 root=1 shared=1 late=1 nameless empty= root=2"),
        ("http://www.a.example/X/y", "root=1 shared=1 late=1 nameless empty= root=2"),
        ("http://user:word@www.a.example/", "root=1 shared=1 late=1 nameless empty= root=2"),
        ("http://a.example/", "shared=1 above=1 root=2"),
        ("http://x.www.a.example/", "shared=1 root=2"),
        ("http://ba.example/", ""),
        ("http://a.example.org/", ""),
        ("http://example/", ""),
    ],
)
def test_a_request_sends_what_is_for_its_url_in_the_order_of_browsers(url: str, sent: str) -> None:
    assert sent_pairs(JAR, url, NOW) == sent.split()


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [
        ("https://a.example/", True),
        ("http://a.example/", False),
        ("http://localhost:8000/", True),
        ("http://127.0.0.1/", True),
        ("http://[::1]:8000/", True),
        ("http://a.localhost/", False),
        ("http://127.0.0.2/", False),
    ],
)
def test_a_secure_cookie_needs_tls_or_this_machine(url: str, is_sent: bool) -> None:
    host = url.split("/")[2].removesuffix(":8000")
    assert bool(sent_pairs([Cookie("a", "1", host, secure=True)], url, NOW)) is is_sent
    assert bool(set_by(["a=1; Secure"], (), url, NOW)) is is_sent


def test_a_request_sends_no_more_than_servers_take() -> None:
    large = [Cookie(f"n{n}", "v" * 4_000, "a.example") for n in range(3)]
    assert len("; ".join(sent_pairs(large, "http://a.example/", NOW))) in range(8_000, MAX_SENT_BYTES)


def test_what_another_program_wrote_into_the_store_begins_no_header() -> None:
    jar = [Cookie("a", "1\r\nX-Evil: 1", "a.example"), Cookie("b\0", "1", "a.example"), Cookie("c", "1", "a.example")]
    assert sent_pairs(jar, "http://a.example/", NOW) == ["c=1"]


# ---- what an answer changes

URL = "https://www.a.example/x/y"
OWN = Cookie("a", "1", "www.a.example", "/x")
ENDED = Cookie("old", "1", "www.a.example", expires=5)
GUARDED = Cookie("sid", "1", "a.example", "/x", secure=True, host_only=False)


@pytest.mark.parametrize(
    ("url", "jar", "headers", "told"),
    [
        (URL, [], ["a=1"], [OWN]),
        (URL, [OWN], ["a=1"], []),
        (URL, [OWN], ["a=2"], [Cookie("a", "2", "www.a.example", "/x")]),
        (URL, [OWN], ["a=2; Path=/"], [Cookie("a", "2", "www.a.example")]),
        (URL, [OWN], ["a=2; Path=/x/"], [Cookie("a", "2", "www.a.example", "/x/")]),
        (URL, [OWN], ["A=2"], [Cookie("A", "2", "www.a.example", "/x")]),
        (URL, [], ["a=1", "a=2"], [Cookie("a", "2", "www.a.example", "/x")]),
        (URL, [], ["b=1; Path=/", "a=1"], [Cookie("b", "1", "www.a.example"), OWN]),
        (URL, [OWN], ["a=1; Secure"], [Cookie("a", "1", "www.a.example", "/x", secure=True)]),
        (URL, [], ["a=1; Domain=a.example; Path=/x"], [Cookie("a", "1", "a.example", "/x", host_only=False)]),
        # A cookie is taken back by its name, its domain and its path.
        (URL, [OWN], ["a=; Max-Age=0"], [Cookie("a", "", "www.a.example", "/x", DELETED)]),
        (URL, [OWN], ["a; Max-Age=0"], []),
        (URL, [OWN], ["a=; Expires=Thu, 01 Jan 1970 00:00:00"], [Cookie("a", "", "www.a.example", "/x", DELETED)]),
        (URL, [OWN], ["a=; Max-Age=0; Path=/"], []),
        (URL, [OWN], ["a=; Max-Age=0; Path=/x/"], []),
        (URL, [OWN], ["a=; Max-Age=0; Domain=a.example"], []),
        (URL, [OWN], ["a=; Expires=Thu, 30 Feb 1970 00:00:00"], [Cookie("a", "", "www.a.example", "/x")]),
        (URL, [], ["a=; Max-Age=0"], []),
        (URL, [], ["a=1", "a=; Max-Age=0"], []),
        (URL, [OWN], ["a=; Max-Age=0", "a=2"], [Cookie("a", "2", "www.a.example", "/x")]),
        (URL, [ENDED], ["a=1"], [OWN, Cookie("old", "", "www.a.example", expires=DELETED)]),
        (URL, [ENDED], ["old=1; Path=/"], [Cookie("old", "1", "www.a.example")]),
        # Over http, a cookie with Secure is neither set nor replaced nor taken back.
        ("http://www.a.example/x/y", [], ["sid=2; Secure"], []),
        ("http://www.a.example/x/y", [GUARDED], ["sid=2; Domain=a.example"], []),
        ("http://www.a.example/x/y", [GUARDED], ["sid=2"], []),
        ("http://www.a.example/x/y", [GUARDED], ["sid=2; Path=/x/y"], []),
        ("http://www.a.example/x/y", [GUARDED], ["sid=; Domain=a.example; Max-Age=0"], []),
        ("http://www.a.example/x/y", [GUARDED], ["sid=2; Path=/"], [Cookie("sid", "2", "www.a.example")]),
        ("http://www.a.example/x/y", [GUARDED], ["SID=2"], [Cookie("SID", "2", "www.a.example", "/x")]),
        # What browsers refuse: names without anything, public suffixes, prefixes that do not keep their promise.
        (URL, [], ["=", "", ";Path=/", "  =  ; Secure"], []),
        (URL, [], ["a=1; Domain=example.", "a=1; Domain=com"], []),
        ("https://a.co.uk/", [], ["a=1; Domain=co.uk"], []),
        ("https://co.uk/", [], ["a=1; Domain=co.uk"], [Cookie("a", "1", "co.uk")]),
        (URL, [], ["__Host-a=1; Secure; Path=/"], [Cookie("__Host-a", "1", "www.a.example", secure=True)]),
        (URL, [], ["__Host-a=1; Secure", "__host-a=1; Path=/", "__Host-a=1; Secure; Path=/; Domain=a.example"], []),
        (URL, [], ["__Secure-a=1", "=__Secure-a=1; Secure", "__Host-a; Secure; Path=/"], []),
        (URL, [], [f"a={'v' * 4096}", f"a=1; Path=/{'p' * 1024}"], [OWN]),
        # A refused cookie replaces none.
        (URL, [], ["a=1", f"a={'v' * 4096}", "a=2\x01"], [OWN]),
    ],
)
def test_an_answer_changes_what_browsers_would_change(
    url: str, jar: list[Cookie], headers: list[str], told: list[Cookie]
) -> None:
    assert list(set_by(headers, jar, url, NOW)) == told


def test_an_answer_sets_a_limited_number_of_cookies() -> None:
    headers = [f"n{number}=1" for number in range(1_000)]
    assert len(set_by(headers, (), URL, NOW)) == MAX_SET_COOKIES
