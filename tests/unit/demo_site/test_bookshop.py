"""The bookshop of ``skitter demo`` has the pages that the documentation promises."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import pytest
from selectolax.lexbor import LexborHTMLParser

from skitter.demo_site.books import CATEGORIES, authors, books
from skitter.demo_site.site import CSRF, Answer, Bookshop, Call

SHOP = Bookshop()
VOID = {"meta", "link", "img", "input"}


def ask(target: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()} | {"host": "127.0.0.1:8600"}
    return SHOP.answer(Call(method=method, target=target, headers=named, body=body))


def page(target: str, **headers: str) -> LexborHTMLParser:
    answer = ask(target, **headers)
    assert (answer.status, answer.content_type) == (200, "text/html; charset=utf-8")
    return LexborHTMLParser(answer.body.decode())


def hrefs(tree: LexborHTMLParser, selector: str) -> list[str]:
    return [str(node.attributes["href"]) for node in tree.css(selector)]


def answer_json(target: str, **call: Any) -> Any:
    return json.loads(ask(target, **call).body)


class Balance(HTMLParser):
    """Fails for a tag that is not closed, or closed twice, and for an id that is there twice."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("target", ["/", *(f"/catalogue/page-{number}.html" for number in range(1, 11))])
def test_a_page_of_the_catalogue_has_twenty_books_and_leads_to_the_next(target: str) -> None:
    tree = page(target)
    cards = tree.css("article.book")
    assert len(cards) == 20
    for card in cards:
        link, price, stock = card.css_first("h2 a"), card.css_first(".price"), card.css_first(".stock")
        assert link.attributes["title"] == link.text()
        assert price.text()[0] == "£"
        assert stock.text().startswith(("In stock", "Out of stock"))
    number = int(target.partition("-")[2].partition(".")[0] or 1)
    assert hrefs(tree, "a.next") == ([f"/catalogue/page-{number + 1}.html"] if number < 10 else [])


def test_the_catalogue_has_every_book_once() -> None:
    listed = [href for number in range(1, 11) for href in hrefs(page(f"/catalogue/page-{number}.html"), "h2 a")]
    assert listed == [f"/books/{number}.html" for number in range(1, 201)]
    assert len({book.title for book in books()}) == 200


def test_the_navigation_leads_to_categories_search_files_and_login() -> None:
    expected = [f"/category/{name}.html" for name in CATEGORIES]
    assert hrefs(page("/"), "nav a") == [*expected, "/search", "/files/", "/login"]
    assert {name: len(page(f"/category/{name}.html").css("article.book")) for name in CATEGORIES} == dict.fromkeys(
        CATEGORIES, 40
    )


@pytest.mark.parametrize("book", books()[::37], ids=lambda book: str(book.id))
def test_the_page_of_a_book_has_everything_about_it(book: Any) -> None:
    tree = page(book.path)
    assert tree.css_first("h1").text() == book.title
    assert hrefs(tree, ".author a") == [f"/authors/{book.author.slug}.html"]
    assert book.path in hrefs(page(f"/authors/{book.author.slug}.html"), "article.book h2 a")
    assert tree.css_first(".price").text() == f"£{book.pence / 100:.2f}"
    assert tree.css_first(".rating").attributes["data-stars"] == str(book.stars)
    assert tree.css_first(".description").text() == book.description
    facts = {row.css_first("th").text(): row.css_first("td").text() for row in tree.css("table.facts tr")}
    assert facts == {
        "ISBN": book.isbn,
        "Pages": str(book.pages),
        "Published": str(book.published),
        "Stock": str(book.stock),
    }
    assert tree.css_first("img.cover").attributes["src"] == f"/covers/{book.id}.png"
    related = hrefs(tree, "a.related")
    assert len(set(related) - {book.path}) == 3
    assert all(ask(href).status == 200 for href in related)


def test_isbns_have_the_right_check_digit() -> None:
    for book in books():
        assert sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(book.isbn)) % 10 == 0


def test_every_author_has_a_book() -> None:
    assert {book.author for book in books()} == set(authors())
    assert len(authors()) == 40


def test_the_api_leads_through_all_books() -> None:
    target, found = "/api/books?page=1", []
    while target:
        told = answer_json(target)
        found += told["books"]
        target = told["next"]
    assert [book["id"] for book in found] == list(range(1, 201))
    assert set(found[0]) == {"id", "title", "author", "price"}
    assert answer_json("/api/books/200").items() >= found[-1].items()
    assert ask("/api/books").body == ask("/api/books?page=1").body
    assert ask("/api/books?page=11").status == 400
    assert ask("/api/books/201").status == 404


def test_the_api_searches() -> None:
    word = books()[0].title.split()[1]
    told = answer_json("/api/search", method="POST", body=json.dumps({"query": word.upper()}).encode())
    assert 1 in [book["id"] for book in told["books"]]
    assert ask("/api/search", "POST", b"[]").status == 400
    assert ask("/api/search").status == 405


def test_the_search_form_finds_books_and_shows_the_query_escaped() -> None:
    assert page("/search").css_first("form").attributes["method"] == "get"
    assert page("/search").css("article.book") == []
    title = books()[41].title
    found = page("/search?" + urlencode({"q": title}))
    assert "/books/42.html" in hrefs(found, "article.book h2 a")
    tree = page("/search?" + urlencode({"q": '"><script>'}))
    assert tree.css_first("input[name=q]").attributes["value"] == '"><script>'
    assert tree.css("script") == []


