"""User agent: the header that is sent, the product token for robots.txt, and checks of both settings."""

from __future__ import annotations

import re

from skitter._version import __version__

PRODUCT = "skitter/" + ".".join(__version__.split(".")[:2])
DEFAULT_USER_AGENT = f"{PRODUCT} (web crawler)"

_PRODUCT = re.compile(r"[^\s/();,]+")
_COMPATIBLE = re.compile(r"\(\s*compatible\s*;\s*([^\s/();,]+)", re.IGNORECASE)
_TOKEN = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_.!#$%&'+^`|~-]+")
"""Token of RFC 9110 with at least one letter and no asterisk, which means every crawler in robots.txt."""
_PRINTABLE = re.compile(r"[ -~]*")
_CONTACT = re.compile(r"(https?://[!-~]+|(mailto:)?[!-~]+@[!-~]+)", re.IGNORECASE)
_PARENTHESES = re.compile(r"[()\\]")


def product_token(user_agent: str) -> str:
    """Return the product token, the crawler's name in robots.txt: ``skitter`` of ``skitter/0.1 (web crawler)``.

    ``Mozilla/5.0 (compatible; Foobot/1.0)`` has the product token Foobot.
    """
    match = _PRODUCT.search(user_agent)
    name = match[0] if match else "*"
    if name.lower() == "mozilla" and (compatible := _COMPATIBLE.search(user_agent)):
        return compatible[1]
    return name


def user_agent_header(user_agent: str, contact: str) -> str:
    """Return the User-Agent header with the contact of the operator: ``skitter/0.1 (+https://…)``."""
    if not contact or contact in user_agent:
        return user_agent
    return f"{PRODUCT if user_agent == DEFAULT_USER_AGENT else user_agent} (+{contact})"


def objection_to_user_agent(user_agent: str) -> str | None:
    """Return why a user agent is invalid, or None."""
    if not _PRINTABLE.fullmatch(user_agent):
        return "a user agent is one line of printable ASCII"
    if not _TOKEN.fullmatch(product_token(user_agent)):
        return "a user agent begins with a product token, the name that robots.txt is asked about: mybot/1.0"
    return None


def objection_to_contact(contact: str) -> str | None:
    """Return why a contact is invalid, or None; an empty contact is valid."""
    if not contact or (_CONTACT.fullmatch(contact) and not _PARENTHESES.search(contact)):
        return None
    return "a contact is a URL or a mail address, without spaces, parentheses and control characters"
