"""Translation of CSS selectors from parsel's dialect to the engine's.

The engine (lexbor) knows selectors for elements. ``::text`` and ``::attr(name)`` are taken off here
and done by ``extract.selector``, and so is ``:contains("text")``. Two more things are made to behave
as in parsel, where people learnt them: below an element, ``div a`` looks for both inside that element,
while the engine would also accept a ``div`` around it; and ``:scope`` is the element itself.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from skitter.errors import SkitterError

SCOPE_MARK = "data-skitter-scope"
"""The attribute that marks an element while a query with ``Step.marked`` runs below it."""

CONTAINS_MARK = "data-skitter-contains-"
"""The attribute, with a number after it, that marks elements with the text of ``Step.contains`` while a query runs."""

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
    """A selector that cannot be understood."""


class Step(NamedTuple):
    """One query of the engine, and what to take from the elements it finds."""

    query: str
    """Query for the whole document."""
    marked: str | None
    """Query for below one element, which must carry SCOPE_MARK meanwhile; None: ``query`` works there too."""
    take: str
    """``element``, ``text`` or the attribute's name after a ``@``."""
    several: bool
    """A list of selectors: the engine reports an element once for each that it matches."""
    contains: tuple[str, ...]
    """Texts of ``:contains()``; elements with the first must carry CONTAINS_MARK with a 0 meanwhile, and so on."""


@lru_cache(maxsize=1024)
def compiled(selector: str) -> tuple[Step, ...]:
    """Return the steps of a selector; raise SelectorError for obvious mistakes; the engine refuses others."""
    marked, contains = _without_contains(selector) if ":contains(" in selector.lower() else (selector, ())
    parts = [(query, take) for part in _split(marked) for query, take in _part(part, selector)]
    # Neighbours that take the same make one query, so that their results come in the order of the page.
    return tuple(
        _step([query for query, _ in group], take, contains) for take, group in groupby(parts, key=itemgetter(1))
    )


def _without_contains(selector: str) -> tuple[str, tuple[str, ...]]:
    """Return the selector with marks in the place of ``:contains()``, which the engine does not have, and its texts."""
    pieces: list[str] = []
    texts: list[str] = []
    position = 0
    plain = _OPAQUE.sub(lambda match: "." * len(match[0]), selector)
    for match in _CONTAINS.finditer(plain):
        argument = _CONTAINED.match(selector, match.end())
        text = re.sub(r"\\(.)", r"\1", next(filter(None, argument.groups()), "")) if argument else ""
        if argument is None or not text:
            raise SelectorError(f"a selector cannot be understood: {selector}", hint='as in p:contains("some text")')
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
    """One selector of a list: its queries, and what to extract from their matches."""
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
            f"a selector has a pseudo-element that is unknown or not at its end: {selector}",
            hint="::text and ::attr(name) may stand at the end of each selector of a list",
        )
    if not part or part[0] in _COMBINATORS or part[-1] in _COMBINATORS:
        raise SelectorError(f"a selector is not complete: {selector!r}", hint="below an element, write ':scope > a'")
    within = _DESCENDANTS.search(masked)
    if take != "element" and within:
        # "p ::text" is all text inside p, its own too, in parsel and in every spider that uses it.
        return [(part[: within.start() + 1], take), (part, take)]
    return [(part, take)]


def _scoped(query: str) -> tuple[str, str | None]:
    """A query for the whole page, and for below a marked element; None where that makes no difference."""
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
    """The selectors of a list: cut at commas that are in no brackets."""
    parts, position = [], 0
    masked = _mask(selector)
    for comma in re.finditer(",", masked):
        parts.append(selector[position : comma.start()])
        position = comma.end()
    return [*parts, selector[position:]]


def _mask(selector: str) -> str:
    """The selector with everything in strings and brackets blanked out by dots, position for position."""
    plain = _OPAQUE.sub(lambda match: "." * len(match[0]), selector)
    depth = 0
    masked = []
    for character in plain:
        depth -= character in ")]" and depth > 0
        masked.append("." if depth else character)
        depth += character in "(["
    return "".join(masked)
