"""URLs of servers, as targets and sources name them: their parts, and their name without secrets."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from skitter.errors import UsageError
from skitter.model.secrets import shown_address

PASSWORD_FILE = "password_file"  # noqa: S105  the name of an option
_WITH_AT = ("s3", "unix")
"""Schemes whose paths may contain an ``@``."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_SECRET_OPTION = re.compile(r"passw|passphrase|pwd|secret|token|credential", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@]*)(:[0-9]*)?")


class ServerUrl(NamedTuple):
    """The parts of a URL as it was written."""

    scheme: str
    """The scheme in lower case with its colon, and the slashes if it has them."""
    user: str
    password: str
    hosts: str
    path: str
    options: dict[str, str]
    fragment: str

    def named(self, options: Mapping[str, str]) -> str:
        """Return the URL without secrets, with these options."""
        kept = sorted((option, value) for option, value in options.items() if not _is_secret(option))
        query = urlencode(kept, safe=",/:{}", quote_via=quote)
        place = f"{self.user}@{self.hosts}{self.path}" if self.user else f"{self.hosts}{self.path}"
        return f"{self.scheme}{place}{query and '?' + query}{self.fragment and '#' + self.fragment}"

    def pop_password(self, options: dict[str, str]) -> str:
        """Return the password of the URL, of an option or of its file, and take those options away; empty: none."""
        file = options.pop(PASSWORD_FILE, None)
        return options.pop("password", "") or unquote(self.password) or (_read_password(file) if file else "")


def is_loopback(host: str) -> bool:
    """Return whether an address reaches this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def scheme_of(text: str) -> tuple[str, bool]:
    """Return the scheme in lower case, and whether slashes follow it; an empty scheme: there is none."""
    match = _SCHEME.match(text)
    return (match[1].lower(), match[2] is not None) if match is not None else ("", False)


def split_url(text: str, kind: str) -> ServerUrl:
    """Split a URL. Raises UsageError if an unescaped password may have broken it, or a part of it would be shown.

    ``kind``: what it should have been, for the message.
    """
    match = _SCHEME.match(text)
    assert match is not None, "a file takes no user and no host"
    rest, _, fragment = text[match.end() :].partition("#")
    path, _, query = rest.partition("?")
    authority, slash, below = path.partition("/") if match[2] else ("", "", path)
    credentials, _, hosts = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    if not all(_HOST_AND_PORT.fullmatch(host) for host in hosts.split(",")):
        raise wrong_url(text, kind, "give HOST or HOST:PORT; write / ? # and @ in a password as %2F %3F %23 and %40")
    # Where a user is expected and none is, an @ further on is most likely the one behind a password.
    behind = f"{below}?{query}#{fragment}"
    is_name = match[1].lower() in _WITH_AT or "@" not in below
    has_user = "@" in behind and (":" in hosts + behind.rpartition("@")[0] or not is_name)
    if match[2] and not credentials and has_user:
        raise wrong_url(text, kind, "write / ? # and @ in a password as %2F %3F %23 and %40")
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError as error:
        raise wrong_url(text, kind, "write options after ? as NAME=VALUE&NAME=VALUE") from error
    return ServerUrl(match[0].lower(), user, password, hosts, slash + below, options, fragment)


def wrong_url(text: str, kind: str, why: str) -> UsageError:
    """Return the error for a text that is no such URL, without its secrets."""
    return UsageError(f"not {_with_article(kind)}: {shown_address(text, is_server=True)}", hint=why)


def _with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _is_secret(option: str) -> bool:
    return _SECRET_OPTION.search(option) is not None and not option.endswith("_file")


def _read_password(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise UsageError(
            f"cannot be read: {PASSWORD_FILE}={file}: {reason}", hint="check its path, owner and mode"
        ) from error
