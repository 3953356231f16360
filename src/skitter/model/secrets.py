"""Masking of secrets: passwords in URLs, credentials in headers, cookies.

A request needs its secrets to be sent, so the frontier keeps them. All text for people, logs and results is masked
here: ``shown_url`` for a URL, ``without_secrets`` for any text, ``concealed`` where the secrets are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"
MIN_CHARS = 4
"""Minimum length of a secret that is masked: a shorter one would match everywhere."""

MAX_CONCEALED_CHARS = 65_536
"""Of a text that known secrets are looked for in: an error may quote a whole page, and a server set 5,000 cookies."""
_MARGIN_CHARS = 1_000

MIN_USER_CHARS = 8
"""A user name beside a password is a secret only if it may be a token: "admin" would be found in everything."""

_NAMES = r"passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|credentials?|authorization|cookie"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
_HEADER_ONLY = "auth|authentication|bearer|csrf|dpop|jwt|key|otp|passcode|session|sessionid|sid|signature|xsrf"
# Of headers also these, as whole words: what identifies a client to one server is not for another.
_HEADER_WORDS = rf"{_NAMES}|(?<![a-z0-9])(?:{_HEADER_ONLY})(?![a-z0-9])"
_CREDENTIAL_HEADER = re.compile(_HEADER_WORDS, re.IGNORECASE)
# Greedy: a password may hold an @ itself.
_USERINFO = re.compile(r"""(?<=[\w+.-]://)[^/\s?#"'<>\\]*@""")
_OWN_USERINFO = re.compile(r"\A([\w+.-]+://)[^/\s?#]*@")
_OPTION = re.compile(rf"""((?:{_NAMES})=)[^&\s"'\\]+""", re.IGNORECASE)
# As a line, as an entry of a dict and as a pair. A single word that is not quoted is prose ("unexpected token: }").
_HEADER = re.compile(
    rf"""((?:(?<![\w-])(?=\w++-)(?=[\w-]*?(?:{_HEADER_WORDS}))[\w-]++|(?<![\w-])(?:authorization|cookie2?)"""
    rf"""|(?<=["'])(?=\w*?(?:{_NAMES}))\w++(?=["']))"""
    r"""(?:["']?\s*+:\s*+|["']\s*+,\s*+))(?:\*\*\*|"[^"\n]*+"|'[^'\n]*+'|[^\n]++)""",
    re.IGNORECASE,
)
# An option or a setting before it, a scheme, and as many slashes as somebody typed.
_ADDRESS_BEGIN = re.compile(r"(?:-{0,2}[\w-]++=){0,2}+(?:([A-Za-z][A-Za-z0-9+.-]*+)(?::/*+|//++))?")
_HOSTS = re.compile(r"(?:(?:\[[^\]]*+\]|[^\[\]:@,]*+)(?::[0-9]++)?(?:,|\Z))*+")
_WITHOUT_USER = frozenset(("file", "mailto", "memory", "python", "sqlite"))
_BETWEEN_PARTS = re.compile(r"[:/@?#&=\\\s]+")
_BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]{8,}", re.IGNORECASE)


def shown_url(url: str) -> str:
    """Return a URL without user and password, as results have it."""
    return _OWN_USERINFO.sub(r"\1", url) if "@" in url else url


def without_secrets(text: str) -> str:
    """Return a text with everything masked that looks like a secret."""
    if "@" in text:
        text = _USERINFO.sub(f"{MASK}@", text)
    text = _OPTION.sub(rf"\1{MASK}", text)
    text = _HEADER.sub(rf"\1{MASK}", text)
    return _BEARER.sub(rf"\1{MASK}", text)


def without_secrets_inside(value: Any) -> Any:
    """Return plain values with ``without_secrets`` applied to every text."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {name: without_secrets_inside(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets_inside(member) for member in value]
    return value


def is_credential_header(name: str) -> bool:
    """Return whether a header must be sent to its own server only."""
    return _CREDENTIAL_HEADER.search(name) is not None


def concealed(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, however they got into it, and without what looks like one.

    Of a long text its beginning and its end.
    """
    # The longest first: one may be a part of another.
    known = sorted({one for one in secrets if len(one) >= MIN_CHARS}, key=len, reverse=True)
    if len(text) <= MAX_CONCEALED_CHARS:
        return _without(known, text)
    # What lies next to a cut goes as well: there may stand a part of a secret, which was not found.
    half, margin = MAX_CONCEALED_CHARS // 2, max(len(known[0]) if known else 0, _MARGIN_CHARS)
    return _without(known, text[:half])[:-margin] + "\n…\n" + _without(known, text[-half:])[margin:]


