"""Directives of a page: robots directives, the canonical URL, the reservation of text and data mining.

They are read from the headers and from the page's head; ``worker.page_directives`` decides what to obey.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from selectolax.lexbor import LexborNode

DEFAULT_PRODUCT = "skitter"
MAX_DIRECTIVES = 32
"""Limit per page. About a dozen directives are in use."""

SELECTOR = 'meta[name], link[rel~="canonical" i]'
"""Selector of the head's elements that may be directives."""
_HEADERS = frozenset(("x-robots-tag", "link", "tdm-reservation", "tdm-policy"))
_WORD = re.compile(r"([a-z][a-z0-9_-]*)(?:\s*:\s*(.*))?", re.IGNORECASE | re.DOTALL)
_WITH_VALUE = frozenset(("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"))
_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_IS_CANONICAL = re.compile(r";\s*rel\s*=\s*(?:\"[^\"]*\bcanonical\b|canonical\b)", re.IGNORECASE)


class Directives(msgspec.Struct, frozen=True, kw_only=True):
    """Directives of a page for this crawler."""

    robots: tuple[str, ...] = ()
    """Directives of meta robots and X-Robots-Tag for all crawlers or for this one, without repetition, such as
    ``noindex`` or ``max-snippet:0``."""
    canonical: str | None = None
    """The href of ``rel=canonical`` in the head or in a Link header, before it is resolved to an absolute URL."""
    tdm_reservation: bool | None = None
    """Whether the rights to text and data mining are reserved; None if the page does not declare it."""
    tdm_policy: str | None = None

    @property
    def noindex(self) -> bool:
        """Whether ``noindex`` or ``none`` is among ``robots``."""
        return "noindex" in self.robots or "none" in self.robots

    @property
    def nofollow(self) -> bool:
        """Whether ``nofollow`` or ``none`` is among ``robots``."""
        return "nofollow" in self.robots or "none" in self.robots


NONE = Directives()


def read_directives(headers: Iterable[tuple[str, str]], elements: Sequence[LexborNode], product: str) -> Directives:
    """Read the directives of a page. ``elements`` are the matches of ``SELECTOR`` in the head.

    ``product`` is the name of this crawler in robots.txt, in lower case.
    """
    said = [pair for pair in headers if pair[0] in _HEADERS]
    if not said and not elements:
        return NONE
    robots: dict[str, None] = {}
    reserved: list[str] = []
    policy = canonical = None
    for node in elements:
        attributes = node.attributes
        if node.tag == "link":
            canonical = canonical or attributes.get("href")
            continue
        name, content = (attributes.get("name") or "").lower(), attributes.get("content") or ""
        if name in ("robots", product):
            robots |= dict.fromkeys(_words(content, None))
        elif name == "tdm-reservation":
            reserved.append(content)
        elif name == "tdm-policy":
            policy = policy or content
    for name, value in said:
        if name == "x-robots-tag":
            robots |= dict.fromkeys(_words(value, product))
        elif name == "tdm-reservation":
            reserved.append(value)
        elif name == "tdm-policy":
            policy = policy or value
        else:
            canonical = canonical or _canonical_of(value)
    if not (robots or reserved or policy or canonical):
        return NONE
    return Directives(
        robots=tuple(robots)[:MAX_DIRECTIVES],
        canonical=canonical,
        # Where headers and head differ, the one that reserves holds.
        tdm_reservation=any(value.strip() == "1" for value in reserved) if reserved else None,
        tdm_policy=policy.strip() if policy else None,
    )


def _words(text: str, product: str | None) -> Iterator[str]:
    """The directives of a comma-separated list. With a product, ``otherbot: noindex`` is for somebody else."""
    is_ours = True
    dated = False
    for part in text[:4096].split(","):
        word = part.strip()
        # A date may have a comma of its own: unavailable_after: Friday, 01-Jan-27 10:00:00 GMT
        match = None if dated and word[:1].isdigit() else _WORD.fullmatch(word)
        dated = False
        if match is None:
            continue
        name, value = match[1].lower(), match[2]
        if value is not None and name not in _WITH_VALUE:
            if product is None:
                continue
            is_ours = name == product
            match = _WORD.fullmatch(value.strip())
            if match is None:
                continue
            name, value = match[1].lower(), match[2]
        dated = name == "unavailable_after"
        if is_ours:
            yield name if value is None else f"{name}:{value.strip()}"[:100]


def _canonical_of(link: str) -> str | None:
    """Of a Link header: ``<https://a.example/x>; rel="canonical"``."""
    for target, parameters in _LINK.findall(link):
        if _IS_CANONICAL.search(parameters):
            return str(target)
    return None
