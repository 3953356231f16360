"""Crawler traps for a synthetic web: hosts with endless pages, computed from their URLs.

The path and query determine every page of such a host, and every page links to more. Only ``session`` is finite: it has
twenty pages, under as many URLs as there are session ids.
"""

from __future__ import annotations

import hashlib
from datetime import date, timedelta

KINDS = ("path", "calendar", "session", "parameters", "same", "maze")
"""path: each page links one folder deeper. calendar: pages link to the next day, the day before and the next month.
session: each link has its own session id. parameters: each link switches one of many facets on or off. same: pages that
differ only in their number. maze: pages that differ and link to two more."""
SESSION_PAGES = 20
_FACETS = ("red green blue black white small large cotton wool silk linen sale fresh used cheap rare".split())[:16]
_TOKEN = 16


def trap_page(kind: str, target: str) -> str | None:
    """Return the page for a path and query of a host of this kind, or None for a 404."""
    path, _, query = target.partition("?")
    if path == "/robots.txt":
        return None
    title, text, links = _MAKERS[kind](path, query)
    anchors = "".join(f'<li><a href="{link.replace("&", "&amp;")}">{name}</a></li>\n' for name, link in links)
    return f"<!doctype html>\n<title>{title}</title>\n<h1>{title}</h1>\n<p>{text}</p>\n<ul>\n{anchors}</ul>\n"


Made = tuple[str, str, list[tuple[str, str]]]


def _path(path: str, _: str) -> Made:
    return f"Folder {len(path)}", f"This is {path} and there is more.", [("deeper", "more/")]


def _calendar(path: str, _: str) -> Made:
    try:
        day = date.fromisoformat(path.rpartition("/")[2])
    except ValueError:
        day = date(2026, 1, 1)
    around = [("next day", 1), ("the day before", -1), ("next month", 31)]
    links = [(name, f"/calendar/{day + timedelta(days=days)}") for name, days in around]
    return f"{day:%A, %d %B %Y}", "Nothing happens on this day.", links


def _session(path: str, query: str) -> Made:
    number = int(path.rpartition("/")[2] or 0)
    links = []
    for step in (1, 2, 3):
        token = hashlib.blake2b(f"{path}?{query} {step}".encode(), digest_size=_TOKEN).hexdigest()
        links.append((f"item {step} further", f"/item/{(number + step) % SESSION_PAGES}?sid={token}"))
    return f"Item {_spelled(number)}", f"All about item {_spelled(number)}.", links


def _parameters(_: str, query: str) -> Made:
    chosen = {field.partition("=")[0] for field in query.split("&") if field} & set(_FACETS)
    links = []
    for facet in _FACETS:
        others = sorted(chosen ^ {facet})
        links.append((f"toggle {facet}", "/list?" + "&".join(f"{name}=1" for name in [*others, "view"])))
    return "List", f"Things that are {' and '.join(sorted(chosen)) or 'anything'}, and {_spelled(len(query))}.", links


def _same(path: str, _: str) -> Made:
    number = int(path.rpartition("/")[2] or 0)
    return f"Page {number}", "More of the same.", [(f"page {n}", f"/page/{2 * number + n}") for n in (1, 2)]


def _maze(path: str, _: str) -> Made:
    number = int(path.rpartition("/")[2] or 0)
    links = [(f"room {n}", f"/room/{2 * number + n}") for n in (1, 2)]
    return f"Room {_spelled(number)}", f"A room called {_spelled(number)}, unlike all others.", links


def _spelled(number: int) -> str:
    """Return the number spelled in letters, so that pages differ in their words."""
    return "".join(("ba", "be", "bi", "bo", "bu", "da", "de", "di", "do", "du")[int(digit)] for digit in str(number))


_MAKERS = {
    "path": _path,
    "calendar": _calendar,
    "session": _session,
    "parameters": _parameters,
    "same": _same,
    "maze": _maze,
}
