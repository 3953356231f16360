"""URLs: absolute, joined, canonical, and the key that politeness is counted by."""

from __future__ import annotations

import string
import time
from itertools import permutations

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from skitter.errors import UrlError
from skitter.model.url import (
    MAX_HOST_CHARS,
    MAX_URL_CHARS,
    Joiner,
    Joins,
    absolute,
    canonical,
    host_key,
    host_name,
    port,
)

BASE = "http://a.example/b/c?q=1#f"

# What a path or a query may be made of, with what is treacherous more often than it would be by chance.
pieces = st.text(alphabet=string.ascii_letters + string.digits + "%/.-_~+&=;:@!$'()*, ?#\\ä€", max_size=30)
escapes = st.lists(st.sampled_from(["%", "%4", "%41", "%7e", "%2F", "%2f", "%25", "%zz", "a", "/", "=", "&", "."])).map(
    "".join
)
tails = pieces | escapes
urls = st.builds(
    "{}://{}{}/{}?{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from(["a.example", "A.Example", "user:pw@a.example", "127.0.0.1", "[::1]", "bücher.example"]),
    st.sampled_from(["", ":80", ":443", ":8080"]),
    tails,
    tails,
).map(absolute)


class TestAbsolute:
    @pytest.mark.parametrize(
        ("text", "url"),
        [
            ("http://a.example", "http://a.example/"),
            ("HTTP://A.EXAMPLE/", "http://a.example/"),
            ("  http://a.example/x \n", "http://a.example/x"),
            ("http://a.example:80/", "http://a.example/"),
            ("https://a.example:443/", "https://a.example/"),
            ("https://a.example:80/", "https://a.example:80/"),
            ("http://bücher.example/ä?ö", "http://xn--bcher-kva.example/%C3%A4?%C3%B6"),
            ("http://a.example/x#fragment", "http://a.example/x"),
            ("http://a.example/a/../b/./c", "http://a.example/b/c"),
            ("http://a.example\\b", "http://a.example/b"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
            ("http://[::0001]/", "http://[::1]/"),
        ],
    )
    def test_it_is_what_a_browser_makes_of_it(self, text: str, url: str) -> None:
        assert absolute(text) == url

    @pytest.mark.parametrize(
        ("href", "url"),
        [
            ("d", "http://a.example/b/d"),
            ("/d", "http://a.example/d"),
            ("//x.example/d", "http://x.example/d"),
            ("?d", "http://a.example/b/c?d"),
            ("#d", "http://a.example/b/c?q=1"),
            ("", "http://a.example/b/c?q=1"),
            ("../../../d", "http://a.example/d"),
            ("https:d", "https://d/"),
            ("\t/d\n", "http://a.example/d"),
        ],
    )
    def test_a_link_is_joined_as_a_browser_joins_it(self, href: str, url: str) -> None:
        assert absolute(href, BASE) == url
        assert Joiner(BASE)(href) == url

    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("javascript:alert(1)", "scheme"),
            ("mailto:me@a.example", "scheme"),
            ("data:text/plain,x", "scheme"),
            ("ftp://a.example/", "scheme"),
            ("file:///etc/passwd", "scheme"),
            ("about:blank", "scheme"),
            ("http://", "unparsable"),
            ("http://a b/", "unparsable"),
            ("http://a.example:99999/", "unparsable"),
            ("http://a.example/" + "x" * MAX_URL_CHARS, "too_long"),
        ],
    )
    def test_what_cannot_be_crawled_has_a_rule(self, text: str, rule: str) -> None:
        with pytest.raises(UrlError) as caught:
            absolute(text)
        assert caught.value.rule == rule
        join = Joiner(BASE)
        assert join(text) is None
        assert join.flaws == {rule: 1}

    @pytest.mark.parametrize("text", ["a.example/x", "a.example", "localhost"])
    def test_a_url_without_a_scheme_has_a_hint(self, text: str) -> None:
        with pytest.raises(UrlError) as caught:
            absolute(text)
        assert caught.value.hint == f"did you mean https://{text} ?"

    @given(st.text(max_size=60) | st.text(alphabet=st.characters(categories=["Cs"]), max_size=3), st.booleans())
    def test_joining_never_raises(self, href: str, with_scheme: bool) -> None:
        join = Joiner(BASE)
        url = join("http://" + href if with_scheme else href)
        assert (url is None) == (sum(join.flaws.values()) == 1)
        if url is not None:
            assert url.startswith(("http://", "https://"))
            assert "#" not in url
            assert len(url) <= MAX_URL_CHARS
            assert absolute(url) == url
            canonical(url)
            host_key(url)