def _without(secrets: list[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return without_secrets(text)


def of_request(url: str, headers: Mapping[str, str], cookies: Mapping[str, str]) -> list[str]:
    """Return the secrets of a request."""
    secrets = list(cookies.values())
    for name, value in headers.items():
        if is_credential_header(name):
            # Also without "Bearer" or the cookie's name.
            secrets += [value, *(part.partition("=")[2] or part for part in value.replace(";", " ").split())]
    if "@" in url and (match := _OWN_USERINFO.match(url)):
        # Not for everybody who imports this: a command line that prints a line must start at once.
        from urllib.parse import unquote

        user, _, password = match[0].removesuffix("@").partition("://")[2].partition(":")
        # Where there is no password, the user is one: http://TOKEN@host/
        parts = [password] if password and len(user) < MIN_USER_CHARS else [password, user]
        secrets += [*parts, *map(unquote, parts)]
    return secrets


def shown_address(text: str, *, is_server: bool = False) -> str:
    """Return a typed address, which may be malformed, without its user and password.

    ``is_server``: it cannot be the name of a file, so what stands before an ``@`` is a user.
    """
    start, end = _credentials(text)
    if start == end and is_server:
        end = max(start, text.rfind("@"))
    return without_secrets(text if start == end else f"{text[:start]}{MASK}{text[end:]}")


def shown_frontier(url: str) -> str:
    """The URL of a frontier without its password, which must not end up in a log."""
    if url.startswith(("http:", "https:")):
        # A master's token comes from the environment again when the URL is copied out of a message.
        url = shown_url(url)
    return shown_address(url, is_server=not url.startswith(("sqlite:", "unix:")))


def of_address(text: str) -> list[str]:
    """Return possible secrets of a typed address, which may be malformed."""
    start, end = _credentials(text)
    user, _, password = text[start:end].partition(":")
    parts = [password, *_BETWEEN_PARTS.split(password)]
    if not password or len(user) >= MIN_USER_CHARS:
        parts += [user, *_BETWEEN_PARTS.split(user)]
    return [part for part in parts if part]


def _credentials(text: str) -> tuple[int, int]:
    """Return start and end of user and password in an address, without the ``@``; equal if there are none.

    Malformed addresses are handled too: a missing colon or slash, a slash inside, no ``@``.
    """
    begin = _ADDRESS_BEGIN.match(text)
    assert begin is not None, "it may match nothing at all"
    start, scheme, last = begin.end(), (begin[1] or "").lower(), text.rfind("@")
    if scheme in _WITHOUT_USER or (not scheme and ":" not in text[start : max(start, last)]):
        return start, start
    end = min((at for sign in "/?#" if (at := text.find(sign, start)) >= 0), default=len(text))
    authority = text[start:end]
    hosts = authority.rpartition("@")[2]
    is_broken = _HOSTS.fullmatch(hosts) is None
    if hosts != authority:
        # The path of a page may have one too; elsewhere a password may have slashes.
        is_page = scheme in ("http", "https") and hosts and not is_broken and ":" not in text[end:last]
        return start, end - len(hosts) - 1 if is_page else last
    # A password may begin like a port: only of pages is it usual to have both a port and an @ in the path.
    is_user = ":" in text[end:last] or (":" in authority and scheme not in ("http", "https"))
    if last > start and (is_broken or is_user):
        return start, last
    if is_broken and ":" in authority and "//" in begin[0]:
        return text.index(":", start), end
    return start, start


def of_answer(headers: Iterable[tuple[str, str]]) -> list[str]:
    """Return the values of the cookies that a server sets."""
    return [
        value.partition(";")[0].partition("=")[2].strip() for name, value in headers if name.lower() == "set-cookie"
    ]


def of_arguments(arguments: Mapping[str, str]) -> list[str]:
    """Return the spider arguments whose names mark them as secret."""
    return [value for name, value in arguments.items() if _SECRET_NAME.search(name)]
