"""What becomes of a redirect: the request that goes on in its place."""

from __future__ import annotations

from skitter.errors import FetchError, UrlError
from skitter.model.request import Request
from skitter.model.url import absolute, canonical, host_key

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_VISITS = 2
"""A chain may come by the same URL once more: many sites set a cookie and send the browser back."""
_CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization"})


def continuation(request: Request, status: int, location: str, max_redirects: int) -> tuple[Request, bool]:
    """The next hop, and whether it is to be deduped. Raises FetchError (class ``redirect``) at the end of a chain.

    A hop is not deduped when the chain has been there before, or when its origin was not: its
    page is wanted although the URL may have been seen.
    """
    try:
        target = absolute(location, request.url)
    except UrlError as error:
        raise FetchError(
            "redirect", f"redirected to what is not a URL to crawl ({error.rule}): {location[:200]}"
        ) from error
    chain = (*request.chain, request.url)
    if len(chain) > max_redirects:
        raise FetchError("redirect", f"more than {max_redirects} redirects, the last one to {target}")
    identity = canonical(target)
    visits = sum(canonical(url) == identity for url in chain)
    if visits >= _VISITS:
        raise FetchError("redirect", f"redirects in a circle, back to {target}")
    changes: dict[str, object] = {"url": target, "chain": chain}
    if status == 303 or (status in (301, 302) and request.method == "POST"):
        changes |= {"method": "HEAD" if request.method == "HEAD" else "GET", "body": b""}
    if host_key(target) != host_key(request.url):
        kept = {name: value for name, value in request.headers.items() if name.lower() not in _CREDENTIALS}
        changes |= {"headers": kept, "cookies": {}}
    filtered = visits == 0 and request.method == "GET" and not request.dont_filter
    return request.replace(**changes), filtered
