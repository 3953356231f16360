"""Messages as requests: a URL, or a JSON object with the fields of a Request.

A message permits its host, as a seed does, and is not trusted: whoever may write to a queue must not be able to have
private addresses fetched (docs/adr/0051).
"""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import urlencode

import msgspec

from skitter.errors import RequestError, UrlError
from skitter.intakes.contract import Message
from skitter.model.request import EXPECTED, OPTIONS, Entry, Fingerprinter, Request
from skitter.model.url import absolute

MAX_BODY_BYTES = 1 << 20
"""A message that is longer is a dead letter: a batch of them is held in memory."""


def to_entry(message: Message, source: str, fingerprinter: Fingerprinter) -> Entry:
    """Return the frontier's entry for a message. Raises UrlError or RequestError: then it is a dead letter."""
    request = to_request(message)
    if request.dont_filter and not message.id:
        raise RequestError("dont_filter in a message without an id: each redelivery would be fetched again")
    # By source and id, so that a message that comes again is the same request.
    told = hashlib.blake2b(f"{source}\0{message.id}".encode(), digest_size=8)
    entry = fingerprinter.entry(request, parent=int.from_bytes(told.digest(), "big"))
    return msgspec.structs.replace(entry, trusts=False, repeats=request.is_list or request.dont_filter)


def to_request(message: Message) -> Request:
    """Return the request that a message asks for. Raises UrlError or RequestError."""
    if len(message.body) > MAX_BODY_BYTES:
        raise RequestError(f"longer than {MAX_BODY_BYTES} bytes")
    try:
        text = message.body.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise RequestError(f"not UTF-8: byte {error.start}") from error
    fields: dict[str, Any] = {"url": text}
    if text.startswith("{"):
        fields = _fields(text, allow_form=message.form)
    if not fields.get("url"):
        raise RequestError("no url")
    if message.priority is not None:
        fields.setdefault("priority", message.priority)
    request = Request(**fields, seed=True)
    request.url = absolute(request.url)
    return request


def _fields(text: str, *, allow_form: bool) -> dict[str, Any]:
    try:
        given: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"not a JSON object: {error}") from error
    # In a message of scrapy-redis, form fields may have these names.
    known = EXPECTED.keys() - (OPTIONS if allow_form else ())
    fields = {name: value for name, value in given.items() if name in known}
    if isinstance(method := fields.get("method"), str):
        fields["method"] = method.upper()
    rest = {name: value for name, value in given.items() if name not in known}
    if rest and not allow_form:
        raise RequestError(f"unknown field: {min(rest)[:100]}", hint=f"known fields: {', '.join(EXPECTED)}")
    return _with_form(fields, rest) if rest else fields


def _with_form(fields: dict[str, Any], form: dict[str, Any]) -> dict[str, Any]:
    """Send the form as scrapy-redis does: in the query of a GET, in the body of any other method."""
    encoded = urlencode(form, doseq=True)
    if fields.get("method", "GET") == "GET":
        url = str(fields.get("url", ""))
        return fields | {"url": f"{url}{'&' if '?' in url else '?'}{encoded}"}
    headers = fields.get("headers") or {}
    if fields.get("body") or not isinstance(headers, dict):
        raise RequestError("a body and form fields cannot be combined")
    return fields | {"body": encoded, "headers": {"Content-Type": "application/x-www-form-urlencoded"} | headers}


def reason_of(error: UrlError | RequestError) -> str:
    """Return why a message is a dead letter, in one line."""
    return " ".join(str(error).split())[:500]
