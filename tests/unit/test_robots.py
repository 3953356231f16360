"""What a robots.txt, or its absence, says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.policy.robots import MAX_ROBOTS_BYTES, Robots, robots_verdict

AGENT = "skitter/0.1 (web crawler)"


def test_the_group_of_our_name_wins_over_the_star() -> None:
    robots = Robots.parse("User-agent: *\nDisallow: /\n\nUser-agent: Skitter\nDisallow: /private\n", AGENT)
    assert robots.allows("https://a.example/")
    assert not robots.allows("https://a.example/private/1")


def test_the_star_holds_for_those_not_named() -> None:
    robots = Robots.parse(b"User-agent: otherbot\nDisallow: /\n\nUser-agent: *\nDisallow: /tmp/\n", AGENT)
    assert robots.allows("https://a.example/")
    assert not robots.allows("https://a.example/tmp/x?y=1")


def test_the_longest_rule_wins_and_patterns_match() -> None:
    text = "User-agent: *\nDisallow: /a/\nAllow: /a/public\nDisallow: /*.pdf$\n"
    robots = Robots.parse(text, AGENT)
    assert robots.allows("https://a.example/a/public/x")
    assert not robots.allows("https://a.example/a/other")
    assert not robots.allows("https://a.example/b.pdf")
    assert robots.allows("https://a.example/b.pdf?download")


def test_robots_txt_itself_is_always_allowed() -> None:
    assert Robots.parse("User-agent: *\nDisallow: /\n", AGENT).allows("https://a.example/robots.txt")


def test_crawl_delay_and_sitemaps_are_read() -> None:
    text = "User-agent: skitter\nCrawl-delay: 2.5\n\nSitemap: https://a.example/s1.xml\nSitemap: https://a.example/s2.xml\n"
    robots = Robots.parse(text, AGENT)
    assert robots.crawl_delay == 2.5
    assert robots.sitemaps == ["https://a.example/s1.xml", "https://a.example/s2.xml"]


@pytest.mark.parametrize(
    ("value", "delay"), [("-1", None), ("nan", None), ("inf", None), ("many", None), ("0", 0.0), ("1e12", 86_400.0)]
)
def test_a_crawl_delay_is_bounded_and_sane(value: str, delay: float | None) -> None:
    assert Robots.parse(f"User-agent: *\nCrawl-delay: {value}\n", AGENT).crawl_delay == delay


def test_a_byte_order_mark_does_not_hide_the_first_group() -> None:
    robots = Robots.parse(b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /x\r\n", AGENT)
    assert not robots.allows("https://a.example/x")


def test_nothing_beyond_the_cap_is_read_and_no_line_is_cut_in_two() -> None:
    head = b"User-agent: *\n"
    filler = b"#" * (MAX_ROBOTS_BYTES - len(head) - len(b"\nDisallow: /")) + b"\n"
    text = head + filler + b"Disallow: /private\nDisallow: /late\n"
    assert text[:MAX_ROBOTS_BYTES].endswith(b"Disallow: /")
    robots = Robots.parse(text, AGENT)
    assert robots.allows("https://a.example/")
    assert robots.allows("https://a.example/late")


def test_without_a_file_everything_is_allowed() -> None:
    robots = Robots.allow_all()
    assert robots.allows("https://a.example/anything")
    assert robots.crawl_delay is None
    assert robots.sitemaps == []


@given(st.binary(max_size=400) | st.text(max_size=400), st.text(max_size=40))
def test_garbage_never_raises(text: bytes | str, agent: str) -> None:
    robots = Robots.parse(text, agent)
    assert robots.allows("https://a.example/a/b?c=d") in (True, False)


@given(
    st.lists(
        st.sampled_from(
            ["User-agent", "Disallow", "Allow", "Crawl-delay", "Sitemap", "Request-rate", "Visit-time", "x"]
        ),
        max_size=12,
    ),
    st.text(alphabet="/*$%ab \u00fc?=[]:1.", max_size=12),
)
def test_odd_rules_never_raise(fields: list[str], value: str) -> None:
    text = "User-agent: *\n" + "".join(f"{field}: {value}\n" for field in fields)
    assert Robots.parse(text, AGENT).allows("https://a.example/%zz/[x]?") in (True, False)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, "rules"),
        (204, "rules"),
        (301, "allow_all"),
        (400, "allow_all"),
        (401, "allow_all"),
        (403, "allow_all"),
        (404, "allow_all"),
        (410, "allow_all"),
        (429, "unknown"),
        (500, "unknown"),
        (503, "unknown"),
        (None, "unknown"),
    ],
)
def test_statuses_become_verdicts(status: int | None, kind: str) -> None:
    verdict = robots_verdict(status, b"User-agent: *\n")
    assert verdict.kind == kind
    assert verdict.text == (b"User-agent: *\n" if kind == "rules" else b"")


def test_a_verdict_keeps_no_more_than_the_cap() -> None:
    assert len(robots_verdict(200, b"Allow: /\n" * 100_000).text) <= MAX_ROBOTS_BYTES
