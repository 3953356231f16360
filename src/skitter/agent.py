"""Who the crawler is to servers: user agent and headers of every request, credentials of origins, and their checks."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Literal

import msgspec

from skitter._version import __version__

PRODUCT = "skitter/" + ".".join(__version__.split(".")[:2])
DEFAULT_USER_AGENT = f"{PRODUCT} (web crawler)"

_PRODUCT = re.compile(r"[^\s/();,]+")
_COMPATIBLE = re.compile(r"\(\s*compatible\s*;\s*([^\s/();,]+)", re.IGNORECASE)
_TOKEN = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_.!#$%&'+^`|~-]+")
"""Token of RFC 9110 with at least one letter and no asterisk, which means every crawler in robots.txt."""
_PRINTABLE = re.compile(r"[ -~]*")
_CONTACT = re.compile(r"(https?://[!-~]+|(mailto:)?[!-~]+@[!-~]+)", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_OTHERS = {
    "user-agent": "user_agent, or user_agents for several",
    "authorization": "[[credentials]] for each origin",
    "proxy-authorization": "the URL of the proxy",
    "cookie": "cookies of a Request",
}
"""Headers that are not for every server alike, and what is for them."""
_SECRET = re.compile(r"passw|secret|token|api[_-]?key|credential|session|csrf|xsrf|auth", re.IGNORECASE)
_OF_THE_CONNECTION = frozenset(
    ("host", "connection", "content-length", "transfer-encoding", "te", "upgrade", "expect", "keep-alive", "trailer")
)
_ORIGIN = re.compile(
    r"(https?)://(?:\*\.)?(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.IGNORECASE
)
_VISIBLE = re.compile(r"[!-~]+")
_PARENTHESES = re.compile(r"[()\\]")


def product_token(user_agent: str) -> str:
    """Return the product token, the crawler's name in robots.txt: ``skitter`` of ``skitter/0.2 (web crawler)``.

    ``Mozilla/5.0 (compatible; Foobot/1.0)`` has the product token Foobot.
    """
    match = _PRODUCT.search(user_agent)
    name = match[0] if match else "*"
    if name.lower() == "mozilla" and (compatible := _COMPATIBLE.search(user_agent)):
        return compatible[1]
    return name


def user_agent_header(user_agent: str, contact: str) -> str:
    """Return the User-Agent header with the contact of the operator: ``skitter/0.2 (+https://…)``."""
    if not contact or contact in user_agent:
        return user_agent
    return f"{PRODUCT if user_agent == DEFAULT_USER_AGENT else user_agent} (+{contact})"


def objection_to_user_agent(user_agent: str) -> str | None:
    """Return why a user agent is invalid, or None."""
    if not _PRINTABLE.fullmatch(user_agent):
        return "a user agent must be one line of printable ASCII"
    if not _TOKEN.fullmatch(product_token(user_agent)):
        return "a user agent begins with a product token, the name that robots.txt rules use: mybot/1.0"
    return None


def objection_to_contact(contact: str) -> str | None:
    """Return why a contact is invalid, or None; an empty contact is valid."""
    if not contact or (_CONTACT.fullmatch(contact) and not _PARENTHESES.search(contact)):
        return None
    return "a contact is a URL or a mail address, without spaces, parentheses or control characters"


def objection_to_header(line: str) -> str | None:
    """Return why a line may not be a header of every request, or None."""
    name, colon, value = line.partition(":")
    lower = name.strip().lower()
    if not colon or not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value) or not value.strip():
        return "a header is a name, a colon and a value, as in Accept-Language: de"
    if lower in _OTHERS:
        return f"this header is not the same for every server: {name}; use {_OTHERS[lower]}"
    if _SECRET.search(name):
        return f"this header is a secret of one server: {name}; use [[credentials]] or headers of a Request"
    return f"this header is set by the connection: {name}" if lower in _OF_THE_CONNECTION else None


def objection_to_header_name(name: str) -> str | None:
    """Return why a name may not be in the order of headers, or None."""
    if not _HEADER_NAME.fullmatch(name):
        return "a header name is one word, as in Accept-Language"
    if name.lower() == "cookie" or name.lower() in _OF_THE_CONNECTION:
        return f"the position of this header is fixed: {name}; Host is first, then Cookie, then the others"
    return None


class Credential(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Credentials of the crawler for one origin. ``repr`` shows no secrets (docs/how-to/authentication.md)."""

    origin: str
    """Scheme, host and port, as in ``https://api.example.com``; ``https://*.example.com``: all subdomains."""
    kind: Literal["basic", "digest", "bearer", "certificate"]
    user: str = ""
    password: str = ""
    token: str = ""
    certificate: str = ""
    """A PEM file, which also has the key unless ``key`` names another file. Any kind may have a certificate too."""
    key: str = ""
    key_password: str = ""

    def __post_init__(self) -> None:
        if _ORIGIN.fullmatch(self.origin) is None:
            raise ValueError("an origin is a scheme and a host, as in https://api.example.com or https://*.example.com")
        if self.kind in ("basic", "digest") and (not self.user or ":" in self.user or not self.password):
            raise ValueError(f"{self.kind} takes a user, without a colon, and a password")
        if self.kind == "bearer" and _VISIBLE.fullmatch(self.token) is None:
            raise ValueError("bearer takes a token: one word of printable ASCII")
        if self.kind == "certificate" and not self.certificate:
            raise ValueError("certificate takes a certificate file")
        if self.certificate and not self.origin.lower().startswith("https:"):
            raise ValueError("a certificate works with https origins only")
        if not (self.user + self.password).isprintable():
            raise ValueError("the user or the password contains a control character")
        wrong = {"user": self.kind in ("bearer", "certificate") and self.user + self.password}
        wrong["token"] = self.kind != "bearer" and self.token
        wrong["key"] = not self.certificate and self.key + self.key_password
        if unused := next((name for name, value in wrong.items() if value), None):
            raise ValueError(f"not used with this kind of credentials: {unused}")

    @property
    def shown(self) -> str:
        """Return what may be said of it."""
        return f"{self.kind} {self.origin}"

    @property
    def secrets(self) -> list[str]:
        """Return what must be said to nobody else."""
        # As a server that repeats the header has it, too.
        sent = b64encode(f"{self.user}:{self.password}".encode()).decode() if self.kind == "basic" else ""
        return [secret for secret in (self.password, self.token, self.key_password, sent) if secret]

    def __repr__(self) -> str:
        return f"Credential({self.shown})"
