"""HTML of the demo bookshop: the functions for its pages, each of which returns a whole page, and their helpers."""

from __future__ import annotations

import calendar
import html
from collections.abc import Iterable, Sequence

from skitter.demo_site.books import CATEGORIES, Author, Book

PER_PAGE = 20

STYLE = """\
:root { color-scheme: light dark; --line: #d8d2c6; --ink: #2b2620; --paper: #fbf9f4; --accent: #8a3b12; }
@media (prefers-color-scheme: dark) {
  :root { --line: #4a443b; --ink: #ece6da; --paper: #1d1a16; --accent: #f0a875; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 0 1rem; font: 1rem/1.5 Georgia, serif; color: var(--ink);
  background: var(--paper); }
a { color: var(--accent); }
header, footer { padding: 1rem 0; border-bottom: 1px solid var(--line); }
footer { margin-top: 2rem; border-top: 1px solid var(--line); border-bottom: 0; font-size: .875rem; }
header p { margin: 0 0 .25rem; font-size: 1.5rem; }
nav a { margin-right: 1rem; }
.books { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); }
.book { padding: 1rem; border: 1px solid var(--line); border-radius: .5rem; }
.book h2 { margin: 0 0 .5rem; font-size: 1.1rem; }
.book p { margin: 0; }
.price { font-weight: bold; }
.pages { display: flex; justify-content: space-between; margin: 1rem 0; }
.cover { float: right; margin: 0 0 1rem 1rem; border-radius: .25rem; }
table { border-collapse: collapse; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid var(--line); text-align: left; }
label { display: block; margin: .5rem 0; }
.error { color: #c22; }
"""


def text(value: object) -> str:
    """Escape text for HTML, attributes included."""
    return html.escape(str(value))


def page(title: str, main: str) -> str:
    """Return a page with the shop's head, navigation and footer."""
    categories = "\n".join(f'<a href="/category/{name}.html">{name.title()}</a>' for name in CATEGORIES)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)} | Demo bookshop</title>
<link rel="stylesheet" href="/style.css">
</head>
<body>
<header>
<p><a href="/">Demo bookshop</a></p>
<nav aria-label="Shop">
{categories}
<a href="/search">Search</a>
<a href="/files/">Files</a>
<a href="/login">Log in</a>
</nav>
</header>
<main>
<h1>{text(title)}</h1>
{main}
</main>
<footer>The books, authors and prices of this shop are made up. <a href="/private/">Staff only</a></footer>
</body>
</html>
"""


def book_list(books: Iterable[Book]) -> str:
    """Return books as cards."""
    cards = "\n".join(
        f"""<article class="book">
<h2><a href="{book.path}" title="{text(book.title)}">{text(book.title)}</a></h2>
<p class="price">{book.price}</p>
<p class="stock">{book.availability}</p>
</article>"""
        for book in books
    )
    return f'<div class="books">\n{cards}\n</div>'


def catalogue(number: int, books: Sequence[Book]) -> str:
    """Return page ``number`` of the list of all books."""
    last = -(-len(books) // PER_PAGE)
    previous = f'<a class="previous" rel="prev" href="/catalogue/page-{number - 1}.html">Previous</a>'
    after = f'<a class="next" rel="next" href="/catalogue/page-{number + 1}.html">Next</a>'
    links = "\n".join([previous] * (number > 1) + [after] * (number < last))
    shown = books[(number - 1) * PER_PAGE : number * PER_PAGE]
    return page(f"All books, page {number} of {last}", f'{book_list(shown)}\n<p class="pages">\n{links}\n</p>')


def category(name: str, books: Iterable[Book]) -> str:
    return page(name.title(), book_list(book for book in books if book.category == name))


def author(who: Author, books: Iterable[Book]) -> str:
    return page(who.name, book_list(book for book in books if book.author == who))


def book(one: Book, books: Sequence[Book]) -> str:
    """Return the page of one book."""
    facts = (("ISBN", one.isbn), ("Pages", one.pages), ("Published", one.published), ("Stock", one.stock))
    rows = "\n".join(f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in facts)
    others = [books[number - 1] for number in one.related]
    related = "\n".join(f'<li><a class="related" href="{other.path}">{text(other.title)}</a></li>' for other in others)
    return page(
        one.title,
        f"""<img class="cover" src="/covers/{one.id}.png" alt="Cover of {text(one.title)}" width="120" height="180">
