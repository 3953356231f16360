"""What a worker takes for a sign of a trap, and what not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from skitter.extract.content_fingerprint import content_fingerprint
from skitter.extract.response import Response
from skitter.model.page import Page
from skitter.model.request import Request
from skitter.worker import trap_detector
from skitter.worker.trap_detector import TrapDetector

MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def response(url: str, html: str, content_type: str = "text/html; charset=utf-8") -> Response:
    page = Page(
        url=url,
        status=200,
        headers=[("content-type", content_type)],
        body=html.encode(),
        address="127.0.0.1",
        http_version="1.1",
        seconds=0.1,
        wire_bytes=len(html),
        started_at=0.0,
    )
    return Response(page, Request(url))


def says(text: str) -> int | None:
    return content_fingerprint(response("https://a.example/", f"<html><body>{text}</body></html>"))


def test_figures_order_and_markup_are_not_what_a_page_says() -> None:
    said = says("<h1>Day 5</h1><p>Nothing happens on 2026-05-05. See a3f9c2 or page_7.</p>")
    assert said is not None
    assert said == says("<p class='x3'>See b7d1 or page_812. Nothing happens on 1999-01-31.</p><h2>Day 12345</h2>")
    assert said == says("<script>var nonce = 'abcdef';</script>Day Nothing happens See<!-- cached by someone -->")
    assert said != says("<h1>Day 5</h1><p>Something happens on 2026-05-05. See a3f9c2 or page_7.</p>")


def test_other_words_are_another_page() -> None:
    menu = " ".join(f"entry{'x' * n}" for n in range(300))
    assert says(f"{menu} an article about spiders") != says(f"{menu} an article about crawlers")


@pytest.mark.parametrize("html", ["", "<p>1 2 3</p>", "<img src=a.png>"])
def test_a_page_without_words_says_nothing(html: str) -> None:
    assert says(html) is None


def test_only_html_says_something() -> None:
    assert content_fingerprint(response("https://a.example/", "same words here", "text/plain")) is None


@pytest.mark.parametrize("piece", ["<script ", "<!--", "<", "<style>", "<p "])
def test_what_is_never_closed_costs_no_more(piece: str) -> None:
    says(piece * (200_000 // len(piece)))


def calendar() -> Iterator[Response]:
    for number in range(400):
        day, month = DAYS[number % 7], MONTHS[number // 30 % 12]
        html = f"<h1>{day}, {number % 30} {month}</h1>Nothing on this day. <a href='/{number + 1}'>next day</a>"
        yield response(f"https://a.example/calendar/{number}", html)


def test_a_calendar_shows_itself_after_its_first_pages() -> None:
    memory = TrapDetector()
    verdicts = [memory.judge(day) for day in calendar()]
    assert verdicts[0] is False
    assert all(verdicts[370:])


def test_pages_that_differ_show_nothing() -> None:
    memory = TrapDetector()
    words = ["alpha", "beta", "gamma", "delta"]
    for number in range(256):
        html = " ".join(words[number // 4**place % 4] * (place + 1) for place in range(4))
        assert memory.judge(response(f"https://a.example/{number}", html)) is False


def test_hosts_are_judged_apart() -> None:
    memory = TrapDetector()
    assert memory.judge(response("https://a.example/", "the same words")) is False
    assert memory.judge(response("https://b.example/", "the same words")) is False
    assert memory.judge(response("https://b.example/2", "the same words")) is True


def test_a_path_that_takes_any_parameters_is_a_sign() -> None:
    memory = TrapDetector()
    verdicts = []
    for number in range(64):
        names = [f"f{bit}" for bit in range(6) if number >> bit & 1] or ["all"]
        query = "&".join(f"{name}=1" for name in [*names, "sort"])
        html = f"<p>{' '.join('facet' + 'x' * (number + 1) for _ in range(2))}</p>"
        verdicts.append(memory.judge(response(f"https://a.example/list?{query}", html)))
    assert verdicts[: trap_detector.SHAPES - 1] == [False] * (trap_detector.SHAPES - 1)
    assert all(verdicts[trap_detector.SHAPES :])


def test_many_values_of_the_same_parameters_are_none() -> None:
    memory = TrapDetector()
    for number in range(200):
        topic = response(f"https://a.example/topic?f=2&t={number}", f"topic {'x' * (number + 3)}")
        assert memory.judge(topic) is False


def test_it_remembers_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trap_detector, "HOSTS", 3)
    monkeypatch.setattr(trap_detector, "PATHS", 2)
    memory = TrapDetector()
    for number in range(10):
        memory.judge(response(f"https://h{number}.example/{number}?a=1&b=2", "the same words"))
        memory.judge(response(f"https://one.example/{number}?a=1&b=2", "the same words"))
    assert len(memory._hosts) == 3
    assert len(memory._hosts["https://one.example"].shapes) == 2
    assert memory.judge(response("https://h0.example/", "the same words")) is False, "it was forgotten"
    assert memory.judge(response("https://one.example/", "the same words")) is True
