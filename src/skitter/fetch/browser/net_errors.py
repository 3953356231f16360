"""Chromium's network errors as FetchErrors."""

from __future__ import annotations

import re

from skitter.errors import FetchError
from skitter.model.secrets import shown_url

_NAME = re.compile(r"net::(ERR_[A-Z0-9_]+)")
_CLASSES = (
    ("ERR_NAME_", "dns"),
    ("ERR_CERT_", "tls"),
    ("ERR_SSL_", "tls"),
    ("ERR_BAD_SSL", "tls"),
    ("ERR_ECH_", "tls"),
    ("ERR_TIMED_OUT", "timeout"),
    ("ERR_CONNECTION_TIMED_OUT", "timeout"),
    ("ERR_CONTENT_LENGTH_MISMATCH", "truncated"),
    ("ERR_INCOMPLETE_", "truncated"),
    ("ERR_CONNECTION_REFUSED", "connect"),
    ("ERR_ADDRESS_", "connect"),
    ("ERR_INTERNET_", "connect"),
    ("ERR_NETWORK_", "connect"),
    ("ERR_PROXY_", "proxy"),
    ("ERR_TUNNEL_", "proxy"),
    ("ERR_UNSAFE_PORT", "guard"),
    ("ERR_TOO_MANY_REDIRECTS", "redirect"),
)


def fetch_error(message: str, url: str) -> FetchError | None:
    """Return the error of a message of Playwright that names one of Chromium's; None: it names none."""
    found = _NAME.search(message)
    if found is None:
        return None
    name = found[1]
    error_class = next((each for start, each in _CLASSES if name.startswith(start)), "protocol")
    return FetchError(error_class, f"the browser could not load the page ({name}): {shown_url(url)}")
