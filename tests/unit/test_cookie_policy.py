"""Which cookies are kept, what counts as a change, and which hosts share them."""

from __future__ import annotations

import pytest

from skitter.model.session import DELETED, Cookie, domains_above
from skitter.policy.cookies import MAX_JAR_BYTES, MAX_JAR_COOKIES, is_change, merged, size_of
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
