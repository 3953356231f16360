"""A failed or excluded request in one plain sentence, for people; programs read its error class."""

from __future__ import annotations

from skitter.model.secrets import without_secrets
from skitter.policy.politeness import HOST_DOWN

_VERBS = dict.fromkeys(("dns", "connect", "tls"), "could not be reached") | {"timeout": "did not answer in time"}


def failure_sentence(url: str, error_class: str, error: str) -> str:
    """Return what happened to a request. ``error`` is stored with it: a reason, ``REASON: URL``, or a traceback."""
    reason = error.strip().rpartition("\n")[2].removeprefix(HOST_DOWN)
    what, _, place = reason.rpartition(": ")
    if error_class in ("callback", "hook", "sitemap", "internal"):
        sentence = f"{url} failed in the spider's code: {reason}"
    elif "://" in place:
        # Another URL, where the robots.txt of the host could not be read.
        sentence = failure_sentence(place, error_class, what)
    elif error_class == "robots":
        sentence = f"{url} is excluded by {reason}"
    elif reason.startswith("HTTP "):
        sentence = f"{url} answered {reason}"
    else:
        sentence = f"{url} {_VERBS.get(error_class, 'could not be fetched')}: {reason}"
    return without_secrets(sentence)
