"""Tests of the spider against a shop that bans with a captcha. The test clock moves forward, so nothing waits."""

from itertools import chain, repeat

from soft_ban import SoftBan

from skitter import testing

SHOP = "http://127.0.0.1:8000/"
CAPTCHA = "<form id=captcha>Are you a robot?</form>"
FIRST = "<li class=product><h2>Lamp</h2><span class=price>20</span></li><a rel=next href=/2>next</a>"
SECOND = "<li class=product><h2>Chair</h2><span class=price>45</span></li>"


def answers(*pages):
    """Return the pages in turn, and then the last one forever."""
    turns = chain(pages, repeat(pages[-1]))
    return lambda _request: next(turns)


def test_a_page_behind_a_captcha_is_fetched_again():
    ran = testing.run(SoftBan, {SHOP: answers(FIRST), f"{SHOP}2": answers(CAPTCHA, CAPTCHA, SECOND)})
    assert [item["name"] for item in ran.items] == ["Lamp", "Chair"]
    assert [request.url for request in ran.requests] == [SHOP] + [f"{SHOP}2"] * 3
    assert not ran.failures
    assert ran.stats["stat:captchas"] == 2


def test_a_page_that_stays_behind_it_is_listed_with_the_reason():
    ran = testing.run(SoftBan, {SHOP: answers(FIRST), f"{SHOP}2": answers(CAPTCHA)})
    assert [item["name"] for item in ran.items] == ["Lamp"]
    [failure] = ran.failures
    assert (failure.url, failure.error_class) == (f"{SHOP}2", "hook")
    assert "captcha" in failure.error
    assert ran.stats["stat:captchas"] == 5
