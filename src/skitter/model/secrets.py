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

MAX_CONCEALED_CHARS = 65_536
"""Of a text that known secrets are looked for in: an error may quote a whole page, and a server set 5,000 cookies."""
_MARGIN_CHARS = 1_000

_CREDENTIAL_HEADERS = frozenset(("authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token"))
_NAMES = r"passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|credentials?|authorization|cookie"
_SECRET_NAME = re.compile(_NAMES, re.IGNORECASE)
# Greedy: a password may hold an @ itself.
_USERINFO = re.compile(r"""(?<=[\w+.-]://)[^/\s?#"'<>\\]*@""")
_OWN_USERINFO = re.compile(r"\A([\w+.-]+://)[^/\s?#]*@")
_OPTION = re.compile(rf"""((?:{_NAMES})=)[^&\s"'\\]+""", re.IGNORECASE)
# As a line, as an entry of a dict and as a pair.
_HEADER = re.compile(
    r"""((?:\b(?:proxy-)?authorization|\b(?:set-)?cookie2?|\bx-api-key|\bx-auth-token)"""
    r"""(?:["']?\s*:\s*|["']\s*,\s*))(\*\*\*|"[^"\n]*"|'[^'\n]*'|[^\n]+)""",
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
    """What a request knows that nobody else should."""
    secrets = list(cookies.values())
    for name, value in headers.items():
        if name.lower() in _CREDENTIAL_HEADERS:
            # Also without "Bearer" or the cookie's name.
            secrets += [value, *(part.partition("=")[2] or part for part in value.replace(";", " ").split())]
    if "@" in url and (match := _OWN_USERINFO.match(url)):
        # Not for everybody who imports this: a command line that prints a line must start at once.
        from urllib.parse import unquote

        password = match[0].removesuffix("@").partition("://")[2].partition(":")[2]
        secrets += [password, unquote(password)]
    return secrets


def of_answer(headers: Iterable[tuple[str, str]]) -> list[str]:
    """The cookies that a server sets."""
    return [
        value.partition(";")[0].partition("=")[2].strip() for name, value in headers if name.lower() == "set-cookie"
    ]


def of_arguments(arguments: Mapping[str, str]) -> list[str]:
    """Arguments of a spider that are secrets by their names."""
    return [value for name, value in arguments.items() if _SECRET_NAME.search(name)]
