"""Translation of CSS selectors from parsel's dialect to the engine's.

The engine (lexbor) supports selectors for elements. ``::text``, ``::attr(name)`` and ``:contains("text")``
are removed here and applied by ``extract.selector``. Two more features behave as in parsel: below an element,
``div a`` looks for both inside that element, while the engine would also accept a ``div`` around it; and
``:scope`` is the element itself.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from skitter.errors import SkitterError

SCOPE_MARK = "data-skitter-scope"
"""Attribute that marks an element while a query with ``Step.marked`` runs below it."""

CONTAINS_MARK = "data-skitter-contains-"
"""Prefix of numbered attributes that mark elements with the texts of ``Step.contains`` while a query runs."""

_WITHIN = f":is([{SCOPE_MARK}],[{SCOPE_MARK}] *)"
_PSEUDO = re.compile(
    r"""::(?:(?P<text>text)|attr\(\s*(?:"(?P<quoted>[^"]+)"|'(?P<single>[^']+)'|(?P<plain>[^\s"'(),]+))\s*\))$""",
    re.IGNORECASE,
)
# What a scan must not look into: escapes, strings and comments.
_OPAQUE = re.compile(r"""\\.|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|/\*.*?\*/""", re.DOTALL)
_CONTAINS = re.compile(r":contains\(", re.IGNORECASE)
_CONTAINED = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'(),]+))\s*\)""", re.DOTALL)
_SCOPE = re.compile(r":scope(?![\w-])", re.IGNORECASE)
_COMBINATORS = " \t\n\r\f>+~"
_COMBINATOR = re.compile(r"[\s>+~]")
_DESCENDANTS = re.compile(r"[^\s>+~]\s+\*$")


class SelectorError(SkitterError, ValueError):
    """Invalid selector."""


class Step(NamedTuple):
    """Query of the engine, and the part to take from each element that it finds."""

    query: str
    """Query for the whole document."""
    marked: str | None
    """Query below one element, which must have the attribute SCOPE_MARK meanwhile; None if ``query`` works there."""
    take: str
    """``element``, ``text``, or ``@`` and the name of an attribute."""
    several: bool
    """Whether it is a list of selectors: the engine returns an element once for each selector that it matches."""
    contains: tuple[str, ...]
    """Texts of ``:contains()``. During the query, elements with text number N have the attribute CONTAINS_MARK + N."""


@lru_cache(maxsize=1024)
def compiled(selector: str) -> tuple[Step, ...]:
    """Return the steps of a selector. Raises SelectorError for obvious mistakes; the engine rejects others."""
    marked, contains = _without_contains(selector) if ":contains(" in selector.lower() else (selector, ())
    parts = [(query, take) for part in _split(marked) for query, take in _part(part, selector)]
    # Neighbours that take the same make one query, so that their results come in the order of the page.
    return tuple(
        _step([query for query, _ in group], take, contains) for take, group in groupby(parts, key=itemgetter(1))
    )


def _without_contains(selector: str) -> tuple[str, tuple[str, ...]]:
    """Replace each ``:contains()``, which the engine lacks, by a mark; return the selector and the texts."""
    pieces: list[str] = []
    texts: list[str] = []
    position = 0
    plain = _OPAQUE.sub(lambda match: "." * len(match[0]), selector)
    for match in _CONTAINS.finditer(plain):
        argument = _CONTAINED.match(selector, match.end())
        text = re.sub(r"\\(.)", r"\1", next(filter(None, argument.groups()), "")) if argument else ""
        if argument is None or not text:
            raise SelectorError(f"invalid selector: {selector}", hint='as in p:contains("some text")')
        pieces += selector[position : match.start()], f"[{CONTAINS_MARK}{len(texts)}]"
        texts.append(text)
        position = argument.end()
    return "".join([*pieces, selector[position:]]), tuple(texts)


def _step(queries: list[str], take: str, contains: tuple[str, ...]) -> Step:
    pairs = [_scoped(query) for query in queries]
    marked = None
    if any(below is not None for _, below in pairs):
        marked = ",".join(below or query for query, below in pairs)
    return Step(",".join(query for query, _ in pairs), marked, take, len(pairs) > 1, contains)


def _part(part: str, selector: str) -> list[tuple[str, str]]:
    """Return the queries of one selector of a list, and the part to take from their matches."""
    take = "element"
    part = part.strip()
    if match := _PSEUDO.search(part):
        take = "text" if match["text"] else "@" + (match["quoted"] or match["single"] or match["plain"])
        part = part[: match.start()]
        if not part or part[-1] in _COMBINATORS:
            part += "*"
    masked = _mask(part)
    if "::" in masked:
        raise SelectorError(
            f"invalid selector: a pseudo-element is unknown or not at the end: {selector}",
            hint="::text and ::attr(name) are allowed at the end of each selector of a list",
        )
    if not part or part[0] in _COMBINATORS or part[-1] in _COMBINATORS:
        raise SelectorError(f"incomplete selector: {selector!r}", hint="to search below an element, write ':scope > a'")
    within = _DESCENDANTS.search(masked)
    if take != "element" and within:
        # "p ::text" is all text inside p, its own too, in parsel and in every spider that uses it.
        return [(part[: within.start() + 1], take), (part, take)]
    return [(part, take)]


def _scoped(query: str) -> tuple[str, str | None]:
    """Return a query for the whole page and one below a marked element, which is None if both are the same."""
    masked = _mask(query)
    if _SCOPE.search(masked):
        return _rescope(query, masked, ":root"), _rescope(query, masked, f"[{SCOPE_MARK}]")
    combinator = _COMBINATOR.search(masked)
    if combinator is None:
        return query, None
    return query, query[: combinator.start()] + _WITHIN + query[combinator.start() :]


def _rescope(part: str, masked: str, scope: str) -> str:
    pieces: list[str] = []
    position = 0
    for match in _SCOPE.finditer(masked):
        pieces += part[position : match.start()], scope
        position = match.end()
    return "".join(pieces) + part[position:]


def _split(selector: str) -> list[str]:
    """Split a list of selectors at commas outside of brackets."""
    parts, position = [], 0
    masked = _mask(selector)
    for comma in re.finditer(",", masked):
        parts.append(selector[position : comma.start()])
        position = comma.end()
    return [*parts, selector[position:]]


def _mask(selector: str) -> str:
    """Return the selector with strings and the contents of brackets replaced by dots, at the same positions."""
    plain = _OPAQUE.sub(lambda match: "." * len(match[0]), selector)
    depth = 0
    masked = []
    for character in plain:
        depth -= character in ")]" and depth > 0
        masked.append("." if depth else character)
        depth += character in "(["
    return "".join(masked)
