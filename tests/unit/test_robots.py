"""What a robots.txt, or its absence, says."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.policy import robots as module
from skitter.policy.robots import MAX_ROBOTS_BYTES, MAX_RULES, MAX_WORK, Robots, Rule, robots_verdict

AGENT = "skitter/0.2 (web crawler)"


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
        (304, "unknown"),
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


# ---- RFC 9309, clause by clause


def allowed(text: str | bytes, path: str, agent: str = AGENT) -> bool:
    return Robots.parse(text, agent).allows("https://a.example" + path)


def test_all_groups_of_one_name_are_one_group() -> None:
    text = "User-agent: skitter\nDisallow: /a\n\nUser-agent: x\nDisallow: /x\n\nUser-agent: SKITTER\nDisallow: /b\n"
    assert [allowed(text, path) for path in ("/a", "/b", "/x")] == [False, False, True]


@pytest.mark.parametrize(
    ("name", "is_us"),
    [
        ("skitter", True),
        ("Skitter/2.0", True),
        ("skitter # the crawler", True),
        ("skit", False),
        ("skitter-news", False),
        ("skitter*", True),
        ("skitter *", True),
        ("SKITTER/2.0 (+https://a.example/bot)", True),
        ("skitter (bot)", True),
        ("skitter, other", True),
        ("skitter;q=1", True),
        ("skitter.bot", True),
        ("skitter2", True),
        ("skitter\u00e9", True),
        ("skitter\tother", True),
        ("skitter:other", True),
        ("skitter@a.example", True),
        ("skitter$", True),
        ("skitters", False),
        ("skitter_bot", False),
        ("skitter-", False),
        ("other skitter", False),
        ("other, skitter", False),
        ("Mozilla/5.0 (compatible; skitter)", False),
        ("'skitter'", False),
        ("2skitter", False),
        ("(skitter)", False),
        ("*", True),
        ("* ", True),
        ("* skitter is welcome", True),
        ("*\tall", True),
        ("*bot", False),
        ("**", False),
        ("*/2.0", False),
        ("*, other", False),
        ("*skitter", False),
        ("", False),
    ],
)
def test_a_group_is_ours_by_the_whole_product_token(name: str, is_us: bool) -> None:
    assert allowed(f"User-agent: {name}\nDisallow: /\n", "/a") is not is_us


@pytest.mark.parametrize(
    ("name", "agent", "is_us"),
    [
        ("mybot2", "mybot2/1.0", True),
        ("MyBot2*", "mybot2/1.0", True),
        ("mybot2.1", "mybot2/1.0", False),
        ("mybot", "mybot2/1.0", False),
        ("mybot3", "mybot2/1.0", False),
        ("my.bot/3", "my.bot/1.0", True),
        ("*", "mybot2/1.0", True),
    ],
)
def test_a_crawler_whose_name_has_digits_is_named_by_all_of_it(name: str, agent: str, is_us: bool) -> None:
    assert allowed(f"User-agent: {name}\nDisallow: /\n", "/a", agent) is not is_us


def test_a_group_with_text_after_our_name_wins_over_the_star_and_is_shown_by_our_name() -> None:
    text = "User-agent: *\nDisallow: /\nUser-agent: Skitter*\nUser-agent: skitter/9\nDisallow: /x\n"
    assert [allowed(text, "/a"), allowed(text, "/x")] == [True, False]
    assert str(Robots.parse(text, AGENT).deciding("https://a.example/x")) == (
        "robots.txt line 5: Disallow: /x (group: skitter)"
    )


UTF_16 = [("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("codec", "mark"), [("utf-8", b"\xef\xbb\xbf"), *UTF_16])
def test_a_file_in_unicode_is_read_by_its_mark(codec: str, mark: bytes, end: str) -> None:
    text = mark + f"User-agent: skitter{end}Disallow: /\u30c4{end}Allow: /\u30c4/a{end}".encode(codec)
    assert [allowed(text, path) for path in ("/x", "/%E3%83%84", "/\u30c4/a")] == [True, False, True]
    # As it is stored, and read again by other workers.
    assert not allowed(robots_verdict(200, text).text, "/\u30c4")


@pytest.mark.parametrize(("codec", "mark"), UTF_16)
@pytest.mark.parametrize("character", ["a", "\u0a0a", "\u30c4"])
def test_a_file_in_utf_16_is_cut_after_a_whole_line(codec: str, mark: bytes, character: str) -> None:
    line = f"Disallow: /{character * 50}\n"
    text = mark + ("User-agent: *\n" + line * 10_000).encode(codec)
    for body in (text, text[: MAX_ROBOTS_BYTES + 1]):
        kept = robots_verdict(200, body).text
        assert len(kept) <= MAX_ROBOTS_BYTES
        assert kept.decode().endswith(line)
        assert allowed(kept, f"/{character}")


@pytest.mark.parametrize(("codec", "mark"), UTF_16)
def test_half_a_character_in_utf_16_does_no_harm(codec: str, mark: bytes) -> None:
    text = mark + "User-agent: *\nDisallow: /x\n".encode(codec)
    assert not allowed(text + b"\xd8", "/x")
    assert not allowed(text + b"\xd8\xd8\xd8\xd8", "/x")
    assert allowed(mark, "/x")


def test_several_names_share_the_rules_that_follow() -> None:
    text = "User-agent: a\n\nUser-agent: skitter\n\nUser-agent: b\nDisallow: /x\nUser-agent: c\nDisallow: /y\n"
    assert [allowed(text, "/x"), allowed(text, "/y")] == [False, True]


def test_other_records_do_not_interfere_with_groups() -> None:
    text = "User-agent: skitter\nSitemap: https://a.example/s\nHost: a\nCrawl-delay: 3\nUser-agent: b\nDisallow: /x\n"
    assert not allowed(text, "/x")
    assert Robots.parse(text, AGENT).crawl_delay == 3.0
    assert Robots.parse(text, "b").crawl_delay is None, "it was said before b was named"


def test_an_empty_disallow_forbids_nothing_and_ends_the_names() -> None:
    text = "User-agent: skitter\nDisallow:\n\nUser-agent: *\nDisallow: /\n"
    assert allowed(text, "/a")
    assert not allowed(text, "/a", "other")


def test_rules_outside_any_group_are_ignored() -> None:
    assert allowed("Disallow: /\n\nUser-agent: *\nDisallow: /x\n", "/a")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_the_rfc_says_and_in_no_other_way(end: str) -> None:
    text = f"User-agent: *{end}# a comment \x0b\x0c\x85\u2028Disallow: /{end}Disallow: /x{end}"
    assert allowed(text, "/a")
    assert str(Robots.parse(text, AGENT).deciding("https://a.example/x")) == (
        "robots.txt line 3: Disallow: /x (group: *)"
    )


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/fish", "/fishheads/x?id=1", True),
        ("/fish", "/Fish", False),
        ("/fish", "/catfish", False),
        ("/fish*", "/fish", True),
        ("/fish/", "/fish", False),
        ("/*.php", "/folder/any.php.file?x", True),
        ("/*.php", "/windows.PHP", False),
        ("/*.php$", "/folder/any.php", True),
        ("/*.php$", "/any.php?x", False),
        ("/*.php$", "/any.php5", False),
        ("/*.php$", "/a.php/b.php", True),
        ("/fish*.php", "/fishheads/catfish.php?x", True),
        ("/fish*.php", "/.php/fish", False),
        ("/a**b", "/axb", True),
        ("/$", "/", True),
        ("/$", "/a", False),
        ("*", "/", True),
        ("*.gif$", "/x.gif", True),
        ("fish", "/fish", False),
        ("/a$b", "/a$bc", True),
        ("/a$b", "/a", False),
        ("/a%24", "/a$", True),
        ("/a%2A", "/a*b", True),
        ("/a%2a", "/axb", False),
        ("/%62%61%7a", "/baz", True),
        ("/baz", "/%62%61%7A", True),
        ("/a/b", "/a%2Fb", False),
        ("/a%2fb", "/a%2Fb", True),
        ("/\u30c4", "/%E3%83%84", True),
        ("/%e3%83%84", "/%E3%83%84", True),
        ("/a b", "/a%20b", True),
        ("/a|b", "/a|b", True),
        ("/50%", "/50%25", True),
        ("/?u=https://b.example", "/?u=https%3A%2F%2Fb.example", True),
        ("/?u=https%3A%2F%2Fb.example", "/?u=https://b.example", True),
        ("/p?a=*&u=http%3A//", "/p?a=1&u=http:%2F%2Fb", True),
        ("/*?sid=", "/a/b?sid=1", True),
    ],
)
def test_patterns_match_as_the_rfc_says(pattern: str, path: str, matches: bool) -> None:
    assert allowed(f"User-agent: *\nDisallow: {pattern}\n", path) is not matches


def test_of_equally_long_rules_an_allow_wins() -> None:
    assert allowed("User-agent: *\nDisallow: /page\nAllow: /page\n", "/page")
    assert allowed("User-agent: *\nAllow: /page\nDisallow: /page\n", "/page")
    assert not allowed("User-agent: *\nAllow: /page\nDisallow: /*.htm\n", "/page.htm")


@pytest.mark.parametrize("line", ["Dissallow: /x", "DISALLOW : /x", "disallow /x", "Disallow:/x", "  Disallow:   /x  "])
def test_what_was_clearly_meant_is_obeyed(line: str) -> None:
    assert not allowed(f"useragent: *\n{line}\n", "/x")


def test_a_rule_names_its_line_and_its_group() -> None:
    text = "# hello\nUser-agent: Skitter\nAllow: /\n\nUser-agent: SKITTER\nDisallow: /private/ # keep out\n"
    rule = Robots.parse(text, AGENT).deciding("https://a.example/private/1")
    assert rule is not None
    assert str(rule) == "robots.txt line 6: Disallow: /private/ (group: SKITTER)"


def test_a_web_page_in_its_place_forbids_nothing() -> None:
    assert allowed("<!DOCTYPE html>\n<html><head><title>Not found</title>\n<p>Disallow: /\n", "/a")


def test_ten_thousand_rules_and_a_hostile_pattern_are_asked_at_once() -> None:
    rules = "".join(f"Disallow: /{number}/\n" for number in range(10_000))
    text = f"User-agent: *\nDisallow: /{'*a' * 5_000}b\n{rules}"
    robots = Robots.parse(text, AGENT)
    # With a matcher that goes back and tries again this would not end in the age of the universe.
    assert robots.allows("https://a.example/" + "a" * 4_000)
    assert not robots.allows("https://a.example/9999/x")


# ---- what a file and a question may cost

HEAD = "User-agent: skitter\nUser-agent: *\n"


def filled(line: Callable[[int], str]) -> bytes:
    """As many of these lines as are read."""
    text, number = bytearray(HEAD.encode()), 0
    while len(text) < MAX_ROBOTS_BYTES:
        text += line(number).encode()
        number += 1
    return bytes(text)


HOSTILE = {
    "short wildcards": filled(lambda number: f"allow:*{number:x}\n"),
    "wildcards that nearly match": filled(lambda number: f"Disallow: /*{'a' * 49}{number:05d}{'a' * 40}\n"),
    "wildcards, each allowed": filled(lambda number: f"allow: /*{number:04x}bbbbbbbb\n"),
    "wildcards with ends": filled(lambda number: f"allow: /*{number:05x}*aaaaaaaaaaaaaaaaa*b$\n"),
    "many parts": filled(lambda number: f"Disallow: /{'*a' * 4_000}{number}\n"),
    "many stars": filled(lambda number: f"Disallow: /{'*' * 4_000}{number}\n"),
    "every length": filled(lambda number: f"Disallow: /{'a' * (number % 1_000)}{number // 1_000 or ''}\n"),
    "escapes": filled(lambda number: f"Disallow: /{'%41%2f%C3' * 300}{number}\n"),
    "to be escaped": filled(lambda number: f"Disallow: /?{'[' * 1_000}*{number}\n"),
    "not ASCII": filled(lambda number: f"Disallow: /{chr(0x100 + number % 3_000) * 900}\n"),
    "lines of two bytes": filled(lambda _: "a\n"),
    "names": filled(lambda _: "user-agent:*\n"),
    "delays": filled(lambda number: f"crawl-delay:{number % 9}\n"),
    "digits": filled(lambda _: "crawl-delay:" + "9" * 100_000 + "\n"),
    "blanks": filled(lambda _: "allow" + " " * 5_000 + "\n"),
    "one line": HEAD.encode() + b"Disallow: /" + b"[*" * 250_000,
}
LONG = ("a" * 4_000, "a/" * 2_000, "%41%5B" * 650, "b?" + "[" * 4_000, "aaaaaaaaaaaaaaaaa/" * 220)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_file_makes_a_question_cost_more_than_its_budget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    robots = Robots.parse(HOSTILE[name], AGENT)
    asked = 0
    matches = Rule.matches

    def counting(rule: Rule, path: str, start: int) -> bool:
        nonlocal asked
        asked += rule.work(len(path) - start)
        return matches(rule, path, start)

    monkeypatch.setattr(Rule, "matches", counting)
    for path in LONG:
        asked = 0
        robots.deciding("https://a.example/" + path)
        assert asked <= MAX_WORK


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_read_and_asked_in_time(name: str) -> None:
    began = time.thread_time()
    robots = Robots.parse(HOSTILE[name], AGENT)
    # Usual: 0.15 s of a processor at most.
    assert time.thread_time() - began < 2.0
    assert robots.size <= MAX_RULES
    for path in LONG:
        # Usual: 0.02 s at most; 0.4 s before there was a budget. Once may be a collection of garbage.
        assert min(_decision_seconds(robots, path) for _ in range(3)) < 0.2


def _decision_seconds(robots: Robots, path: str) -> float:
    began = time.thread_time()
    robots.deciding("https://a.example/" + path)
    return time.thread_time() - began


def test_what_is_not_looked_at_forbids_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "User-agent: *\nDisallow: /b\nAllow: /b*ccc\n" + "".join(f"Allow: /*xyz{n:04d}\n" for n in range(2_000))
    monkeypatch.setattr(module, "MAX_WORK", 50_000)
    robots = Robots.parse(text, AGENT)
    rule = robots.deciding("https://a.example/a")
    assert rule is not None
    assert not rule.allow
    assert "too many rules with *, which count as Disallow: /" in str(rule)
    # What a longer rule decides needs no look at the others, and what is forbidden already keeps its reason.
    assert robots.allows("https://a.example/b" + "c" * 100) is False
    monkeypatch.setattr(module, "MAX_WORK", MAX_WORK)
    assert robots.allows("https://a.example/a")


def test_more_rules_than_are_kept_forbid_everything_and_exactly_as_many_do_not() -> None:
    lines = [f"Disallow: /{number}$" for number in range(MAX_RULES)]
    text = "\n".join(["User-agent: *", *lines, *lines])
    robots = Robots.parse(text, AGENT)
    assert robots.size == MAX_RULES
    assert robots.allows("https://a.example/x")
    assert not robots.allows("https://a.example/7")
    crowded = Robots.parse(text + "\nAllow: /x", AGENT)
    rule = crowded.deciding("https://a.example/x")
    assert rule is not None
    assert str(rule) == (f"robots.txt line 2: more than {MAX_RULES} rules, which count as Disallow: / (group: *)")
    # Rules for others do not count.
    assert Robots.parse("User-agent: other\n" + text + "\nUser-agent: skitter\nAllow: /", AGENT).allows(
        "https://a.example/7"
    )


def test_an_honest_file_of_ten_thousand_wildcards_is_asked_in_full() -> None:
    lines = "".join(f"Disallow: /*?filter={number:05d}&\n" for number in range(10_000))
    robots = Robots.parse(f"User-agent: *\n{lines}Disallow: /*&sort=price$\n", AGENT)
    path = "https://a.example/shop/shoes/" + "x" * 140
    assert robots.allows(path)
    assert not robots.allows(path + "?filter=09999&")
    assert not robots.allows(path + "?a=1&sort=price")


WORDS = st.text(alphabet="ab/*$?", max_size=8)


def reference(rules: list[tuple[bool, str]], path: str) -> bool:
    """The RFC's sentences, with a regular expression for each pattern."""
    best = (-1, True)
    for allow, pattern in rules:
        body, end = (pattern[:-1], r"\Z") if pattern.endswith("$") else (pattern, "")
        if pattern and re.match(".*".join(map(re.escape, body.split("*"))) + end, path):
            octets = len(body.replace("$", "%24")) + bool(end)
            best = max(best, (octets, allow))
    return best[1]


@given(st.lists(st.tuples(st.booleans(), WORDS), max_size=6), st.text(alphabet="ab/?", max_size=10))
def test_the_matcher_agrees_with_the_rfcs_sentences(rules: list[tuple[bool, str]], path: str) -> None:
    lines = "".join(f"{'Allow' if allow else 'Disallow'}: {pattern}\n" for allow, pattern in rules)
    assert allowed("User-agent: *\n" + lines, "/" + path) == reference(rules, "/" + path)


@given(st.text(alphabet="aé/%20~ *$?:", max_size=10), st.integers(0, 40))
def test_an_escaped_path_is_the_path_itself(path: str, place: int) -> None:
    """Whatever letter of a path is escaped, robots.txt says the same about it."""
    url = "/" + "".join(letter if letter in "/?" else quote(letter, safe="") for letter in path)
    letters = re.findall(r"%..|.", url)
    chosen = place % len(letters)
    if letters[chosen].isalnum():
        letters[chosen] = f"%{ord(letters[chosen]):02x}"
    text = "User-agent: *\nDisallow: " + url + "$\n"
    assert not allowed(text, url)
    assert not allowed(text, "".join(letters))
