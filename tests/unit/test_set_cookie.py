"""The header Set-Cookie is read as browsers read it: RFC 6265bis, and RFC 6265 section 5.1.1 for dates."""

from __future__ import annotations

from typing import Any

import pytest

from skitter.model.session import DELETED, Cookie
from skitter.policy.set_cookie import (
    MAX_AGE_SECONDS,
    MAX_ATTRIBUTE_CHARS,
    domain_matches,
    path_matches,
    read_date,
    read_set_cookie,
)

NOW = 1_700_000_000.5
HOST = "www.shop.example"
PATH = "/a/b/page"
NOON = 1_709_294_400
"""1 March 2024, 12:00:00."""
FUTURE = "Expires=Wed, 13 Dec 2023 00:00:00 GMT"
FUTURE_AT = 1_702_425_600


def read(header: str, host: str = HOST, path: str = PATH) -> Cookie | None:
    return read_set_cookie(header, host, path, NOW)


# ---- name and value


@pytest.mark.parametrize(
    ("header", "name", "value"),
    [
        ("a=1", "a", "1"),
        ("a=1;", "a", "1"),
        ("  a  =  1  ; Path=/", "a", "1"),
        ("\ta\t=\t1\t", "a", "1"),
        ("a=", "a", ""),
        ("a=b=c", "a", "b=c"),
        ("a==", "a", "="),
        ('a="1"', "a", '"1"'),
        ('a="x;y"', "a", '"x'),
        ("a=1, b=2", "a", "1, b=2"),
        ("a=x y", "a", "x y"),
        ("a=x\ty", "a", "x\ty"),
        ("a b=1", "a b", "1"),
        ("A=1", "A", "1"),
        ("$Version=1", "$Version", "1"),
        ("expires=soon", "expires", "soon"),
        ("a=%3B", "a", "%3B"),
        ("a=caf\xc3\xa9\xff\xa0", "a", "caf\xc3\xa9\xff\xa0"),
        ("alone", "", "alone"),
        ("=alone", "", "alone"),
        ("==", "", "="),
        ("a;b=1", "", "a"),
        ("", "", ""),
    ],
)
def test_name_and_value_are_what_stands_around_the_first_equals_sign(header: str, name: str, value: str) -> None:
    cookie = read(header)
    assert cookie is not None
    assert (cookie.name, cookie.value) == (name, value)


@pytest.mark.parametrize("header", ["a=1\x00", "a\x01=1", "a=1\x1f2", "a=1\x7f", "a=1; Path=/\x08", "a=1\n"])
def test_a_control_character_makes_the_whole_header_void(header: str) -> None:
    assert read(header) is None


# ---- attributes

PLAIN: dict[str, Any] = {"path": "/a/b", "domain": HOST, "host_only": True, "secure": False, "http_only": False}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", {}),
        ("Secure", {"secure": True}),
        ("SECURE", {"secure": True}),
        ("secure=no", {"secure": True}),
        ("HttpOnly", {"http_only": True}),
        ("httponly = 0", {"http_only": True}),
        ("Secure; HttpOnly; SameSite=Lax; Priority=High; Partitioned; Foo; =; ;;", {"secure": True, "http_only": True}),
        # A path keeps its last slash and everything else, and what does not begin with a slash is no path.
        ("Path=/", {"path": "/"}),
        ("Path=/x", {"path": "/x"}),
        ("Path=/x/", {"path": "/x/"}),
        ("Path=/x//", {"path": "/x//"}),
        ("PATH = /X y ", {"path": "/X y"}),
        ("Path=/%2F?q", {"path": "/%2F?q"}),
        ('Path="/x"', {}),
        ("Path=", {}),
        ("Path", {}),
        ("Path=x/y", {}),
        ("Path=/x; Path=/y", {"path": "/y"}),
        ("Path=/x; Path=y", {}),
        ("Path=/x; Path", {}),
        (f"Path=/x; Path=/{'y' * MAX_ATTRIBUTE_CHARS}", {"path": "/x"}),
        # The last domain counts, even if it is none.
        ("Domain=shop.example", {"domain": "shop.example", "host_only": False}),
        ("Domain=.shop.example", {"domain": "shop.example", "host_only": False}),
        ("Domain=SHOP.Example", {"domain": "shop.example", "host_only": False}),
        (f"Domain={HOST}", {"host_only": False}),
        ("Domain=", {}),
        ("Domain", {}),
        ("Domain=.", {}),
        ("Domain=other.example; Domain=shop.example", {"domain": "shop.example", "host_only": False}),
        ("Domain=shop.example; Domain=", {}),
        ("Domain=shop.example; Domain=.www.shop.example", {"host_only": False}),
    ],
)
def test_an_attribute_is_read_as_browsers_read_it(attributes: str, expected: dict[str, Any]) -> None:
    assert read(f"a=1; {attributes}") == Cookie("a", "1", **(PLAIN | expected))


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        (HOST, "other.example"),
        (HOST, "op.example"),
        (HOST, "a.www.shop.example"),
        (HOST, "shop.example; Domain=other.example"),
        (HOST, "..shop.example"),
        (HOST, "shop.example."),
        (HOST, '"shop.example"'),
        (HOST, "shop.example:80"),
        ("xn--bcher-kva.example", "b\xfccher.example"),
        ("127.0.0.1", "0.0.1"),
        ("127.0.0.1", "1"),
        ("[::1]", ":1]"),
        ("localhost", "example"),
        ("shop.example.", "shop.example"),
    ],
)
def test_a_cookie_for_another_host_is_ignored(host: str, domain: str) -> None:
    assert read(f"a=1; Domain={domain}", host) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "github.io"])
