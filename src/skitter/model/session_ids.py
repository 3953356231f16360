"""Removal of session ids from URLs, for the identity of pages.

It is used for identity only, with ``traps=strict``: the URL that is fetched keeps its session id. A site that writes a
new id into every link then has each of its pages once.
"""

from __future__ import annotations

import re

_IN_PATH = re.compile(r";(?:jsessionid|phpsessid|sessionid|sid)=[^/;?#]*", re.IGNORECASE)
_ASP_NET = re.compile(r"/\([A-Za-z]\([0-9A-Za-z]{16,}\)\)(?=/)")
_CERTAIN = re.compile(
    r"(?:j?session_?id|php_?sess(?:ion)?_?id|sess_?id|asp\.net_sessionid|aspsessionid\w*|zenid|oscsid|xtcsid|cfid|cftoken)",
    re.IGNORECASE,
)
_LIKELY = re.compile(r"(?:s|sid|ssid|session)", re.IGNORECASE)
_RANDOM = re.compile(r"(?=[^&]*[0-9])(?=[^&]*[a-z])[0-9a-z_-]{16,}", re.IGNORECASE)
"""Value of a session id: a short parameter name such as ``s`` counts only with a long random value."""


def without_session(url: str) -> str:
    """Return the URL without session ids in its path and query."""
    path, mark, query = url.partition("?")
    if ";" in path:
        path = _IN_PATH.sub("", path)
    if "(" in path:
        path = _ASP_NET.sub("", path)
    if not mark:
        return path
    left = "&".join(field for field in query.split("&") if not _is_session(field))
    return f"{path}?{left}" if left else path


def _is_session(field: str) -> bool:
    name, _, value = field.partition("=")
    if _CERTAIN.fullmatch(name):
        return True
    return _LIKELY.fullmatch(name) is not None and _RANDOM.fullmatch(value) is not None