def test_login_needs_the_token_of_the_form_and_opens_the_account() -> None:
    assert (ask("/account").status, dict(ask("/account").headers)["Location"]) == (302, "/login")
    token = page("/login").css_first("form input[type=hidden][name=csrf]").attributes["value"]

    def send(**fields: str) -> Answer:
        return ask("/login", "POST", urlencode(fields).encode())

    assert send(user="demo", password="demo").status == 403
    assert b"Wrong user or password" in send(csrf=CSRF, user="demo", password="wrong").body
    answer = send(csrf=str(token), user="demo", password="demo")
    headers = dict(answer.headers)
    assert (answer.status, headers["Location"]) == (303, "/account")
    orders = page("/account", cookie=headers["Set-Cookie"].partition(";")[0]).css(".order")
    assert len(orders) == 12
    assert ask("/account", cookie="session=wrong").status == 302


def test_the_staff_needs_a_password() -> None:
    answer = ask("/staff/")
    assert (answer.status, dict(answer.headers)["WWW-Authenticate"][:5]) == (401, "Basic")
    assert ask("/staff/", authorization="Basic " + base64.b64encode(b"staff:wrong").decode()).status == 401
    given = "Basic " + base64.b64encode(b"staff:staff").decode()
    assert len(page("/staff/", authorization=given).css(".reorder li")) == sum(not book.stock for book in books())


def test_files_are_what_their_names_say() -> None:
    links = hrefs(page("/files/"), "main a")
    assert links[:2] == ["/files/catalogue.csv", "/files/report.pdf"]
    assert all(ask(link).status == 200 for link in links)
    rows = list(csv.DictReader(io.StringIO(ask(links[0]).body.decode())))
    assert [row["title"] for row in rows] == [book.title for book in books()]
    assert ask(links[1]).body.startswith(b"%PDF-1.4")
    assert ask(links[2]).body.startswith(b"\x89PNG")


def test_covers_are_images() -> None:
    image = pytest.importorskip("PIL.Image")
    covers = [ask(f"/covers/{number}.png").body for number in range(1, 201)]
    assert len(set(covers)) == 200
    with image.open(io.BytesIO(covers[0])) as opened:
        opened.load()
        assert opened.size == (120, 180)


def test_the_sitemap_lists_pages_that_exist() -> None:
    robots = ask("/robots.txt").body.decode()
    assert "Disallow: /private/" in robots
    assert "Sitemap: http://127.0.0.1:8600/sitemap.xml" in robots
    assert "delay" not in robots.lower()
    tree = LexborHTMLParser(ask("/sitemap.xml").body.decode())
    listed = [node.text() for node in tree.css("loc")]
    assert len(listed) == len(set(listed)) == 255
    assert all(ask(url.removeprefix("http://127.0.0.1:8600")).status == 200 for url in listed)


@pytest.mark.parametrize("target", ["/", "/books/7.html", "/api/books", "/covers/7.png", "/files/report.pdf", "/slow"])
def test_an_unchanged_page_is_not_sent_again(target: str) -> None:
    first = ask(target)
    headers = dict(first.headers)
    again = ask(target, if_none_match=f'W/"other", {headers["ETag"]}')
    assert (again.status, again.body) == (304, b"")
    assert dict(again.headers)["ETag"] == headers["ETag"]
    assert ask(target, if_modified_since=headers["Last-Modified"]).status == 304
    assert ask(target, if_modified_since="Sat, 01 Nov 2025 00:00:00 GMT").status == 200
    assert ask(target, if_modified_since="yesterday").status == 200
    assert ask(target, if_none_match='"other"').body == first.body


def test_the_calendar_has_no_end() -> None:
    tree = page("/calendar/2026/11.html")
    assert hrefs(tree, ".next-month, .previous-month") == ["/calendar/2026/10.html", "/calendar/2026/12.html"]
    assert hrefs(page("/calendar/2026/12.html"), ".next-month") == ["/calendar/2027/01.html"]
    assert hrefs(page("/calendar/2026/01.html"), ".previous-month") == ["/calendar/2025/12.html"]
    assert ask("/calendar/99999/12.html").status == 200
    assert ask("/calendar/2026/13.html").status == 404


def test_what_goes_wrong_on_purpose() -> None:
    assert [ask(f"/errors/{status}").status for status in (500, 404, 429)] == [500, 404, 429]
    assert ask("/errors/200").status == 404
    assert [ask("/errors/flaky").status for _ in range(6)] == [503, 503, 200] * 2
    assert dict(ask("/redirect").headers)["Location"] == "/books/1.html"
    assert ask("/slow").delay_seconds > 0
    assert ask("/nothing").status == 404
    assert ask("/", "DELETE").status == 405
    for target in ("/books/0.html", "/books/201.html", "/books/01.html", "/catalogue/page-11.html", "/category/x.html"):
        assert ask(target).status == 404


def test_only_javascript_writes_the_offers() -> None:
    assert page("/script.html").css("#offers li") == []


@pytest.mark.parametrize(
    "target", ["/", "/books/1.html", "/search?q=the", "/login", "/files/", "/script.html", "/calendar/2026/11.html"]
)
def test_html_is_well_formed_and_has_one_heading_of_the_first_level(target: str) -> None:
    text = ask(target).body.decode()
    balance = Balance()
    balance.feed(text)
    balance.close()
    assert balance.open == []
    assert text.count("<h1>") == text.count("<main>") == text.count("<title>") == 1


def test_the_stock_is_the_same_everywhere() -> None:
    """Documentation shows it: a changed word list changes what samples print."""
    told = "\n".join(f"{book.title} {book.author.name} {book.price}" for book in books())
    assert hashlib.sha256(told.encode()).hexdigest()[:16] == "1a2d0c7d6ca29ac4"
