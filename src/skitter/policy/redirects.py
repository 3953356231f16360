"""Redirect policy: the request that follows a redirect, and whether it stays trusted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from skitter.errors import FetchError, UrlError
from skitter.model.page import Page
from skitter.model.request import FILE_CALLBACK, Request
from skitter.model.secrets import is_credential_header, shown_url
from skitter.model.url import absolute, canonical, host_key, host_name, port
from skitter.policy import network_guard

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_VISITS = 2
"""Maximum visits to the same URL in one redirect chain."""
_ABOUT_THE_BODY = frozenset(
    {"content-encoding", "content-language", "content-length", "content-location", "content-type", "transfer-encoding"}
)


def continuation(
    request: Request, status: int, location: str, max_redirects: int, identity_of: Callable[[str], str] = canonical
) -> tuple[Request, bool]:
    """Return the next hop and whether it is deduplicated; raise FetchError (``redirect``) at the end of a chain.

    ``identity_of``: by which the job tells pages apart; a site that redirects to put a session id into its URLs leads
    back to the page that was asked for, where sessions are ignored.

    A hop is not deduped when the chain has been there before: many sites set a cookie and send the browser
    back. Nor is any when the chain began with a request that is not deduped by its URL alone (``dont_filter``,
    or another method than GET): the answer is wanted although the URL may have been seen. So it is with a download:
    each URL that a page names has a record.
    """
    try:
        target = absolute(location, request.url)
    except UrlError as error:
        raise FetchError(
            "redirect", f"redirected to a URL that cannot be crawled ({error.rule}): {location[:200]}"
        ) from error
    chain = (*request.chain, request.url)
    if len(chain) > max_redirects:
        raise FetchError("redirect", f"more than {max_redirects} redirects, the last one to {target}")
    identity = identity_of(target)
    visits = sum(identity_of(url) == identity for url in chain)
    if visits >= _VISITS:
        raise FetchError("redirect", f"redirect loop, back to {target}")
    unfiltered = request.dont_filter or request.method != "GET" or request.callback == FILE_CALLBACK
    # Kept in the request, because at the next hop nothing else tells how the chain began.
    changes: dict[str, object] = {"url": target, "chain": chain, "dont_filter": unfiltered}
    headers = request.headers
    leaves_tls = request.url.startswith("https:") and not target.startswith("https:")
    if (status == 303 and request.method != "HEAD") or (status in (301, 302) and request.method == "POST"):
        changes |= {"method": "GET", "body": b""}
        headers = {name: value for name, value in headers.items() if name.lower() not in _ABOUT_THE_BODY}
    elif request.body and leaves_tls:
        # Another origin must not receive the credentials.
        raise FetchError("redirect", f"a request with a body is redirected from https to http: {shown_url(target)}")
    if host_key(target) != host_key(request.url):
        # As in browsers, a cookie belongs to a host with all its ports.
        if leaves_tls or host_name(target) != host_name(request.url):
            changes["cookies"] = {}
        headers = _for_another_origin(headers)
    if headers is not request.headers:
        changes["headers"] = headers
    return request.replace(**changes), visits == 0 and not unfiltered


def _for_another_origin(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers without credentials, and with the origin only of a referrer, as browsers send it."""
    kept = {}
    for name, value in headers.items():
        if name.lower() == "referer":
            with contextlib.suppress(UrlError):
                kept[name] = f"{host_key(absolute(value))}/"
        elif not is_credential_header(name):
            kept[name] = value
    return kept


def stays(page: Page, following: Request) -> bool:
    """Return whether a hop of a trusted request is trusted as well.

    Who types an address of their own network means that machine, and it may say that its pages are at another
    port or behind TLS. A machine elsewhere may not say so of itself: its name can point inside a moment later.
    """
    return (
        page.address != ""
        and network_guard.refused(page.address) is not None
        and host_name(page.url) == host_name(following.url)
        and network_guard.refused_port(port(following.url)) is None
    )
