"""Scope of a crawl: the rules for which links are followed. Links outside are counted by rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from skitter.errors import UrlError
from skitter.model.url import absolute, host_key
from skitter.policy.traps import TrapRules
from skitter.settings import Links

_MAX_REMEMBERED = 10_000


class LinkPatterns:
    """Regular expressions of the settings ``include`` and ``exclude``."""

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include = [re.compile(pattern) for pattern in include]
        self._exclude = [re.compile(pattern) for pattern in exclude]

    @classmethod
    def of(cls, settings: Links) -> LinkPatterns | None:
        """Return the expressions of a job, or None if it has none."""
        return cls(settings.include, settings.exclude) if settings.include or settings.exclude else None

    def rule_against(self, url: str) -> str | None:
        """``include``: none of those is found in the URL; ``exclude``: one of those is; None: neither."""
        if self._include and not any(pattern.search(url) for pattern in self._include):
            return "include"
        return "exclude" if self.excluding(url) is not None else None

    def excluding(self, url: str) -> str | None:
        """Return the first expression that excludes a URL."""
        return next((pattern.pattern for pattern in self._exclude if pattern.search(url)), None)


class Scope:
    """Scope rules of one job in one worker.

    With ``domains``: those and their subdomains, on any port unless the domain names one. With ``by_seeds``:
    the host keys that seeds have permitted so far (``permit``). With neither: everywhere. ``traps``: but not there.
    ``patterns``: the user's own expressions.
    """

    def __init__(
        self,
        *,
        domains: Iterable[str] = (),
        by_seeds: bool = False,
        max_depth: int | None = None,
        traps: TrapRules | None = None,
        patterns: LinkPatterns | None = None,
    ) -> None:
        # One name instead of a list of them is an easy mistake with one possible meaning.
        self._domains = tuple(map(_as_authority, [domains] if isinstance(domains, str) else domains))
        self._by_seeds = by_seeds
        self._permitted: set[str] = set()
        self._max_depth = max_depth
        self._traps = traps
        self._patterns = patterns
        self._verdicts: dict[str, bool] = {}

    @property
    def is_by_seeds(self) -> bool:
        """Whether links stay within permitted host keys."""
        return self._by_seeds

    def permit(self, host_keys: Iterable[str]) -> None:
        """Add host keys that seeds have permitted."""
        self._permitted.update(host_keys)

    def rule_against(self, url: str, depth: int, *, is_sitemap: bool = False) -> str | None:
        """``offsite``, ``depth``, ``include``, ``exclude``, or a rule of ``traps``; None: it is to be followed.

        ``is_sitemap``: it only leads to pages, so ``patterns`` say nothing of it.
        """
        if self._max_depth is not None and depth > self._max_depth:
            return "depth"
        if not self._is_permitted(host_key(url)):
            return "offsite"
        if self._patterns is not None and not is_sitemap and (rule := self._patterns.rule_against(url)) is not None:
            return rule
        return None if self._traps is None else self._traps.rule_against(url, depth)

    def _is_permitted(self, key: str) -> bool:
        if self._by_seeds:
            return key in self._permitted
        if not self._domains:
            return True
        inside = self._verdicts.get(key)
        if inside is None:
            if len(self._verdicts) >= _MAX_REMEMBERED:
                self._verdicts.clear()
            inside = self._verdicts[key] = self._is_inside(key)
        return inside

    def _is_inside(self, key: str) -> bool:
        authority = _authority(key)
        host = authority if authority.endswith("]") else authority.rpartition(":")[0] or authority
        return any(
            name == domain or name.endswith("." + domain) for name in (host, authority) for domain in self._domains
        )


def _authority(key: str) -> str:
    return key.partition("//")[2]


def _as_authority(domain: str) -> str:
    """A domain as URLs have it: lower case, IDN as ``xn--``; people also write ``.example.com`` or a whole URL."""
    text = domain.strip().lstrip(".")
    try:
        return _authority(host_key(absolute(text if "://" in text else f"http://{text}")))
    except UrlError:
        # An invalid domain matches no URL.
        return text
