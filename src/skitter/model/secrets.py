"""What must not be seen: passwords of URLs, credentials in headers, cookies. The one place that knows how they look.

A request needs its secrets to be sent, so the frontier keeps them. Whatever leaves for people, logs and results goes
through here: ``shown_url`` for a URL, ``without_secrets`` for any text, ``concealed`` where the secrets are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "***"
MIN_CHARS = 4
"""A secret that is shorter would be found in everything."""

MIN_USER_CHARS = 8
"""A user name beside a password is a secret only if it may be a token: "admin" would be found in everything."""

_NAMES = r"passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|credentials?|authorization|cookie"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
# Of headers also these, as whole words: what identifies a client to one server is not for another.
_HEADER_WORDS = rf"{_NAMES}|(?<![a-z0-9])(?:auth|authentication|csrf|jwt|key|session|sessionid|sid|xsrf)(?![a-z0-9])"
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
_BEARER = re.compile(r"\b(bearer\s+)[\w.~+/=-]{8,}", re.IGNORECASE)


def shown_url(url: str) -> str:
    """A URL without user and password: what results hold."""
    return _OWN_USERINFO.sub(r"\1", url) if "@" in url else url


def without_secrets(text: str) -> str:
    """Any text, with what looks like a secret masked."""
    if "@" in text:
        text = _USERINFO.sub(f"{MASK}@", text)
    text = _OPTION.sub(rf"\1{MASK}", text)
    text = _HEADER.sub(rf"\1{MASK}", text)
    return _BEARER.sub(rf"\1{MASK}", text)


def without_secrets_inside(value: Any) -> Any:
    """Plain values, with every text in them as ``without_secrets`` has it."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {name: without_secrets_inside(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets_inside(member) for member in value]
    return value


def is_credential_header(name: str) -> bool:
    """Whether a header is meant for the server that it was given for, and for nobody else."""
    return _CREDENTIAL_HEADER.search(name) is not None


def concealed(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, however they got into it, and without what looks like one."""
    # The longest first: one may be a part of another.
    for secret in sorted({one for one in secrets if len(one) >= MIN_CHARS}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return without_secrets(text)


def of_request(url: str, headers: Mapping[str, str], cookies: Mapping[str, str]) -> list[str]:
    """What a request knows that nobody else should."""
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


def of_answer(headers: Iterable[tuple[str, str]]) -> list[str]:
    """The cookies that a server sets."""
    return [
        value.partition(";")[0].partition("=")[2].strip() for name, value in headers if name.lower() == "set-cookie"
    ]


def of_arguments(arguments: Mapping[str, str]) -> list[str]:
    """Arguments of a spider that are secrets by their names."""
    return [value for name, value in arguments.items() if _SECRET_NAME.search(name)]