class TestCanonical:
    @pytest.mark.parametrize(
        "variants",
        [
            (
                "http://a.example/",
                "http://A.EXAMPLE",
                "http://a.example:80/",
                "http://a.example/?",
                "http://a.example/#x",
            ),
            ("http://a.example/~x", "http://a.example/%7Ex", "http://a.example/%7ex"),
            ("http://a.example/b%2Fc", "http://a.example/b%2fc"),
            ("http://a.example/b", "http://a.example/./b", "http://a.example/c/../b", "http://a.example/%2e/b"),
            ("http://a.example/?a=1&b=2", "http://a.example/?b=2&a=1", "http://a.example/?&b=2&&a=1&"),
            ("http://a.example/?z=1&b=2", "http://a.example/?b=2&%7A=1"),
            ("http://bücher.example/", "http://xn--bcher-kva.example/"),
            ("http://a.example/100%", "http://a.example/100%25"),
        ],
    )
    def test_one_page_has_one_form(self, variants: tuple[str, ...]) -> None:
        assert len({canonical(absolute(url)) for url in variants}) == 1

    @pytest.mark.parametrize(
        "urls",
        [
            ("http://a.example/", "https://a.example/", "http://a.example:8080/", "http://b.example/"),
            ("http://a.example/b", "http://a.example/b/", "http://a.example/B"),
            ("http://a.example/b/c", "http://a.example/b%2Fc"),
            ("http://a.example/?a=1&a=2", "http://a.example/?a=2&a=1"),
            ("http://a.example/?a", "http://a.example/?a=", "http://a.example/?a=1"),
            ("http://a.example/?a=1%26b=2", "http://a.example/?a=1&b=2"),
            ("http://a.example/%2541", "http://a.example/A"),
            ("http://a.example/%%34%31", "http://a.example/A"),
        ],
    )
    def test_different_pages_have_different_forms(self, urls: tuple[str, ...]) -> None:
        assert len({canonical(absolute(url)) for url in urls}) == len(urls)

    @given(urls)
    def test_it_is_its_own_form(self, url: str) -> None:
        form = canonical(url)
        assert canonical(form) == form
        assert canonical(absolute(form)) == form

    @given(urls)
    def test_it_stays_with_its_host(self, url: str) -> None:
        assert host_key(canonical(url)) == host_key(url)

    @given(st.dictionaries(st.text("abxyz%7A", min_size=1, max_size=4), st.text("ab%41", max_size=4), max_size=4))
    def test_the_order_of_parameters_does_not_matter(self, parameters: dict[str, str]) -> None:
        fields = [f"{name}={value}" for name, value in parameters.items()]
        forms = {canonical("http://a.example/?" + "&".join(order)) for order in permutations(fields)}
        named = {canonical(f"http://a.example/?{field}").partition("?")[2].partition("=")[0] for field in fields}
        # Names that say the same, written differently, are one name: their order then does matter.
        if len(named) == len(fields):
            assert len(forms) == 1

    @given(st.text("abcXYZ019-._~", min_size=1, max_size=12))
    def test_unreserved_characters_may_be_escaped_or_not(self, text: str) -> None:
        escaped = "".join(f"%{ord(character):02x}" for character in text)
        plain = canonical(f"http://a.example/p/x{text}?q={text}")
        assert canonical(f"http://a.example/p/x{escaped}?q={escaped}") == plain

    @given(st.binary(min_size=1, max_size=12))
    def test_the_case_of_escapes_does_not_matter(self, data: bytes) -> None:
        lower, upper = ("".join(form % byte for byte in data) for form in ("%%%02x", "%%%02X"))
        assert canonical(f"http://a.example/x{lower}?{lower}") == canonical(f"http://a.example/x{upper}?{upper}")


