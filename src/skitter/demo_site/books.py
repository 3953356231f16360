"""Stock of the demo bookshop: 200 books by 40 authors, the same ones every time."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

BOOKS = 200
SEED = 22
CATEGORIES = ("fiction", "history", "science", "poetry", "travel")
_OLDEST = date(1985, 1, 1)

_FIRST_NAMES = (
    "Ada Bela Clara Dora Emil Farid Greta Hana Ivo Juno Kaya Leon Mira Nils Olga Pavel Rosa Sven Tara Umar".split()
)
_LAST_NAMES = (
    "Abel Barrow Cole Danner Ellery Fenwick Grove Halloran Ibsworth Jarrow Kestrel Lund Marsh Norwood Okafor Pell Quill"
    " Rowan Sato Thorne"
).split()
_ADJECTIVES = (
    "Amber Broken Crooked Distant Early Forgotten Gentle Hidden Iron Late Little Long Narrow Northern Open Paper Quiet"
    " Restless Salt Second Silver Slow Small Southern Stolen Tall Untold Violet Wide Winter"
).split()
_NOUNS = (
    "Anchor Atlas Bridge Candle Clock Compass Cloud Door Engine Ferry Field Garden Harbour Island Kettle Ladder Lantern"
    " Letter Library Machine Map Mirror Mountain Orchard Piano Question River Road Signal Staircase Star Tide Tower"
    " Valley Window"
).split()
_OPENINGS = {
    "fiction": "A family inherits {noun} and a secret that nobody asked for.",
    "history": "The story of {noun} that changed how a century measured itself.",
    "science": "An introduction to what {noun} can teach us about the world.",
    "poetry": "Sixty poems about {noun}, the weather and waiting.",
    "travel": "Nine months on foot, with {noun} and very little luggage.",
}
_SENTENCES = (
    "The chapters are short and can be read in any order.",
    "It begins in a harbour and ends in a library.",
    "Maps and a list of sources are included.",
    "This edition has a new afterword by the author.",
    "Readers of the first edition asked for a sequel; this is not it.",
    "Every drawing in it was made on the spot.",
    "The index alone is worth the price.",
    "It was written in one winter and revised for ten years.",
)


@dataclass(frozen=True, kw_only=True)
class Author:
    """Author of some of the books."""

    slug: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Book:
    """Book with everything that its page shows."""

    id: int
    title: str
    author: Author
    category: str
    pence: int
    stars: int
    description: str
    isbn: str
    pages: int
    published: date
    stock: int
    related: tuple[int, ...]

    @property
    def price(self) -> str:
        """Return the price with its currency, as pages show it."""
        return f"£{self.pence // 100}.{self.pence % 100:02}"

    @property
    def path(self) -> str:
        return f"/books/{self.id}.html"

    @property
    def availability(self) -> str:
        return f"In stock ({self.stock})" if self.stock else "Out of stock"


class _Draw:
    """Random choices that are the same in every version of Python, because they use ``random()`` alone."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def one(self, of: Sequence[str]) -> str:
        return of[self.below(len(of))]


@functools.cache
def authors() -> tuple[Author, ...]:
    """Return all authors, ordered by name."""
    names = [f"{first} {last}" for first, last in zip(_FIRST_NAMES, _LAST_NAMES, strict=True)]
    names += [f"{first} {last}" for first, last in zip(reversed(_FIRST_NAMES), _LAST_NAMES, strict=True)]
    return tuple(Author(slug=name.lower().replace(" ", "-"), name=name) for name in sorted(names))


@functools.cache
def books() -> tuple[Book, ...]:
    """Return all books; the book with id N is at index N - 1."""
    draw = _Draw(SEED)
    titles: dict[str, None] = {}
    while len(titles) < BOOKS:
        titles[f"The {draw.one(_ADJECTIVES)} {draw.one(_NOUNS)}"] = None
    return tuple(_book(number, title, draw) for number, title in enumerate(titles, 1))


def _book(number: int, title: str, draw: _Draw) -> Book:
    category = CATEGORIES[number % len(CATEGORIES)]
    noun = title.rpartition(" ")[2].lower()
    opening = _OPENINGS[category].format(noun=f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}")
    first = draw.below(len(_SENTENCES))
    second = (first + 1 + draw.below(len(_SENTENCES) - 1)) % len(_SENTENCES)
    return Book(
        id=number,
        title=title,
        author=authors()[(number * 7 + draw.below(3)) % len(authors())],
        category=category,
        pence=495 + 5 * draw.below(500),
        stars=1 + draw.below(5),
        description=f"{opening} {_SENTENCES[first]} {_SENTENCES[second]}",
        isbn=_isbn(number),
        pages=96 + draw.below(600),
        published=_OLDEST + timedelta(days=draw.below(15_000)),
        stock=max(0, draw.below(30) - 3),
        related=tuple((number - 1 + step) % BOOKS + 1 for step in (5, 35, 110)),
    )


def _isbn(number: int) -> str:
    """Return an ISBN-13 with its check digit, in a registration group that no publisher uses."""
    digits = f"978999999{number:03}"
    check = -sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10
    return f"{digits}{check}"


def found(query: str) -> list[Book]:
    """Return the books that have every word of the query in their title, author or description."""
    words = query.lower().split()
    if not words:
        return []
    return [
        book
        for book in books()
        if all(word in f"{book.title} {book.author.name} {book.description}".lower() for word in words)
    ]
