"""Targets, and their sinks: the scheme of a URL or the suffix of a file name selects the sink.

A target is known by two texts. ``text`` is what somebody wrote, and may hold a password. ``name`` is the same without
secrets: frontiers keep it, people see it, and a run goes on with it. So whatever opens a target again (the key, the
table, the options) is part of the name, and a password is not: it is given again, or comes from a file
(``?password_file=``), from the environment, or from where the driver of the server looks for it by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from urllib.parse import unquote

import msgspec

from skitter.entry_points import SINKS, find_entry_point
from skitter.errors import UsageError
from skitter.model.secrets import shown_address
from skitter.server_url import ServerUrl, scheme_of, split_url, wrong_url
from skitter.sinks.contract import Sink

SCHEMES = {
    "sqlite": "skitter.sinks.databases:sqlite_sink",
    "postgresql": "skitter.sinks.databases:postgresql_sink",
    "postgres": "skitter.sinks.databases:postgresql_sink",
    "mysql": "skitter.sinks.databases:mysql_sink",
    "mariadb": "skitter.sinks.databases:mysql_sink",
    "mongodb": "skitter.sinks.databases:mongodb_sink",
    "mongodb+srv": "skitter.sinks.databases:mongodb_sink",
    "mongodb+ring": "skitter.sinks.databases:mongodb_sink",
    "s3": "skitter.sinks.s3:s3_sink",
    "redis": "skitter.sinks.streams:redis_sink",
    "rediss": "skitter.sinks.streams:redis_sink",
    "redis+sentinel": "skitter.sinks.streams:redis_sink",
    "rediss+sentinel": "skitter.sinks.streams:redis_sink",
    "unix": "skitter.sinks.streams:redis_sink",
    "amqp": "skitter.sinks.streams:amqp_sink",
    "amqps": "skitter.sinks.streams:amqp_sink",
    "kafka": "skitter.sinks.streams:kafka_sink",
    "kafka+ssl": "skitter.sinks.streams:kafka_sink",
    "python": "skitter.sinks.custom_sink:python_sink",
}
"""Each is a function that takes the Target and returns its Sink; imported when it is asked for, so that drivers stay
optional (ExtraMissingError)."""
_WITHOUT_HOST = ("sqlite", "python")
"""Schemes of targets that are written ``scheme:PATH``."""
_ONE_MACHINE = ("", "sqlite", "s3")
"""Schemes of targets that are on one machine: what waits for a bucket is in a file there."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """An output, and the options for writing it."""

    text: str
    """As it was written, secrets included. Never shown."""
    name: str
    """The name that the frontier keeps and people see: without secrets, the same at every start."""
    overwrite: bool = False
    """``-O``: a new run begins with an empty target."""
    job: str = ""
    key_fields: tuple[str, ...] = ()
    """Fields that name an item; without any, its place on its page does (``Item.key``)."""
    options: dict[str, str] = {}
    """Other query parameters of the URL, and entries of its table; a sink refuses what it does not know."""
    password: str | None = None
    """From the URL, a file or the environment; None: there is none, or the driver finds it by itself."""
    trusted: tuple[str, ...] | None = None
    """The store named it: of code only this is trusted, and the project folder. None: this command named it."""

    @property
    def scheme(self) -> str:
        """The scheme of a URL, in lower case; empty for a file."""
        return _scheme(self.text)

    @property
    def user(self) -> str:
        return unquote(_split(self.text).user)

    @property
    def hosts(self) -> str:
        """``HOST``, ``HOST:PORT`` or several of them with commas; empty: none was written."""
        return _split(self.text).hosts

    @property
    def path(self) -> str:
        """The path after the hosts, with its slash; everything between scheme and query if a scheme has no hosts."""
        return unquote(_split(self.text).path)

    @property
    def fragment(self) -> str:
        """The part after ``#``: a table, a collection, a stream or a topic."""
        return unquote(_split(self.text).fragment)

    def __repr__(self) -> str:
        """Return the name: tracebacks and logs must not hold secrets."""
        return f"Target({self.name!r})"


def parse_target(
    text: str,
    *,
    overwrite: bool = False,
    job: str = "",
    key_fields: Iterable[str] = (),
    options: Mapping[str, str] | None = None,
    password: str | None = None,
    trusted: tuple[str, ...] | None = None,
) -> Target:
    """Parse a target of ``-o``, a ``[[sink]]`` table or a frontier. Raises UsageError, without secrets.

    What stands in a URL wins over ``key_fields`` and ``options``. ``password`` is for a URL that names a user and has
    no password.
    """
    given = dict(options or {})
    fields = tuple(key_fields)
    known = None
    if not _scheme(text):
        from skitter.sinks.file_targets import archive_of, file_name

        is_path = text.startswith(("./", "/")) and "://" not in text
        if ":" in text.rpartition("@")[0] and not is_path and archive_of(text) is None:
            # An address with a colon or a slash too few or too many, whose password would become part of a file's name.
            raise wrong_url(
                text, "output", "write a URL as SCHEME://USER:PASSWORD@HOST:PORT/…, and a file of this name as ./NAME"
            )
        name, given = file_name(text, given)
    else:
        parts = _split(text)
        given |= parts.options
        fields = tuple(filter(None, given.pop("key", "").split(","))) or fields
        name = parts.named(given | ({"key": ",".join(fields)} if fields else {}))
        known = parts.pop_password(given) or (password if parts.user else None)
    return Target(
        text=text,
        name=name,
        overwrite=overwrite,
        job=job,
        key_fields=fields,
        options=given,
        password=known,
        trusted=trusted,
    )


def sink_of(target: Target) -> Sink:
    """Return the sink of a target without opening anything."""
    scheme = target.scheme
    if not scheme:
        from skitter.sinks.file_targets import file_sink

        return file_sink(target.name, overwrite=target.overwrite, job=target.job, options=target.options)
    if scheme in SCHEMES:
        return _imported(SCHEMES[scheme], target)(target)
    if (found := find_entry_point(SINKS, scheme)) is not None:
        from skitter.sinks.custom_sink import entry_point_sink

        return entry_point_sink(target, found)
    raise _unknown(target)


def without_options(name: str) -> str:
    """Return a target's name without its options, to compare targets."""
    return _split(name).named({}) if _scheme(name) else name


def is_on_one_machine(name: str) -> bool:
    """Return whether only the machine that began a target can write it."""
    return _scheme(name) in _ONE_MACHINE


def shown(text: str) -> str:
    """Return a target without secrets, also one that cannot be parsed."""
    try:
        return parse_target(text).name
    except UsageError:
        return shown_address(text, is_server=True)


# ---- the parts


def _split(text: str) -> ServerUrl:
    return split_url(text, "output")


def _scheme(text: str) -> str:
    """Return the scheme in lower case; empty for a file, whose name may have a colon."""
    scheme, has_slashes = scheme_of(text)
    if not scheme:
        return ""
    return scheme if has_slashes or scheme in _WITHOUT_HOST or find_entry_point(SINKS, scheme) is not None else ""


def _imported(place: str, target: Target) -> Callable[[Target], Sink]:
    module, _, function = place.partition(":")
    try:
        factory: Callable[[Target], Sink] = getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise _unknown(target) from error
    return factory


def _unknown(target: Target) -> UsageError:
    return UsageError(
        f"no such output: {target.name}",
        hint=f"a URL begins with one of {' '.join(SCHEMES)}, or with the name of an entry point in {SINKS}",
    )
