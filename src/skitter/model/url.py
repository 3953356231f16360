"""URLs by the WHATWG standard: parsing, joining, the host key and the canonical form.

A request keeps its URL as it was found (parsed, absolute, without fragment). The canonical form
serves identity only: two URLs with the same canonical form are the same page, and it is never
fetched. See docs/adr for why ``can_ada`` does the parsing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

import can_ada

from skitter.errors import UrlError

MAX_URL_CHARS = 4096
"""Longer URLs are not crawled: no honest page has them and traps do."""
MAX_HOST_CHARS = 260
"""Of host and port, escapes undone: DNS has names of up to 253. Names in other scripts are converted (IDNA) in time
that grows with the square of their length: 100,000 characters of one link took 13 s, in which no other thread runs."""

_PORT = re.compile(r":(\d+)$")
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
# Where a browser looks for the host: after a special scheme, however many slashes follow, or after two slashes.
_HOST = re.compile(r"[\x00-\x20]*+(?:(?:https?|wss?|ftp|file):[/\\]*+|[/\\]{2,}+)([^/\\?#]*+)", re.IGNORECASE)
_DROPPED = dict.fromkeys(map(ord, "\t\n\r"))
# Lines with nothing in them that a browser would escape or resolve, apart from segments of dots.
_PLAIN_HREFS = re.compile(r"(?:(?!//)[A-Za-z0-9_/][A-Za-z0-9_./~?=&+,;!$()*@-]*+(?:\n|\Z))+")


def absolute(text: str, base: str | None = None) -> str:
    """The absolute URL that a browser would make of ``text``, without its fragment.

    Raises UrlError for what cannot be crawled; ``UrlError.rule`` is ``scheme``, ``unparsable``
    or ``too_long``.
    """
    try:
        refuse_long_host(text)
        # can_ada raises TypeError for text that UTF-8 cannot hold (a lone surrogate).
        parsed = can_ada.parse(text) if base is None else can_ada.parse(base) + text
    except (ValueError, TypeError) as error:
        if not isinstance(text, str):
            # None is the result of a selector that found nothing.
            raise TypeError(f"a URL must be text, not {type(text).__name__}") from error
        if base is None and not _SCHEME.match(text.strip()):
            raise UrlError(
                "unparsable", f"not an absolute URL: {text[:200]}", hint=f"did you mean https://{text[:200]} ?"
            ) from error
        raise UrlError("unparsable", f"not a URL: {text[:200]}") from error
    rule = _flaw(href := parsed.href)
    if rule is not None:
        raise UrlError(rule, f"not a URL to crawl ({rule}): {text[:200]}", hint="use http or https")
    return _without_fragment(href)


def refuse_long_host(text: str) -> None:
    """Raises UrlError (``too_long``) for a link whose host is longer than any name. To be asked before it is parsed."""
    if len(text) > MAX_HOST_CHARS and _has_long_host(text):
        raise UrlError("too_long", f"not a URL to crawl (its host name is too long): {text[:200]}")


class Joins:
    """Cache of joined hrefs by folder: the menu of a site is joined once for a folder, not for every page.

    It is bounded: the oldest folder, or a folder with too many hrefs, is dropped.
    """

    __slots__ = ("_folders",)
    FOLDERS = 64
    HREFS = 4096

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, str]] = {}

    def of(self, folder: str) -> dict[str, str]:
        """The joined hrefs of a folder's pages."""
        known = self._folders.get(folder)
        if known is None or len(known) > self.HREFS:
            if len(self._folders) >= self.FOLDERS:
                del self._folders[next(iter(self._folders))]
            known = self._folders[folder] = {}
        return known