class TestHostKey:
    @pytest.mark.parametrize(
        ("url", "key"),
        [
            ("http://a.example/x", "http://a.example"),
            ("https://a.example/x", "https://a.example"),
            ("http://a.example:8080/x?y@z", "http://a.example:8080"),
            ("http://user:secret@a.example/x", "http://a.example"),
            ("http://user@a.example:1/", "http://a.example:1"),
            ("http://[::1]:8000/@", "http://[::1]:8000"),
            ("http://h/", "http://h"),
        ],
    )
    def test_scheme_host_and_port(self, url: str, key: str) -> None:
        assert host_key(url) == key

    @given(urls, tails)
    def test_it_does_not_depend_on_the_path(self, url: str, path: str) -> None:
        joined = Joiner(url)("/x/" + path)
        assert joined is not None
        assert host_key(joined) == host_key(url)


class TestJoins:
    """Links that the pages of a folder share are joined once; the result is what joining anew would give."""

    HREFS = ("a.html", "./a", "../b?x#f", "/c", "#here", "?page=2", "", " #here", "http:#here", "http:x", "//h.example")

    @given(
        st.lists(
            st.sampled_from(
                ["http://a.example/d/p", "http://a.example/d/q?u=/x", "https://a.example/d/p", "http://a.example/p"]
            ),
            min_size=2,
            max_size=6,
        ),
        st.lists(st.one_of(st.sampled_from(HREFS), st.text(max_size=8))),
    )
    def test_shared_joins_change_nothing(self, bases: list[str], hrefs: list[str]) -> None:
        joins = Joins()
        for base in bases:
            assert Joiner(base, joins).all(hrefs) == Joiner(base).all(hrefs)

    @given(st.lists(st.one_of(st.sampled_from(HREFS), st.from_regex(r"[/a-z0-9.?\n-]{1,12}", fullmatch=True))))
    def test_many_at_once_are_joined_as_each_alone(self, hrefs: list[str]) -> None:
        base = "http://a.example/d/p?q"
        # can_ada, and no short way.
        assert Joiner(base).all(hrefs) == [absolute(href, base) for href in hrefs]

    @pytest.mark.parametrize("hrefs", [["a", ""], ["", "a"], ["a", "", "b"], [""]])
    def test_a_link_to_the_page_itself_among_plain_ones(self, hrefs: list[str]) -> None:
        base = "http://a.example/d/p?q"
        assert Joiner(base).all(hrefs) == [absolute(href, base) for href in hrefs]

    def test_a_line_feed_does_not_make_two_links_of_one(self) -> None:
        assert Joiner(BASE).all(["x", "a\nb"]) == [absolute("x", BASE), absolute("ab", BASE)]

    def test_one_that_is_too_long_does_not_take_the_others_with_it(self) -> None:
        join = Joiner("http://a.example/d/p")
        assert join.all(["x", "y" * MAX_URL_CHARS, "z"]) == ["http://a.example/d/x", "http://a.example/d/z"]
        assert join.flaws == {"too_long": 1}

    def test_memory_is_bounded(self) -> None:
        joins = Joins()
        for number in range(3 * Joins.FOLDERS):
            Joiner(f"http://a.example/{number}/p", joins).all([f"x{n}" for n in range(10)])
        for _ in range(3):
            Joiner("http://a.example/p", joins).all([f"y{n}" for n in range(Joins.HREFS)])
        assert len(joins._folders) <= Joins.FOLDERS
        assert sum(map(len, joins._folders.values())) <= 3 * Joins.HREFS


@pytest.mark.parametrize(
    ("url", "name", "number"),
    [
        ("http://a.example/", "a.example", 80),
        ("https://a.example/x:81/", "a.example", 443),
        ("https://a.example:8443/", "a.example", 8443),
        ("http://user:1@a.example:81/@b:82/", "a.example", 81),
        ("http://[::1]/", "[::1]", 80),
        ("http://[::1]:8080/", "[::1]", 8080),
    ],
)
def test_host_name_and_port_are_read_from_a_url(url: str, name: str, number: int) -> None:
    assert (host_name(url), port(url)) == (name, number)


