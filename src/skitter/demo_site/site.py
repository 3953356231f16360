"""Responses of the demo bookshop: maps each path to its response, without any network."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from email.utils import format_datetime, parsedate_to_datetime
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

from skitter.demo_site import files, pages
from skitter.demo_site.books import BOOKS, CATEGORIES, Book, authors, books, found

USER = PASSWORD = "demo"  # noqa: S105  printed in the documentation
STAFF = "staff:staff"
CHANGED = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
"""Time of the last change, as the shop reports it."""
SLOW_SECONDS = 2.0
FLAKY_FAILURES = 2
"""Number of times that ``/errors/flaky`` fails before it succeeds once."""
CSRF = hashlib.sha256(b"the form of the demo bookshop").hexdigest()[:32]
SESSION = hashlib.sha256(b"the session of the demo bookshop").hexdigest()[:32]

_HTML = "text/html; charset=utf-8"
_JSON = "application/json"
_ROBOTS = "User-agent: *\nDisallow: /private/\n\nSitemap: {base}/sitemap.xml\n"


@dataclass(frozen=True, kw_only=True)
class Call:
    """Request as it arrived. Header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def base(self) -> str:
        """Return the base URL that the client used."""
        return f"http://{self.headers.get('host', 'localhost')}"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Response before it is written to a connection."""

    body: bytes = b""
    status: int = 200
    content_type: str = _HTML
    headers: tuple[tuple[str, str], ...] = ()
    delay_seconds: float = 0.0


class Bookshop:
    """The whole site. Its only state is the number of requests for ``/errors/flaky``."""

    def __init__(self) -> None:
        self._flaky_calls = 0
        self._fixed: dict[str, Callable[[Call], Answer]] = {
            "/": lambda _: _html(pages.catalogue(1, books())),
            "/style.css": lambda _: Answer(body=pages.STYLE.encode(), content_type="text/css"),
            "/search": _search,
            "/login": _login,
            "/account": _account,
            "/staff/": _staff,
            "/private/": lambda _: _html(pages.page("Staff only", "<p>robots.txt disallows this page.</p>")),
            "/files/": lambda _: _html(pages.files(books()[:10])),
            "/files/catalogue.csv": lambda _: _text(files.catalogue_csv(books()), "text/csv; charset=utf-8"),
            "/files/report.pdf": _report,
            "/api/books": _api_books,
            "/api/search": _api_search,
            "/script.html": lambda _: _html(pages.SCRIPT),
            "/errors/flaky": self._flaky,
            "/redirect": lambda _: _redirect(302, "/books/1.html"),
            "/slow": lambda _: _html(pages.page("Slow", "<p>At last.</p>"), delay_seconds=SLOW_SECONDS),
            "/robots.txt": lambda call: _text(_ROBOTS.format(base=call.base), "text/plain"),
            "/sitemap.xml": _sitemap,
        }

    def answer(self, call: Call) -> Answer:
        """Return the response to a request, by its method and path and then by its conditional headers."""
        if call.method not in _methods(call.path):
            return _error(405, (("Allow", ", ".join(_methods(call.path))),))
        given = self._found(call)
        if given.status != 200 or call.method == "POST":
            return given
        tag = f'"{hashlib.sha256(given.body).hexdigest()[:16]}"'
        validators = (
            ("ETag", tag),
            ("Last-Modified", format_datetime(CHANGED, usegmt=True)),
            ("Cache-Control", "no-cache"),
        )
        headers = (*given.headers, *validators)
        if _is_unchanged(call, tag):
            return Answer(status=304, headers=headers, delay_seconds=given.delay_seconds)
        return Answer(
            body=given.body, content_type=given.content_type, headers=headers, delay_seconds=given.delay_seconds
        )

    def _found(self, call: Call) -> Answer:
        if fixed := self._fixed.get(call.path):
            return fixed(call)
        for pattern, respond in _PATTERNS:
            if (match := pattern.fullmatch(call.path)) and (given := respond(*match.groups())):
                return given
        return _error(404)

    def _flaky(self, _call: Call) -> Answer:
        self._flaky_calls += 1
        if self._flaky_calls % (FLAKY_FAILURES + 1):
            return _error(503)
        return _html(pages.page("Flaky", f"<p>This page fails {FLAKY_FAILURES} times of {FLAKY_FAILURES + 1}.</p>"))


def _methods(path: str) -> tuple[str, ...]:
    if path == "/api/search":
        return ("POST",)
    return ("GET", "HEAD", "POST") if path == "/login" else ("GET", "HEAD")


def _is_unchanged(call: Call, tag: str) -> bool:
    if given := call.headers.get("if-none-match"):
        return given.strip() == "*" or tag in re.findall(r'"[^"]*"', given)
    try:
        return parsedate_to_datetime(call.headers["if-modified-since"]) >= CHANGED
    except (KeyError, ValueError, TypeError):
        return False


def _html(text: str, status: int = 200, delay_seconds: float = 0.0) -> Answer:
    return Answer(body=text.encode(), status=status, delay_seconds=delay_seconds)


def _text(text: str, content_type: str) -> Answer:
    return Answer(body=text.encode(), content_type=content_type)


def _json(value: Any, status: int = 200) -> Answer:
    return Answer(body=json.dumps(value, ensure_ascii=False).encode(), status=status, content_type=_JSON)


def _error(status: int, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    phrase = HTTPStatus(status).phrase
    return Answer(body=pages.page(f"{status} {phrase}", "").encode(), status=status, headers=headers)


def _redirect(status: int, to: str, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    return Answer(status=status, headers=(("Location", to), *headers))


def _search(call: Call) -> Answer:
    query = call.query.get("q", "").strip()
    return _html(pages.search(query, found(query)))


def _login(call: Call) -> Answer:
    if call.method != "POST":
        return _html(pages.login(CSRF))
    fields = {name: values[-1] for name, values in parse_qs(call.body.decode("utf-8", "replace")).items()}
    if fields.get("csrf") != CSRF:
        return _html(pages.login(CSRF, "The form has expired. Send it again."), 403)
    if (fields.get("user"), fields.get("password")) != (USER, PASSWORD):
        return _html(pages.login(CSRF, "Wrong user or password."))
    return _redirect(303, "/account", (("Set-Cookie", f"session={SESSION}; Path=/; HttpOnly; SameSite=Lax"),))


def _account(call: Call) -> Answer:
    try:
        cookie = SimpleCookie(call.headers.get("cookie", "")).get("session")
    except CookieError:
        cookie = None
    if cookie is None or cookie.value != SESSION:
        return _redirect(302, "/login")
    return _html(pages.account(USER, [(f"2026-{number:03}", books()[number * 13]) for number in range(1, 13)]))


def _staff(call: Call) -> Answer:
    scheme, _, given = call.headers.get("authorization", "").partition(" ")
    expected = base64.b64encode(STAFF.encode()).decode()
    if scheme.lower() != "basic" or not hmac.compare_digest(given.strip().encode(), expected.encode()):
        return _error(401, (("WWW-Authenticate", 'Basic realm="staff", charset="UTF-8"'),))
    return _html(pages.staff(books()))


def _report(_call: Call) -> Answer:
    lines = ["Demo bookshop", "Annual report", f"Books: {BOOKS}", f"In stock: {sum(book.stock for book in books())}"]
    return Answer(body=files.report_pdf(lines), content_type="application/pdf")


def _sitemap(call: Call) -> Answer:
    last = -(-BOOKS // pages.PER_PAGE)
    paths = ["/", *(f"/catalogue/page-{number}.html" for number in range(2, last + 1))]
    paths += [f"/category/{name}.html" for name in CATEGORIES]
    paths += [book.path for book in books()] + [f"/authors/{author.slug}.html" for author in authors()]
    xml = files.sitemap((call.base + path for path in paths), f"{CHANGED:%Y-%m-%d}")
    return _text(xml, "application/xml")


def _summary(book: Book) -> dict[str, Any]:
    return {"id": book.id, "title": book.title, "author": book.author.name, "price": book.pence / 100}


def _api_books(call: Call) -> Answer:
    number = call.query.get("page", "1")
    last = -(-BOOKS // pages.PER_PAGE)
    if not number.isdecimal() or not 1 <= int(number) <= last:
        return _json({"error": f"page is a number from 1 to {last}"}, 400)
    page = int(number)
    shown = books()[(page - 1) * pages.PER_PAGE : page * pages.PER_PAGE]
    return _json(
        {"books": [_summary(book) for book in shown], "next": f"/api/books?page={page + 1}" if page < last else None}
    )


def _api_search(call: Call) -> Answer:
    try:
        query = json.loads(call.body)["query"]
    except (ValueError, TypeError, KeyError):
        query = None
    if not isinstance(query, str):
        return _json({"error": 'the body must be JSON: {"query": "..."}'}, 400)
    return _json({"query": query, "books": [_summary(book) for book in found(query)]})


def _book_of(number: str) -> Book | None:
    return books()[int(number) - 1] if 1 <= int(number) <= BOOKS and not number.startswith("0") else None


def _catalogue(number: str) -> Answer | None:
    if number.startswith("0") or not 1 <= int(number) <= -(-BOOKS // pages.PER_PAGE):
        return None
    return _html(pages.catalogue(int(number), books()))


def _category(name: str) -> Answer | None:
    return _html(pages.category(name, books())) if name in CATEGORIES else None


def _author(slug: str) -> Answer | None:
    return next((_html(pages.author(who, books())) for who in authors() if who.slug == slug), None)


def _book(number: str) -> Answer | None:
    book = _book_of(number)
    return _html(pages.book(book, books())) if book else None


def _cover(number: str) -> Answer | None:
    book = _book_of(number)
    return Answer(body=files.cover(book), content_type="image/png") if book else None


def _api_book(number: str) -> Answer | None:
    book = _book_of(number)
    if book is None:
        return _json({"error": f"no such book: {number}"}, 404)
    told = {
        "category": book.category,
        "description": book.description,
        "isbn": book.isbn,
        "pages": book.pages,
        "published": date.isoformat(book.published),
        "stars": book.stars,
        "stock": book.stock,
    }
    return _json(_summary(book) | told)


def _month(year: str, month: str) -> Answer | None:
    return _html(pages.month(int(year), int(month))) if 1 <= int(month) <= 12 else None


def _status(number: str) -> Answer | None:
    status = int(number)
    return _error(status) if status in HTTPStatus.__members__.values() and status >= 400 else None


_PATTERNS: list[tuple[re.Pattern[str], Callable[..., Answer | None]]] = [
    (re.compile(r"/catalogue/page-([0-9]{1,3})\.html"), _catalogue),
    (re.compile(r"/category/([a-z]+)\.html"), _category),
    (re.compile(r"/books/([0-9]{1,4})\.html"), _book),
    (re.compile(r"/authors/([a-z-]+)\.html"), _author),
    (re.compile(r"/covers/([0-9]{1,4})\.png"), _cover),
    (re.compile(r"/api/books/([0-9]{1,4})"), _api_book),
    (re.compile(r"/calendar/([0-9]{1,6})/([0-9]{2})\.html"), _month),
    (re.compile(r"/errors/([0-9]{3})"), _status),
]
