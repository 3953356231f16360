"""Crawler trap rules that judge a link alone. Pure: the caller passes the year.

The rules of ``normal`` are for what no real site has: they are asked for every new link of every crawl, and for almost
all of them that is a look at its length and its slashes. Those of ``strict`` guess, and may leave out what somebody
wanted: they are asked on request. What takes more than the link to tell (pages that are all the same, say) is counted
by host: ``host_budgets``.
"""

from __future__ import annotations

import re
from collections import Counter

from skitter.settings import Traps

RULES = {
    "trap_depth": "it is farther from its seed than links on any real site (endless_depth)",
    "trap_length": "it is longer than max_url_length",
    "trap_segments": "its path has more segments than any real site has (max_path_segments)",
    "trap_repeats": "its path repeats one segment too often (max_path_repeats)",
    "trap_parameters": "its query has too many parameters, or repeats them (traps=strict)",
    "trap_calendar": "it is a page of an endless calendar (traps=strict)",
}
"""Each rule, and its message for a link that it excludes."""

STRICT_PATH_REPEATS = 5
MAX_PARAMETERS = 16
"""A signed URL of a cloud has nine, a search form with all its facets about as many."""
MAX_VALUES = 8
"""Of one name, as in tag=a&tag=b."""
MAX_SAME_FIELDS = 2
"""The same name with the same value: links that append what is there already."""
YEARS_AHEAD = 2
YEARS_BACK = 100
_BAND = 100
"""Years beyond these are numbers of something else: who walks through a calendar comes through the near ones first."""
MAX_DATED_DEPTH = 60
"""An archive is reached by its overviews; a date that is so far from a seed is reached day by day."""

_PATH_DATE = re.compile(r"/([12]\d{3})[/-](?:0?[1-9]|1[0-2])(?![0-9])")
# A name ends at the next question mark too, so that no two places of a query begin the same long name.
_QUERY_DATE = re.compile(
    r"[?&][^=&?]*+=([12]\d{3})(?:-(?:0?[1-9]|1[0-2])(?![0-9])|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?=&|$))"
    r"|[?&][^=&?]*(?:year|jahr|annee|ano)\]?=([12]\d{3})(?=&|$)",
    re.IGNORECASE,
)


class TrapRules:
    """Trap rules of one job."""

    __slots__ = ("_calm_slashes", "_depth", "_is_strict", "_length", "_repeats", "_segments", "_year")

    def __init__(self, settings: Traps, year: int) -> None:
        """``year``: the current year."""
        self._is_strict = settings.traps == "strict"
        self._length = settings.max_url_length
        self._segments = settings.max_path_segments
        self._repeats = min(settings.max_path_repeats, STRICT_PATH_REPEATS if self._is_strict else 1 << 30)
        self._depth = settings.endless_depth
        self._year = year
        # Two slashes stand before the host, and one begins each segment: with so few no path can break a rule.
        self._calm_slashes = min(self._repeats, self._segments) + 2

    def rule_against(self, url: str, depth: int) -> str | None:
        """Return the name of the rule that excludes a link, or None."""
        if depth > self._depth:
            return "trap_depth"
        if len(url) > self._length:
            return "trap_length"
        if url.count("/") > self._calm_slashes and (rule := self._against_path(url)) is not None:
            return rule
        return self._against_guess(url, depth) if self._is_strict else None

    def _against_path(self, url: str) -> str | None:
        segments = url.partition("?")[0].split("/")[3:]
        if len(segments) > self._segments:
            return "trap_segments"
        # A run, and a cycle such as /a/b/a/b/a/b, is a segment that stands there often.
        if len(segments) > self._repeats and max(Counter(segments).values()) > self._repeats:
            return "trap_repeats"
        return None

    def _against_guess(self, url: str, depth: int) -> str | None:
        path, mark, query = url.partition("?")
        if mark and _explodes(query):
            return "trap_parameters"
        for text, pattern in ((path, _PATH_DATE), (mark + query, _QUERY_DATE)):
            for found in pattern.finditer(text):
                if self._is_endless(int(found[found.lastindex or 0]), depth):
                    return "trap_calendar"
        return None

    def _is_endless(self, year: int, depth: int) -> bool:
        ahead = year - self._year
        if ahead > YEARS_AHEAD:
            return ahead <= YEARS_AHEAD + _BAND
        if -ahead > YEARS_BACK:
            return -ahead <= YEARS_BACK + _BAND
        return depth > MAX_DATED_DEPTH


def _explodes(query: str) -> bool:
    fields = query.split("&")
    if len(fields) > MAX_PARAMETERS:
        return True
    if len(fields) <= MAX_SAME_FIELDS:
        return False
    names = Counter(field.partition("=")[0] for field in fields)
    return max(names.values()) > MAX_VALUES or max(Counter(fields).values()) > MAX_SAME_FIELDS