def test_the_cookie_of_an_address_or_a_public_suffix_is_for_it_alone(host: str) -> None:
    for header in ("a=1", f"a=1; Domain={host}", f"a=1; Domain=.{host.upper()}"):
        assert read(header, host) == Cookie("a", "1", host, "/a/b")


@pytest.mark.parametrize(
    ("path", "default"),
    [("/", "/"), ("/x", "/"), ("/x/", "/x"), ("/x/y", "/x"), ("/x/y/", "/x/y"), ("//", "/"), ("//x", "/")],
)
def test_a_cookie_without_a_path_is_for_the_folder_of_its_page(path: str, default: str) -> None:
    cookie = read("a=1", path=path)
    assert cookie is not None
    assert cookie.path == default


# ---- the end of a cookie


@pytest.mark.parametrize(
    ("attributes", "expires"),
    [
        ("", 0),
        (FUTURE, FUTURE_AT),
        ("Max-Age=60", int(NOW) + 60),
        ("max-age = 60 ", int(NOW) + 60),
        ("Max-Age=060", int(NOW) + 60),
        ("Max-Age=0", DELETED),
        ("Max-Age=-1", DELETED),
        (f"Max-Age=-{'9' * 1000}", DELETED),
        (f"Max-Age={'9' * 1000}", int(NOW) + MAX_AGE_SECONDS),
        ("Max-Age=", 0),
        ("Max-Age=+60", 0),
        ("Max-Age=6e1", 0),
        ("Max-Age=60s", 0),
        ('Max-Age="60"', 0),
        ("Max-Age=-", 0),
        ("Expires=Wed, 13 Dec 2000 00:00:00 GMT", DELETED),
        ("Expires=Thu, 01 Jan 1970 00:00:00 GMT", DELETED),
        ("Expires=Mon, 01 Jan 1601 00:00:00 GMT", DELETED),
        ("Expires=Fri, 31 Dec 9999 23:59:59 GMT", int(NOW) + MAX_AGE_SECONDS),
        # Max-Age goes before Expires, wherever it stands; of the same attribute the last valid one counts.
        (f"Max-Age=60; {FUTURE}", int(NOW) + 60),
        (f"{FUTURE}; Max-Age=60", int(NOW) + 60),
        (f"{FUTURE}; Max-Age=0", DELETED),
        (f"{FUTURE}; Max-Age=soon", FUTURE_AT),
        ("Max-Age=0; Max-Age=60", int(NOW) + 60),
        ("Max-Age=60; Max-Age=soon", int(NOW) + 60),
        (f"Expires=Wed, 13 Dec 2000 00:00:00 GMT; {FUTURE}", FUTURE_AT),
        (f"{FUTURE}; Expires=never", FUTURE_AT),
        ("Expires=31 February 2024 25:00:00", 0),
        ("Expires=0", 0),
        ("Expires=-1", 0),
        ("Expires", 0),
    ],
)
def test_a_cookie_ends_when_browsers_end_it(attributes: str, expires: int) -> None:
    assert read(f"a=1; {attributes}") == Cookie("a", "1", HOST, "/a/b", expires)