class Joiner:
    """Joins many hrefs to one base. Bad ones become None and are counted by rule in ``flaws``."""

    __slots__ = ("_base", "_folder", "_joined", "_origin", "_page", "flaws")

    def __init__(self, base: str, joins: Joins | None = None) -> None:
        end = base.find("/", 8)
        if end == -1 or "?" in base[:end]:
            # Not normalised by ``absolute``: the page was made by hand, as in a test.
            base = can_ada.parse(base).href
            end = base.index("/", 8)
        self._page = base
        self._base: can_ada.URL | None = None
        self._origin = base[:end]
        folder = base.partition("?")[0].rpartition("/")[0]
        self._folder = folder + "/"
        self._joined = {} if joins is None else joins.of(folder)
        self.flaws: dict[str, int] = defaultdict(int)

    def __call__(self, href: str) -> str | None:
        found = self.all((href,))
        return found[0] if found else None

    def all(self, hrefs: Collection[str]) -> list[str]:
        """Return the valid URLs in order; most links of a page are in the cache of its folder."""
        joined = self._joined
        urls = [url for href in hrefs if (url := joined.get(href)) is not None]
        if len(urls) == len(hrefs):
            return urls
        new = [href for href in hrefs if href not in joined] if urls else list(hrefs)
        if self._are_plain(new):
            # What can_ada would make of them, for a third of the time.
            origin, folder = self._origin, self._folder
            made = [(origin if href[0] == "/" else folder) + href for href in new]
            if not urls:
                return made
            joined.update(zip(new, made, strict=True))
        return [url for href in hrefs if (url := joined.get(href) or self._join(href)) is not None]

    def _are_plain(self, hrefs: Sequence[str]) -> bool:
        lines = "\n".join(hrefs)
        return (
            _PLAIN_HREFS.fullmatch(lines) is not None
            and hrefs[-1] != ""
            and "/." not in lines
            and lines.count("\n") == len(hrefs) - 1
            and (len(lines) if len(lines) < 1000 else max(map(len, hrefs))) < MAX_URL_CHARS - len(self._folder)
        )

    def _join(self, href: str) -> str | None:
        if self._base is None:
            self._base = can_ada.parse(self._page)
        if len(href) > MAX_HOST_CHARS and _has_long_host(href):
            self.flaws["too_long"] += 1
            return None
        try:
            url = _without_fragment((self._base + href).href)
        except (ValueError, TypeError):
            self.flaws["unparsable"] += 1
            return None
        if (flaw := _flaw(url)) is not None:
            self.flaws[flaw] += 1
            return None
        if _depends_on_folder_only(href):
            self._joined[href] = url
        return url


def host_key(url: str) -> str:
    """Scheme, host and port of an absolute URL: what politeness is counted by."""
    end = url.index("/", 8)
    at = url.rfind("@", 0, end)
    if at == -1:
        return url[:end]
    return url[: url.index("//") + 2] + url[at + 1 : end]


def host_name(url: str) -> str:
    """The host of an absolute URL without its port; IPv6 addresses keep their brackets."""
    return _PORT.sub("", host_key(url).partition("//")[2])


def port(url: str) -> int:
    """The port of an absolute URL, also where it is left out."""
    given = _PORT.search(host_key(url))
    return int(given[1]) if given else 443 if url.startswith("https:") else 80


def canonical(url: str) -> str:
    """The one form used for identity: escapes normal, query sorted by name, no fragment, no empty query.

    The URL must be absolute, as ``absolute`` gives it.
    """
    if "%" not in url and "?" not in url and "#" not in url:
        return url
    parsed = can_ada.parse(url)
    path, query = parsed.pathname, parsed.search[1:]
    if "%" in path:
        path = _ESCAPE.sub(_normal_escape, path)
    if query:
        # Escapes first: a name is sorted by what it says, not by how it is written.
        if "%" in query:
            query = _ESCAPE.sub(_normal_escape, query)
        # Sorted by name only, and stably: a=2&a=1 and a=1&a=2 may be different pages.
        fields = sorted((field for field in query.split("&") if field), key=lambda field: field.partition("=")[0])
        query = "&".join(fields)
    href = parsed.href
    return href[: href.index("/", 8)] + path + ("?" + query if query else "")


def _depends_on_folder_only(href: str) -> bool:
    """Return False for "#here", "?page=2", " #here" and "http:#here", which depend on the page."""
    first = href[:1]
    return (first.isalnum() or first in ("/", ".")) and (":" not in href or "://" in href)


def _normal_escape(match: re.Match[str]) -> str:
    if match[1] is None:
        # A bare one, which must not become part of an escape when its neighbours are unescaped.
        return "%25"
    character = chr(int(match[1], 16))
    return character if character in _UNRESERVED else match[0].upper()


def _has_long_host(text: str) -> bool:
    match = _HOST.match(text.translate(_DROPPED))
    host = match[1].rpartition("@")[2] if match else ""
    if len(host) <= MAX_HOST_CHARS:
        return False
    from urllib.parse import unquote  # imported on demand: such links are rare

    return len(unquote(host)) > MAX_HOST_CHARS


def _flaw(href: str) -> str | None:
    if len(href) > MAX_URL_CHARS:
        return "too_long"
    # WHATWG gives http and https URLs a host, or refuses them.
    return None if href.startswith(("http://", "https://")) else "scheme"


def _without_fragment(href: str) -> str:
    mark = href.find("#")
    return href if mark == -1 else href[:mark]