class TestShortWays:
    """What is done without the parser is what the parser would have done."""

    BASES = (
        "http://a.example/",
        "https://u:p@a.example:8443/x/y.html?q=/z",
        "http://[::1]/a/b/",
        "http://a.example/a//b",
    )

    @given(
        st.sampled_from(BASES),
        st.lists(
            st.sampled_from([*"abAZ09_-~.,;!$()*@+=&?/:%'|\\ \t#é^", "//", "/.", "..", "../", "../../x", "%2e", "/b"]),
            max_size=8,
        ).map("".join),
    )
    def test_joining(self, base: str, href: str) -> None:
        try:
            expected, flaws = absolute(href, base), {}
        except UrlError as error:
            expected, flaws = None, {error.rule: 1}
        join = Joiner(base)
        assert (join(href), join.flaws) == (expected, flaws)

    @pytest.mark.parametrize("base", ["http://a.example", "http://a.example?q=/x"])
    def test_a_base_without_a_path(self, base: str) -> None:
        assert Joiner(base).all(["x", "/y", "../z"]) == [f"http://a.example/{name}" for name in "xyz"]

    @given(st.sampled_from(BASES), st.text(alphabet="abAZ09_-~.,;!$()*@+=&/:%'|é ", max_size=12))
    def test_canonical(self, base: str, href: str) -> None:
        try:
            url = absolute(href, base)
        except UrlError:
            reject()
        # An empty query makes it take the long way.
        assert canonical(url) == canonical(url if "?" in url else f"{url}?")


# ---- hosts that no name server knows

NAMES = "".join(map(chr, range(0x4E00, 0x9E00)))
"""All different, which is where the conversion of names (IDNA) takes the square of their number."""


@pytest.mark.parametrize(
    "written",
    [
        "http://{}/",
        "HTTPS:{}",
        "//{}/x",
        "\\\\{}",
        " \t h\ntt\rp:/{}?q",
        "http://user:password@{}:80/",
        "ftp://{}/",
    ],
)
def test_a_host_longer_than_any_name_is_refused_before_it_is_converted(written: str) -> None:
    hosts = (
        NAMES,
        NAMES.encode().hex(" ").replace(" ", "%")[:60_000],
        "a\u0301\u0316" * 20_000,
        "xn--" + "a9" * 100_000,
    )
    for host in ("%" + one if one[0] == "e" else one for one in hosts):
        text = written.format(host)
        began = time.thread_time()
        with pytest.raises(UrlError) as caught:
            absolute(text, BASE)
        join = Joiner(BASE)
        assert join(text) is None
        # What is converted takes seconds of a processor.
        assert time.thread_time() - began < 1.0
        assert caught.value.rule == "too_long"
        assert dict(join.flaws) == {"too_long": 1}


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://" + "\u00fc" * 20 + ".example/" + "x" * 300, "http://xn--tdaaaaaaaaaaaaaaaaaaaa.example/" + "x" * 300),
        ("/" + "%E4%B8%80" * 100, "http://a.example/" + "%E4%B8%80" * 100),
        ("//b.example?" + "\u4e00" * 300, "http://b.example/?" + "%E4%B8%80" * 300),
        ("http://" + "p" * 1_000 + "@b.example/", "http://" + "p" * 1_000 + "@b.example/"),
        ("http://" + "%61" * 100 + "/", "http://" + "a" * 100 + "/"),
        ("\u4e00" * 300, "http://a.example/b/" + "%E4%B8%80" * 300),
        ("http://" + "a." * 126 + "e/", "http://" + "a." * 126 + "e/"),
    ],
)
def test_what_is_long_elsewhere_is_a_link_like_any_other(text: str, url: str) -> None:
    assert len(text) > MAX_HOST_CHARS - 10
    assert absolute(text, BASE) == url
    assert Joiner(BASE)(text) == url
