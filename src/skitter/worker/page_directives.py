"""What one page's owner asks for, as far as the job obeys it. Read from the page when it is first asked about."""

from __future__ import annotations

from functools import cached_property

from skitter.extract.response import Response
from skitter.model.url import canonical
from skitter.policy.scope import Scope
from skitter.settings import Politeness


class DirectivePolicy:
    """Of one response. A page whose callback yields nothing is not even parsed for it."""

    def __init__(self, response: Response, scope: Scope, politeness: Politeness) -> None:
        self._response = response
        self._scope = scope
        self._politeness = politeness

    @cached_property
    def against_items(self) -> str | None:
        """The rule by which items of this page are withheld: noindex, tdm or canonical."""
        politeness, directives = self._politeness, self._response.directives
        if politeness.obey_noindex and directives.noindex:
            return "noindex"
        if politeness.obey_tdm and directives.tdm_reservation:
            return "tdm"
        return "canonical" if self.original is not None else None

    @cached_property
    def original(self) -> str | None:
        """The page that this one says it is a duplicate of, if that one may be fetched instead."""
        response = self._response
        if not self._politeness.obey_canonical or response.request.method != "GET":
            return None
        url = response.directives.canonical
        if url is None or canonical(url) == canonical(response.url):
            return None
        # Where the scope ends, a duplicate is better than nothing.
        return url if self._scope.rule_against(url, response.request.depth + 1) is None else None

    def against_link(self, url: str) -> str | None:
        """``nofollow``, or None: it is to be followed."""
        return "nofollow" if self._politeness.obey_nofollow and (self._bars_all or url in self._barred) else None

    @cached_property
    def _bars_all(self) -> bool:
        return self._response.directives.nofollow

    @cached_property
    def _barred(self) -> frozenset[str]:
        return frozenset(self._response.nofollow_links())
