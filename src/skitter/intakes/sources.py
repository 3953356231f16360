"""Sources, and their intakes: the scheme of a URL selects the intake.

As with targets (``sinks.targets``), ``text`` is what somebody wrote, and may hold a password; ``name`` is the same
without secrets, and is what frontiers keep and people see.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from skitter.entry_points import INTAKES, entry_point_names, find_entry_point, load_entry_point, unusable
from skitter.errors import IntakeError, UsageError
from skitter.intakes.contract import Intake
from skitter.model.secrets import shown_address
from skitter.server_url import scheme_of, split_url, wrong_url

STDIN = "-"
SCHEMES = {
    "file": "skitter.intakes.file:file_intake",
    "redis": "skitter.intakes.redis:redis_intake",
    "rediss": "skitter.intakes.redis:redis_intake",
    "redis+sentinel": "skitter.intakes.redis:redis_intake",
    "rediss+sentinel": "skitter.intakes.redis:redis_intake",
    "redis+cluster": "skitter.intakes.redis:redis_intake",
    "rediss+cluster": "skitter.intakes.redis:redis_intake",
    "unix": "skitter.intakes.redis:redis_intake",
    "amqp": "skitter.intakes.amqp:amqp_intake",
    "amqps": "skitter.intakes.amqp:amqp_intake",
    "kafka": "skitter.intakes.kafka:kafka_intake",
    "kafka+ssl": "skitter.intakes.kafka:kafka_intake",
}
"""Each is a function that takes the Source and returns its Intake; imported when it is asked for, so that drivers stay
optional (ExtraMissingError)."""
_IDENTITY = ("db", "group")
"""Options that are part of a source's name. With any other it is the same source, and goes on where it was."""
_METHODS = ("open", "read", "ack", "dead_letter", "backlog", "close")


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A source of requests, and the options for reading it."""

    text: str
    """As it was written, secrets included. Never shown."""
    name: str
    """The name that the frontier keeps and people see: without secrets, the same at every start."""
    job: str = ""
    options: dict[str, str] = {}
    """Query parameters of the URL; an intake refuses what it does not know (``known_options``)."""
    password: str | None = None
    """From the URL or a file; None: there is none."""

    @property
    def url_options(self) -> dict[str, str]:
        """All query parameters as they were written, those of a password among them."""
        return split_url(self.text, "source").options

    @property
    def scheme(self) -> str:
        """The scheme in lower case; empty for the standard input."""
        return scheme_of(self.text)[0]

    @property
    def user(self) -> str:
        return unquote(split_url(self.text, "source").user)

    @property
    def hosts(self) -> str:
        """``HOST``, ``HOST:PORT`` or several of them with commas; empty: none was written."""
        return split_url(self.text, "source").hosts

    @property
    def path(self) -> str:
        """The path after the hosts, with its slash; everything between scheme and query if a scheme has no hosts."""
        return unquote(split_url(self.text, "source").path)

    @property
    def fragment(self) -> str:
        """The part after ``#``: a key, a queue or a topic."""
        return unquote(split_url(self.text, "source").fragment)

    def known_options(self, *names: str) -> dict[str, str]:
        """Return the options; UsageError for one that is not among these."""
        for option in self.options:
            if option not in names:
                hint = f"known options: {', '.join(names)}" if names else "it has no options"
                raise UsageError(f"unknown option of this source: {option}: {self.name}", hint=hint)
        return self.options

    def __repr__(self) -> str:
        """Return the name: tracebacks and logs must not hold secrets."""
        return f"Source({self.name!r})"


def parse_source(text: str, *, job: str = "") -> Source:
    """Parse a source of ``--intake``. Raises UsageError, without secrets."""
    if text == STDIN:
        return Source(text=text, name=text, job=job)
    if not scheme_of(text)[0]:
        raise wrong_url(text, "source", f"write a file as file:{text if '@' not in text else 'PATH'}; {_hint()}")
    parts = split_url(text, "source")
    options = dict(parts.options)
    if parts.scheme.startswith("file:"):
        if parts.user or parts.hosts:
            raise wrong_url(text, "source", "write a file as file:PATH")
        # Other commands may run in another folder.
        parts = parts._replace(scheme="file:", path=quote(str(Path(unquote(parts.path)).absolute()), safe="/:,=+ "))
    name = parts.named({option: value for option, value in options.items() if option in _IDENTITY})
    return Source(text=text, name=name, job=job, password=parts.pop_password(options) or None, options=options)


def intake_of(source: Source) -> Intake:
    """Return the intake of a source without opening anything."""
    if source.text == STDIN:
        from skitter.intakes.file import stdin_intake

        return stdin_intake(source)
    scheme = source.scheme
    if scheme in SCHEMES:
        module, _, function = SCHEMES[scheme].partition(":")
        factory: Callable[[Source], Intake] = getattr(import_module(module), function)
        return factory(source)
    if (found := find_entry_point(INTAKES, scheme)) is None:
        raise UsageError(f"no intake for this source: {source.name}", hint=_hint())
    kind = load_entry_point(found)
    lacking = [name for name in _METHODS if not callable(getattr(kind, name, None))]
    if lacking:
        raise unusable(found, f"it has no {', '.join(lacking)}")
    try:
        intake: Intake = kind(source)
    except (UsageError, IntakeError):
        raise
    except Exception as error:
        raise unusable(found, f"{type(error).__name__}: {error}") from error
    return intake


def shown(text: str) -> str:
    """Return a source without secrets, also one that cannot be parsed."""
    try:
        return parse_source(text).name
    except UsageError:
        return shown_address(text, is_server=True)


def _hint() -> str:
    known = [*SCHEMES, *entry_point_names(INTAKES)]
    return f"- is standard input; a URL begins with one of {' '.join(known)}"
