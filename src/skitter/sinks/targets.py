"""Targets, and their sinks: the scheme of a URL or the suffix of a file name selects the sink.

A target is known by two texts. ``text`` is what somebody wrote, and may hold a password. ``name`` is the same without
secrets: frontiers keep it, people see it, and a run goes on with it. So whatever opens a target again (the key, the
table, the options) is part of the name, and a password is not: it is given again, or comes from a file
(``?password_file=``), from the environment, or from where the driver of the server looks for it by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec

from skitter.entry_points import SINKS, find_entry_point
from skitter.errors import UsageError
from skitter.model.secrets import shown_address
from skitter.sinks.contract import Sink

PASSWORD_FILE = "password_file"  # noqa: S105  the name of an option

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
_WITH_AT = ("s3", "unix")
"""Schemes whose paths may contain an ``@``."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_SECRET_OPTION = re.compile(r"passw|passphrase|pwd|secret|token|credential", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@]*)(:[0-9]*)?")


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
            raise _wrong(text, "a URL reads SCHEME://USER:PASSWORD@HOST:PORT/…; a file of this name, ./NAME")
        name, given = file_name(text, given)
    else:
        parts = _split(text)
        given |= parts.options
        fields = tuple(filter(None, given.pop("key", "").split(","))) or fields
        name = parts.named(given | ({"key": ",".join(fields)} if fields else {}))
        file = given.pop(PASSWORD_FILE, None)
        written = given.pop("password", "") or unquote(parts.password) or (_read_password(file) if file else "")
        known = written or (password if parts.user else None)
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


def shown(text: str) -> str:
    """Return a target without secrets, also one that cannot be parsed."""
    try:
        return parse_target(text).name
    except UsageError:
        return shown_address(text, is_server=True)


# ---- the parts


class _Parts(NamedTuple):
    """The parts of a URL as it was written."""

    scheme: str
    """The scheme with its colon, and the slashes if it has them."""
    user: str
    password: str
    hosts: str
    path: str
    options: dict[str, str]
    fragment: str

    def named(self, options: Mapping[str, str]) -> str:
        """Return the URL without secrets, with these options."""
        kept = sorted((option, value) for option, value in options.items() if not _is_secret(option))
        query = urlencode(kept, safe=",/:{}", quote_via=quote)
        place = f"{self.user}@{self.hosts}{self.path}" if self.user else f"{self.hosts}{self.path}"
        return f"{self.scheme}{place}{query and '?' + query}{self.fragment and '#' + self.fragment}"


def _split(text: str) -> _Parts:
    """Split a URL. Raises UsageError if an unescaped password may have broken it, or a part of it would be shown."""
    match = _SCHEME.match(text)
    assert match is not None, "a file has no parts"
    rest, _, fragment = text[match.end() :].partition("#")
    path, _, query = rest.partition("?")
    authority, slash, below = path.partition("/") if match[2] else ("", "", path)
    credentials, _, hosts = authority.rpartition("@")
    user, _, password = credentials.partition(":")
    if not all(_HOST_AND_PORT.fullmatch(host) for host in hosts.split(",")):
        raise _wrong(text, "HOST or HOST:PORT is expected; / ? # and @ in a password are written %2F %3F %23 and %40")
    # Where a user is expected and none is, an @ further on is most likely the one behind a password.
    behind = f"{below}?{query}#{fragment}"
    is_name = match[1].lower() in _WITH_AT or "@" not in below
    has_user = "@" in behind and (":" in hosts + behind.rpartition("@")[0] or not is_name)
    if match[2] and not credentials and has_user:
        raise _wrong(text, "/ ? # and @ in a password are written %2F %3F %23 and %40")
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError as error:
        raise _wrong(text, "what is behind ? reads NAME=VALUE&NAME=VALUE") from error
    return _Parts(match[0].lower(), user, password, hosts, slash + below, options, fragment)


def _scheme(text: str) -> str:
    """Return the scheme in lower case; empty for a file, whose name may have a colon."""
    match = _SCHEME.match(text)
    if match is None:
        return ""
    scheme = match[1].lower()
    return scheme if match[2] or scheme in _WITHOUT_HOST or find_entry_point(SINKS, scheme) is not None else ""


def _is_secret(option: str) -> bool:
    return _SECRET_OPTION.search(option) is not None and not option.endswith("_file")


def _read_password(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise UsageError(
            f"cannot be read: {PASSWORD_FILE}={file}: {reason}", hint="check its path, owner and mode"
        ) from error


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
        f"no sink for this target: {target.name}",
        hint=f"a URL begins with one of {' '.join(SCHEMES)}, or with the name of an entry point of {SINKS}",
    )


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(f"not a target: {shown_address(text, is_server=True)}", hint=why)
