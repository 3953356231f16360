"""Scope: which links a crawl follows, and by which rule it leaves the others."""

from __future__ import annotations

import pytest

from skitter.policy import scope as module
from skitter.policy.scope import LinkPatterns, Scope


def test_without_rules_every_link_is_followed() -> None:
    assert Scope().rule_against("https://anywhere.example/", 1_000) is None


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://shop.example/", None),
        ("http://shop.example:8080/a", None),
        ("https://www.shop.example/", None),
        ("https://a.b.shop.example/", None),
        ("https://user:secret@shop.example/", None),
        ("https://shop.example.evil.example/", "offsite"),
        ("https://workshop.example/", "offsite"),
        ("https://example/", "offsite"),
        ("https://shop.example@evil.example/", "offsite"),
        ("https://evil.example/shop.example/", "offsite"),
    ],
)
def test_a_domain_permits_itself_and_what_is_below_it(url: str, rule: str | None) -> None:
    assert Scope(domains=["shop.example"]).rule_against(url, 0) == rule


@pytest.mark.parametrize(
    "written",
    [
        "bücher.example",
        "BÜCHER.Example",
        ".bücher.example",
        "https://bücher.example/all",
        "xn--bcher-kva.example",
        " bücher.example ",
    ],
)
def test_a_domain_may_be_written_as_people_do(written: str) -> None:
    scope = Scope(domains=[written])
    assert scope.rule_against("https://www.xn--bcher-kva.example/", 0) is None
    assert scope.rule_against("https://buecher.example/", 0) == "offsite"


def test_one_name_instead_of_a_list_is_that_domain() -> None:
    scope = Scope(domains="shop.example")
    assert scope.rule_against("https://www.shop.example/", 0) is None
    assert scope.rule_against("https://e/", 0) == "offsite"


def test_a_domain_with_a_port_permits_that_port() -> None:
    scope = Scope(domains=["shop.example:8080"])
    assert scope.rule_against("http://shop.example:8080/", 0) is None
    assert scope.rule_against("http://www.shop.example:8080/", 0) is None
    assert scope.rule_against("http://shop.example/", 0) == "offsite"


@pytest.mark.parametrize("written", ["[::1]", "[::1]:8080", "http://[::1]:8080/"])
def test_an_address_may_be_a_domain(written: str) -> None:
    scope = Scope(domains=[written])
    assert scope.rule_against("http://[::1]:8080/a", 0) is None
    assert scope.rule_against("http://[::2]:8080/a", 0) == "offsite"


def test_a_domain_that_is_none_permits_nothing() -> None:
    assert Scope(domains=["not a domain"]).rule_against("https://shop.example/", 0) == "offsite"


def test_by_seeds_only_permitted_host_keys_are_inside() -> None:
    scope = Scope(by_seeds=True)
    assert scope.rule_against("https://shop.example/", 0) == "offsite"
    scope.permit(["https://shop.example", "http://127.0.0.1:8000"])
    assert scope.rule_against("https://shop.example/a", 0) is None
    assert scope.rule_against("http://127.0.0.1:8000/", 0) is None
    # A host key is scheme, host and port together.
    assert scope.rule_against("http://shop.example/", 0) == "offsite"
    assert scope.rule_against("http://127.0.0.1:8001/", 0) == "offsite"


def test_depth_counts_links_from_a_seed() -> None:
    scope = Scope(max_depth=2)
    assert [scope.rule_against("https://shop.example/", depth) for depth in range(4)] == [None, None, None, "depth"]


def test_what_it_remembers_is_bounded_and_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_REMEMBERED", 3)
    scope = Scope(domains=["in.example"])
    for _ in range(2):
        for number in range(10):
            assert scope.rule_against(f"http://h{number}.in.example/", 0) is None
            assert scope.rule_against(f"http://h{number}.out.example/", 0) == "offsite"
    assert len(scope._verdicts) <= 3


@pytest.mark.parametrize(
    ("include", "exclude", "url", "rule"),
    [
        (["/book/"], [], "https://a.example/book/1", None),
        (["/book/"], [], "https://a.example/cart", "include"),
        (["/book/", "page=\\d+$"], [], "https://a.example/?page=2", None),
        ([], ["/cart"], "https://a.example/cart?x", "exclude"),
        ([], ["/cart"], "https://a.example/book/1", None),
        (["/book/"], ["/book/2"], "https://a.example/book/2", "exclude"),
        (["^https://a\\."], [], "https://b.example/?https://a.example/", "include"),
    ],
)
def test_expressions_decide_on_links(include: list[str], exclude: list[str], url: str, rule: str | None) -> None:
    scope = Scope(patterns=LinkPatterns(include, exclude))
    assert scope.rule_against(url, 1) == rule
    assert scope.rule_against(url, 1, is_sitemap=True) is None
