"""Links into sites without an end are left out, and links of real sites never are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.model.request import Fingerprinter
from skitter.model.session_ids import without_session
from skitter.policy.scope import Scope
from skitter.policy.traps import MAX_DATED_DEPTH, RULES, TrapRules
from skitter.settings import Settings

YEAR = 2026
TOKEN = "IQoJb3JpZ2luX2VjEJ%2F%2F%2F%2F%2F%2F%2F%2F%2F%2FwEaCXVzLWVhc3QtMSJHMEUCIQ" * 24
REAL = f"""
https://docs.python.org/3/library/asyncio-task.html
https://docs.djangoproject.com/en/5.0/ref/models/querysets/?from=olddocs
https://en.wikipedia.org/wiki/Web_crawler
https://en.wikipedia.org/w/index.php?title=Web_crawler&action=history&offset=20230105123456%7C1131&limit=500&dir=prev
https://de.wikipedia.org/wiki/Spezial:Letzte_%C3%84nderungen?hidebots=1&hidecategorization=1&limit=50&days=7&urlversion=2
https://www.nytimes.com/2019/11/05/opinion/letters/a-long-title-with-many-words-in-it.html
https://archive.example/1987/01/01/01/01/index.html
https://newspapers.example/1931-05-12/page/3
https://blog.example/2024/02/page/17/
https://web.archive.org/web/20150101000000*/https://example.com/a/b/c/d/e/f/g/h/i
https://github.com/apache/kafka/tree/trunk/clients/src/main/java/org/apache/kafka/clients/consumer/internals/events
https://git.example/tree/main/src/main/java/com/company/main/app/src/main/java/com/company/product/feature/impl/Main.java
https://cdn.example/npm/a@1/node_modules/b/node_modules/c/node_modules/d/node_modules/e/node_modules/f/index.js
https://repo.maven.apache.org/maven2/org/apache/apache/apache/apache/1.0/apache-1.0.pom
https://tiles.example/0/0/0/0/0.png
https://library.example/pairtree_root/00/00/00/00/00/00/00/12/34/56
https://shop.example/c/shoes?brand=a&brand=b&brand=c&color=red&color=blue&size=42&size=43&sort=price&page=3&per_page=48
https://shop.example/search?q=a&filters%5Bcolor%5D%5B%5D=red&filters%5Bcolor%5D%5B%5D=blue&filters%5Bsize%5D%5B%5D=42
https://forum.example/viewtopic.php?f=2&t=123456&start=987650
https://comics.example/strip/4711/
https://maps.example/@52.5200,13.4050,12z/data=!3m1!4b1!4m6!3m5!1s0x47a84e373f035901:0x42120465b5e3b70!8m2
https://s3.example/bucket/key/with/some/depth.pdf?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIA%2F20260101\
%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20260101T000000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host\
&X-Amz-Signature={"0f" * 32}&X-Amz-Security-Token={TOKEN[:1500]}&response-content-disposition=inline&x-id=GetObject
https://login.example/saml?SAMLRequest={TOKEN[:1600]}&RelayState=https%3A%2F%2Fapp.example%2F
https://a.example/
https://a.example/?
https://a.example//double//slashes//here/
https://a.example/path/;v=1/x;y=2
""".replace("\\\n", "").split()


def rules(**settings: object) -> TrapRules:
    return TrapRules(Settings.from_layers([("test", {"traps": "normal", **settings})]).traps, YEAR)


@pytest.mark.parametrize("url", REAL)
def test_what_real_sites_have_is_never_refused_by_default(url: str) -> None:
    assert rules().rule_against(url, 30) is None
    assert rules().rule_against(url, 5_000) is None, "a chain of next links is long"


@pytest.mark.parametrize("url", REAL)
def test_strict_leaves_almost_all_of_them_too(url: str) -> None:
    expected = "trap_repeats" if "pairtree" in url else None
    assert rules(traps="strict").rule_against(url, 30) == expected


@pytest.mark.parametrize(
    ("url", "depth", "rule"),
    [
        ("https://a.example/" + "a/" * 11, 1, "trap_repeats"),
        ("https://a.example/" + "a/" * 10, 1, None),
        ("https://a.example/" + "a/b/" * 11, 1, "trap_repeats"),
        ("https://a.example/x/" + "a/b/c/" * 11 + "end.html", 1, "trap_repeats"),
        ("https://a.example/" + "/" * 12, 1, "trap_repeats"),
        ("https://a.example/" + "/".join(map(str, range(65))), 1, "trap_segments"),
        ("https://a.example/" + "/".join(map(str, range(64))), 1, None),
        ("https://a.example/?next=" + "/a" * 30, 1, None),
        ("https://a.example/" + "a" * 4096, 1, "trap_length"),
        ("https://a.example/", 10_001, "trap_depth"),
    ],
)
def test_what_no_real_site_has_is_refused_by_default(url: str, depth: int, rule: str | None) -> None:
    assert rules().rule_against(url, depth) == rule


@pytest.mark.parametrize(
    ("url", "depth", "rule"),
    [
        ("https://a.example/" + "a/" * 6, 1, "trap_repeats"),
        ("https://a.example/" + "a/" * 5, 1, None),
        ("https://a.example/?" + "&".join(f"p{n}=1" for n in range(17)), 1, "trap_parameters"),
        ("https://a.example/?" + "&".join(f"p{n}=1" for n in range(16)), 1, None),
        ("https://a.example/?a=1&b=2&a=1&b=2&a=1", 1, "trap_parameters"),
        ("https://a.example/?" + "&".join(f"tag={n}" for n in range(9)), 1, "trap_parameters"),
        ("https://a.example/calendar/2029/01", 1, "trap_calendar"),
        ("https://a.example/calendar/2028/12/31", 1, None),
        ("https://a.example/events/2031-4-1/", 1, "trap_calendar"),
        ("https://a.example/day?date=2100-01-31", 1, "trap_calendar"),
        ("https://a.example/day?view=day&d=20300131", 1, "trap_calendar"),
        ("https://a.example/cal?month=5&year=2040", 1, "trap_calendar"),
        ("https://a.example/cal?month=5&year=2027", 1, None),
        ("https://a.example/cal?month=5&tx_cal%5Byear%5D=2040", 1, None),
        ("https://a.example/cal?month=5&tx_cal[year]=2040", 1, "trap_calendar"),
        ("https://a.example/calendar/1925/12", 1, "trap_calendar"),
        ("https://a.example/calendar/1926/12", 1, None),
        ("https://a.example/calendar/2026/12/01", MAX_DATED_DEPTH + 1, "trap_calendar"),
        ("https://a.example/calendar/2026/12/01", MAX_DATED_DEPTH, None),
        ("https://a.example/forum/1234/5", 1, None),
        ("https://a.example/item/2500/3", 1, None),
        ("https://a.example/item/2050/31", 1, None),
    ],
)
def test_strict_guesses(url: str, depth: int, rule: str | None) -> None:
    assert rules(traps="strict").rule_against(url, depth) == rule
    if rule != "trap_length":
        assert rules().rule_against(url, depth) is None, "nothing of that is asked by default"


def test_limits_are_settings() -> None:
    own = rules(max_url_length=30, max_path_segments=3, max_path_repeats=1, endless_depth=5)
    assert own.rule_against("https://a.example/123456789012", 1) is None
    assert own.rule_against("https://a.example/1234567890123", 1) == "trap_length"
    assert own.rule_against("https://a.example/a/b/c/d", 1) == "trap_segments"
    assert own.rule_against("https://a.example/a/a", 1) == "trap_repeats"
    assert own.rule_against("https://a.example/", 6) == "trap_depth"


def test_the_scope_asks_them_after_its_own_rules() -> None:
    scope = Scope(domains=["a.example"], max_depth=3, traps=rules())
    endless = "a/" * 20
    assert scope.rule_against(f"https://a.example/{endless}", 1) == "trap_repeats"
    assert scope.rule_against(f"https://b.example/{endless}", 1) == "offsite"
    assert scope.rule_against(f"https://a.example/{endless}", 4) == "depth"
    assert scope.rule_against("https://a.example/", 3) is None


segments = st.lists(st.sampled_from(["a", "b", "c", "", "2026", "12", "%20"]), max_size=80)


@given(
    segments,
    st.lists(st.sampled_from(["a=1", "b=2", "date=2030-01-01", "sid"]), max_size=30),
    st.integers(0, 20_000),
    st.sampled_from(["normal", "strict"]),
)
def test_a_rule_against_a_link_is_one_that_people_can_read(
    path: list[str], query: list[str], depth: int, traps: str
) -> None:
    url = "https://a.example/" + "/".join(path) + "?" * bool(query) + "&".join(query)
    rule = rules(traps=traps).rule_against(url, depth)
    assert rule is None or rule in RULES
    if traps == "normal" and depth <= 10_000 and max((path or [""]).count(part) for part in path or [""]) <= 9:
        assert rule in (None, "trap_segments")


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=8), st.integers(11, 20))
def test_every_cycle_ends(cycle: list[str], times: int) -> None:
    """However long the cycle is: its segments stand there too often, or there are too many of them."""
    url = "https://a.example/" + "/".join(cycle * times)
    assert rules().rule_against(url, 1) in ("trap_repeats", "trap_segments")


SESSION = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    "url",
    [
        f"https://a.example/shop/item;jsessionid={SESSION}.node1?id=5",
        f"https://a.example/shop/item;JSESSIONID={SESSION}?id=5",
        f"https://a.example/shop/item?PHPSESSID={SESSION}&id=5",
        f"https://a.example/shop/item?id=5&sid={SESSION}",
        f"https://a.example/shop/item?id=5&s={SESSION}",
        "https://a.example/shop/item?CFID=123&CFTOKEN=456&id=5",
        "https://a.example/(S(lit3py55t21z5v55vlm25s55))/shop/item?id=5",
        "https://a.example/shop/item?ASPSESSIONIDQABC=XYZ&id=5",
        "https://a.example/shop/item?id=5&sessionid=",
    ],
)
def test_a_session_id_is_no_part_of_a_page(url: str) -> None:
    assert without_session(url) == "https://a.example/shop/item?id=5"
    plain, strict = Fingerprinter(b"secret"), Fingerprinter(b"secret", ignore_sessions=True)
    page = "https://a.example/shop/item?id=5"
    assert strict.fingerprint("GET", url) == strict.fingerprint("GET", page) == plain.fingerprint("GET", page)
    assert plain.fingerprint("GET", url) != plain.fingerprint("GET", page)


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/?s=search+words",
        "https://a.example/?s=aaaaaaaaaaaaaaaaaaaaaaaa",
        "https://a.example/?sid=17",
        "https://a.example/?session=spring-2026",
        "https://a.example/?id=" + SESSION,
        "https://a.example/talks/session/" + SESSION,
        "https://a.example/a;v=1/b",
        "https://a.example/wiki/Session_(computing)/x",
    ],
)
def test_what_only_looks_a_little_like_one_stays(url: str) -> None:
    assert without_session(url) == url