@pytest.mark.parametrize(
    "text",
    [
        "Fri, 01 Mar 2024 12:00:00 GMT",
        "Fri, 01-Mar-2024 12:00:00 GMT",
        "Friday, 01-Mar-24 12:00:00 GMT",
        "Fri Mar  1 12:00:00 2024",
        "1 Mar 2024 12:00:00",
        "01 March 2024 12:00:00",
        "1 MARCHING 24 12:0:0",
        "mar 1 2024 12:00:00",
        "2024 Mar 01 12:00:00",
        "12:00:00 2024 1 mar",
        "12:00:00 01 2024 Mar",
        "1 Mar 2024 12:00:00.123 GMT",
        "1 Mar 2024 12:00:00,999 UTC+01:00 and more",
        "1 Mar 2024 12:00:00 -0800 (PST)",
        "1 Mar 2024 12:00:00Z",
        "1st Mar 2024 12:00:00",
        "Fri,01/Mar/2024;12:00:00",
        '"Fri, 01 Mar 2024 12:00:00 GMT"',
        "\tFri\t01 Mar 2024\t12:00:00",
        "Fry, 01 Mar 2024 12:00:00 XYZ",
        "01 Mar 2024 12:00:00 31 Dec 1999 23:59:59",
        "1 Mar 2024AD 12:00:00x",
        "1 Mar 12345 2024 12:00:00",
    ],
)
def test_a_date_is_read_whatever_stands_around_its_parts(text: str) -> None:
    assert read_date(text) == NOON


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1 Jan 70 00:00:00", 0),
        ("31 Dec 69 23:59:59", 3_155_759_999),
        ("1 Jan 99 00:00:00", 915_148_800),
        ("1 Jan 00 00:00:00", 946_684_800),
        ("29 Feb 2024 00:00:00", 1_709_164_800),
        ("31 Dec 1969 23:59:59", -1),
        ("1 Jan 1601 00:00:00", -11_644_473_600),
        ("31 Dec 9999 23:59:59", 253_402_300_799),
    ],
)
def test_a_year_of_two_digits_is_of_1970_to_2069(text: str, seconds: int) -> None:
    assert read_date(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "31 February 2024 12:00:00",
        "29 Feb 2023 12:00:00",
        "32 Mar 2024 12:00:00",
        "0 Mar 2024 12:00:00",
        "1 Mar 2024 24:00:00",
        "1 Mar 2024 12:60:00",
        "1 Mar 2024 12:00:60",
        "31 February 2024 25:00:00",
        "1 Mar 1600 12:00:00",
        "1 Mar 100 12:00:00",
        "1 Mar 12345 12:00:00",
        "1 Mar 4 12:00:00",
        "1 Mar 2024 12:00",
        "1 Mar 2024",
        "1 2024 12:00:00",
        "Mar 2024 12:00:00",
        "1 Mar 12:00:00",
        "100 Mar 2024 12:00:00",
        "1 M\xe4r 2024 12:00:00",
        "2024-03-01T12:00:00Z",
        "1709294400",
    ],
)
def test_a_date_with_an_impossible_or_a_missing_part_is_none(text: str) -> None:
    assert read_date(text) is None


# ---- matching


@pytest.mark.parametrize(
    ("host", "domain", "matches"),
    [
        ("a.example", "a.example", True),
        ("www.a.example", "a.example", True),
        ("x.www.a.example", "a.example", True),
        ("a.example", "www.a.example", False),
        ("ba.example", "a.example", False),
        ("a.example.org", "a.example", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "0.0.1", False),
        ("[::1]", "[::1]", True),
    ],
)
def test_a_domain_matches_names_below_it(host: str, domain: str, matches: bool) -> None:
    assert domain_matches(host, domain) is matches


@pytest.mark.parametrize(
    ("path", "cookie_path", "matches"),
    [
        ("/", "/", True),
        ("/x/y", "/", True),
        ("/x", "/x", True),
        ("/x/", "/x", True),
        ("/x/y", "/x", True),
        ("/xy", "/x", False),
        ("/X", "/x", False),
        ("/x", "/x/", False),
        ("/x/", "/x/", True),
        ("/x/y", "/x/", True),
        ("/x%2Fy", "/x", False),
        ("/", "/x", False),
    ],
)
def test_a_path_matches_pages_below_it(path: str, cookie_path: str, matches: bool) -> None:
    assert path_matches(path, cookie_path) is matches
