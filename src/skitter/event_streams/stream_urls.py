"""URLs of streams of events (``--events``), and the stream that a scheme selects."""

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
"""The class of each scheme, imported when it is asked for, and the extra that brings its driver."""


class StreamUrl(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the URL of a stream of events."""

    scheme: str
    name: str
    """Without secrets."""
    hosts: str
    path: str
    fragment: str
    """The exchange, the topic or the stream."""
    user: str = ""
    password: str = ""
    options: dict[str, str] = {}

    def known_options(self, *names: str) -> dict[str, str]:
        """Return the options; UsageError for one that is not among these."""
        if unknown := sorted(set(self.options) - set(names)):
            raise UsageError(
                f"an option that this stream of events does not have: {unknown[0]}: {self.name}",
                hint=f"it has {', '.join(names)}",
            )
        return self.options

    def number(self, option: str) -> int:
        """Return an option that is a number above zero; 0: it is not given."""
        text = self.options.get(option)
        if text is None:
            return 0
        if not text.isdecimal() or int(text) == 0:
            raise UsageError(f"not a number above zero: {option}={text}: {self.name}", hint="leave it away")
        return int(text)


class _Stream(EventStream, EventReader, Protocol):
    """What every class of ``SCHEMES`` is."""


def event_stream_of(text: str) -> _Stream:
    """Return the stream that a URL names without opening anything. Raises UsageError, without secrets."""
    scheme = scheme_of(text)[0]
    if scheme not in SCHEMES:
        raise wrong_url(text, _KIND, f"a URL begins with one of {' '.join(SCHEMES)}")
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
