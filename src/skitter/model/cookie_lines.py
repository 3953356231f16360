"""Cookies as lines of a Netscape cookie file."""

from __future__ import annotations

from skitter.model.session import Cookie

_HTTP_ONLY = "#HttpOnly_"
_FIELDS = 7


def netscape_line(cookie: Cookie) -> str:
    """A cookie as a line of a Netscape cookie file, as libcurl writes it."""
    flags = ["FALSE" if cookie.host_only else "TRUE", cookie.path, "TRUE" if cookie.secure else "FALSE"]
    domain = f"{_HTTP_ONLY if cookie.http_only else ''}{'' if cookie.host_only else '.'}{cookie.domain}"
    return "\t".join([domain, *flags, str(cookie.expires), cookie.name, cookie.value])


def read_netscape_line(line: str) -> Cookie | None:
    """The cookie of a line of a Netscape cookie file; None: it is a comment, or no such line."""
    http_only = line.startswith(_HTTP_ONLY)
    if line.startswith("#") and not http_only:
        return None
    fields = line.removeprefix(_HTTP_ONLY).rstrip("\r\n").split("\t")
    if len(fields) == _FIELDS - 1:
        fields.append("")  # an empty value, where an editor has removed the last tab
    if len(fields) != _FIELDS or not fields[0]:
        return None
    domain, below, path, secure, expires, name, value = fields
    try:
        until = int(float(expires))
    except (ValueError, OverflowError):
        return None
    return Cookie(
        *(name, value, domain.lstrip(".").lower(), path, max(0, until)),
        secure=secure == "TRUE",
        http_only=http_only,
        host_only=below != "TRUE",
    )
