"""Who the crawler says it is: one place for what is sent, what robots.txt is asked about, and what is refused."""

from __future__ import annotations

import re

from skitter._version import __version__

PRODUCT = "skitter/" + ".".join(__version__.split(".")[:2])
DEFAULT_USER_AGENT = f"{PRODUCT} (web crawler)"

_PRODUCT = re.compile(r"[^\s/();,]+")
_COMPATIBLE = re.compile(r"\(\s*compatible\s*;\s*([^\s/();,]+)", re.IGNORECASE)
_TOKEN = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_.!#$%&'+^`|~-]+")
"""As HTTP has it (RFC 9110), with a letter, and without the asterisk: to robots.txt that is everybody."""
_PRINTABLE = re.compile(r"[ -~]*")
_CONTACT = re.compile(r"(https?://[!-~]+|(mailto:)?[!-~]+@[!-~]+)", re.IGNORECASE)
_PARENTHESES = re.compile(r"[()\\]")


def product_token(user_agent: str) -> str:
    """The name robots.txt knows a crawler by: ``skitter`` of ``skitter/0.1 (web crawler)``.

    ``Mozilla/5.0 (compatible; Foobot/1.0)`` is called Foobot.
    """
    match = _PRODUCT.search(user_agent)
    name = match[0] if match else "*"
    if name.lower() == "mozilla" and (compatible := _COMPATIBLE.search(user_agent)):
        return compatible[1]
    return name


def user_agent_header(user_agent: str, contact: str) -> str:
    """The header: the name, and how to reach whoever runs the crawl, as is usual: ``skitter/0.1 (+https://…)``."""
    if not contact or contact in user_agent:
        return user_agent
    return f"{PRODUCT if user_agent == DEFAULT_USER_AGENT else user_agent} (+{contact})"


def objection_to_user_agent(user_agent: str) -> str | None:
    """Why this name cannot be used; None: it can."""
    if not _PRINTABLE.fullmatch(user_agent):
        return "a user agent is one line of printable ASCII"
    if not _TOKEN.fullmatch(product_token(user_agent)):
        return "a user agent begins with a product token, the name that robots.txt is asked about: mybot/1.0"
    return None


def objection_to_contact(contact: str) -> str | None:
    """Why this cannot stand in the user agent; None: it can, or it is empty."""
    if not contact or (_CONTACT.fullmatch(contact) and not _PARENTHESES.search(contact)):
        return None
    return "a contact is a URL or a mail address, without spaces, parentheses and control characters"
