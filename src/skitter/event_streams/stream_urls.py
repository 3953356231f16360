"""URLs of event streams (``--events``), and the class that a scheme selects."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Protocol
from urllib.parse import unquote

import msgspec

from skitter.errors import ExtraMissingError, UsageError
from skitter.event_streams.contract import EventReader, EventStream
from skitter.server_url import scheme_of, split_url, wrong_url

_KIND = "stream of events"
SCHEMES = {
    "amqp": ("amqp:AmqpEventStream", "amqp"),
    "amqps": ("amqp:AmqpEventStream", "amqp"),
    "kafka": ("kafka:KafkaEventStream", "kafka"),
    "kafka+ssl": ("kafka:KafkaEventStream", "kafka"),
    "redis": ("redis_stream:RedisEventStream", "redis"),
    "rediss": ("redis_stream:RedisEventStream", "redis"),
    "redis+sentinel": ("redis_stream:RedisEventStream", "redis"),
    "rediss+sentinel": ("redis_stream:RedisEventStream", "redis"),
    "redis+cluster": ("redis_stream:RedisEventStream", "redis"),
    "unix": ("redis_stream:RedisEventStream", "redis"),
}
"""Class of each scheme, imported on first use, and the extra that installs its driver."""


class StreamUrl(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the URL of an event stream."""

    scheme: str
    name: str
    """URL without secrets."""
    hosts: str
    path: str
    fragment: str
    """Name of the exchange, topic or stream."""
    user: str = ""
    password: str = ""
    options: dict[str, str] = {}

    def known_options(self, *names: str) -> dict[str, str]:
        """Return the options. Raises UsageError for an option that is not among ``names``."""
        if unknown := sorted(set(self.options) - set(names)):
            raise UsageError(
                f"unknown option of an event stream: {unknown[0]}: {self.name}",
                hint=f"known options: {', '.join(names)}",
            )
        return self.options

    def number(self, option: str) -> int:
        """Return a positive number given as an option, or 0 if it is not given."""
        text = self.options.get(option)
        if text is None:
            return 0
        if not text.isdecimal() or int(text) == 0:
            raise UsageError(f"not a number above zero: {option}={text}: {self.name}", hint="omit it")
        return int(text)


class _Stream(EventStream, EventReader, Protocol):
    """Protocol of the classes in ``SCHEMES``: publisher and reader."""


def event_stream_of(text: str) -> _Stream:
    """Return the stream of a URL, without connecting. Raises UsageError with a message that contains no secrets."""
    scheme = scheme_of(text)[0]
    if scheme not in SCHEMES:
        raise wrong_url(text, _KIND, f"begin the URL with one of {' '.join(SCHEMES)}")
    parts = split_url(text, _KIND)
    options = dict(parts.options)
    name = parts.named(options)
    if not parts.fragment:
        raise wrong_url(text, _KIND, "amqp://HOST/VHOST#EXCHANGE, kafka://HOST#TOPIC or redis://HOST/DB#STREAM")
    url = StreamUrl(
        scheme=scheme,
        name=name,
        user=unquote(parts.user),
        password=parts.pop_password(options),
        hosts=parts.hosts,
        path=unquote(parts.path),
        fragment=unquote(parts.fragment),
        options=options,
    )
    (module, _, kind), extra = SCHEMES[scheme][0].partition(":"), SCHEMES[scheme][1]
    try:
        make: Callable[[StreamUrl], _Stream] = getattr(import_module(f"skitter.event_streams.{module}"), kind)
    except ModuleNotFoundError as error:
        raise ExtraMissingError(f"events to {scheme}://", extra) from error
    return make(url)