<p class="author">by <a href="/authors/{one.author.slug}.html">{text(one.author.name)}</a></p>
<p class="category">in <a href="/category/{one.category}.html">{one.category.title()}</a></p>
<p class="price">{one.price}</p>
<p class="rating" data-stars="{one.stars}">{"★" * one.stars}{"☆" * (5 - one.stars)}</p>
<p class="description">{text(one.description)}</p>
<table class="facts">
{rows}
</table>
<h2>Readers also bought</h2>
<ul>
{related}
</ul>""",
    )


def search(query: str, books: Sequence[Book]) -> str:
    """Return the search form, followed by the books that were found."""
    form = f"""<form class="search" action="/search" method="get">
<label>Title, author or description <input type="search" name="q" value="{text(query)}"></label>
<button>Search</button>
</form>"""
    if not query:
        return page("Search", form)
    return page("Search", f'{form}\n<p class="found">{len(books)} found</p>\n{book_list(books)}')


def login(csrf: str, error: str = "") -> str:
    """Return the login form."""
    told = f'<p class="error">{text(error)}</p>\n' if error else ""
    return page(
        "Log in",
        f"""{told}<form class="login" action="/login" method="post">
<input type="hidden" name="csrf" value="{csrf}">
<label>User <input name="user" autocomplete="username"></label>
<label>Password <input type="password" name="password" autocomplete="current-password"></label>
<button>Log in</button>
</form>""",
    )


def account(user: str, orders: Iterable[tuple[str, Book]]) -> str:
    """Return the orders of a logged-in user."""
    rows = "\n".join(
        f'<tr class="order"><td class="number">{number}</td><td><a href="{book.path}">{text(book.title)}</a></td>'
        f'<td class="price">{book.price}</td></tr>'
        for number, book in orders
    )
    return page(
        "Your orders",
        f"""<p class="user">Logged in as {text(user)}</p>
<table>
<thead><tr><th>Order</th><th>Book</th><th>Price</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>""",
    )


def staff(books: Iterable[Book]) -> str:
    """Return the list of books to reorder, for the staff."""
    rows = "\n".join(f'<li><a href="{book.path}">{text(book.title)}</a></li>' for book in books if not book.stock)
    return page("Out of stock", f'<ul class="reorder">\n{rows}\n</ul>')


def files(covers: Iterable[Book]) -> str:
    """Return a page with links to files for download."""
    images = "\n".join(
        f'<li><a class="file" href="/covers/{book.id}.png">Cover of {text(book.title)}</a></li>' for book in covers
    )
    return page(
        "Files",
        f"""<ul>
<li><a class="file" href="/files/catalogue.csv">The catalogue as CSV</a></li>
<li><a class="file" href="/files/report.pdf">The annual report as PDF</a></li>
{images}
</ul>""",
    )


def month(year: int, number: int) -> str:
    """Return a month of the calendar that links to the months before and after it; following these links never ends."""
    places = {"previous": year * 12 + number - 2, "next": year * 12 + number}
    links = "\n".join(
        f'<a class="{name}-month" href="/calendar/{place // 12}/{place % 12 + 1:02}.html">{name.title()} month</a>'
        for name, place in places.items()
    )
    days = calendar.monthrange(2000 + year % 400, number)[1]  # the Gregorian calendar repeats after 400 years
    listed = "".join(f"<li>{day} {calendar.month_name[number]}: nothing planned</li>" for day in range(1, days + 1))
    return page(f"Events in {calendar.month_name[number]} {year}", f"<p>{links}</p>\n<ol>{listed}</ol>")


SCRIPT = page(
    "Offers",
    """<noscript><p>This list needs JavaScript.</p></noscript>
<ul id="offers"></ul>
<script>
fetch("/api/books?page=1").then((answer) => answer.json()).then((found) => {
  for (const book of found.books) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    item.className = "offer";
    link.href = `/books/${book.id}.html`;
    link.textContent = `${book.title}: £${book.price.toFixed(2)}`;
    item.append(link);
    document.getElementById("offers").append(item);
  }
});
</script>""",
)
