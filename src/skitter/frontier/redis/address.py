"""Addresses of a Redis: what ``--frontier`` may say, and how it is shown without its password."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from skitter.errors import UsageError

DEFAULT_PORT = 6379
SENTINEL_PORT = 26379
MAX_SHARDS = 256
"""Every worker asks every shard about once a second."""
_FORMS = {
    "unix": "unix:///PATH[?db=N]",
    "redis+sentinel": "redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…/MASTER[/DB]",
    "redis+cluster": "redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…[?shards=N]",
}
_PLAIN_FORM = "redis://[USER:PASSWORD@]HOST[:PORT][/DB], or rediss://… for TLS (?ca=FILE for an own CA)"

Place = tuple[str, int]
"""Host and port."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a Redis is, or who knows where it is."""

    places: tuple[Place, ...] = ()
    """The server; or the sentinels, or some nodes of a cluster."""
    path: str = ""
    """Of a socket file; then there are no places."""
    master: str = ""
    """What the sentinels call the server."""
    cluster: bool = False
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca: str | None = None
    """A file with the certificate authority to believe; None: those of the system."""
    shards: int | None = None
    """Into how many a new job is split; None: as many as suit the servers."""

    def __str__(self) -> str:
        """For messages: never the password."""
        if self.path:
            return f"unix://{self.path}" + (f"?db={self.db}" if self.db else "")
        hosts = ",".join(shown(place) for place in self.places)
        if self.cluster:
            return f"redis+cluster://{hosts}"
        if self.master:
            return f"redis+sentinel://{hosts}/{self.master}" + (f"/{self.db}" if self.db else "")
        return f"{'rediss' if self.tls else 'redis'}://{hosts}/{self.db}"


def shown(place: Place) -> str:
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(url: str) -> Address:
    """UsageError, with a hint and without the password, for what is no address."""
    scheme = url.partition("://")[0].lower()
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        credentials, _, hosts = parts.netloc.rpartition("@")
        places = _places(hosts, SENTINEL_PORT if scheme == "redis+sentinel" else DEFAULT_PORT)
        shards = _shards(options.pop("shards", None))
        address = _address(scheme, places, parts.path, options)
    except ValueError as error:
        raise _wrong(scheme) from error
    if options or parts.fragment:
        raise _wrong(scheme)
    username, _, password = credentials.partition(":")
    return msgspec.structs.replace(
        address,
        username=unquote(username) or None,
        password=unquote(password) or None if password else None,
        shards=shards,
    )


def _address(scheme: str, places: tuple[Place, ...], path: str, options: dict[str, str]) -> Address:
    if scheme == "unix":
        if places or not path.strip("/"):
            raise ValueError("a socket file has a path and no host")
        return Address(path=unquote(path), db=_db(options.pop("db", "0")))
    if not places:
        raise ValueError("no host")
    if scheme == "redis+sentinel":
        master, _, db = path.strip("/").partition("/")
        if not master:
            raise ValueError("no master")
        return Address(places=places, master=unquote(master), db=_db(db or "0"))
    if scheme == "redis+cluster":
        if path.strip("/"):
            raise ValueError("a cluster has one database")
        return Address(places=places, cluster=True)
    if len(places) > 1 or scheme not in ("redis", "rediss"):
        raise ValueError("one host")
    tls = scheme == "rediss"
    return Address(places=places, db=_db(path.strip("/") or "0"), tls=tls, ca=options.pop("ca", None) if tls else None)


def _places(hosts: str, default_port: int) -> tuple[Place, ...]:
    places = []
    for host in hosts.split(",") if hosts else []:
        parts = urlsplit(f"//{host}")
        if not parts.hostname:
            raise ValueError("an empty host")
        places.append((parts.hostname, parts.port or default_port))
    return tuple(places)


def _db(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("not a number of a database")
    return int(text)


def _shards(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= MAX_SHARDS:
        raise ValueError("not a number of shards")
    return int(text)


def _wrong(scheme: str) -> UsageError:
    # The address itself is not repeated: it may hold a password.
    return UsageError(f"not an address of a Redis: {scheme}://…", hint=f"it reads {_FORMS.get(scheme, _PLAIN_FORM)}")
