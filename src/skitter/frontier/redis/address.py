"""Addresses of a Redis: what ``--frontier`` may say, and how it is shown without its password."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from skitter.errors import UsageError

DEFAULT_PORT = 6379
SENTINEL_PORT = 26379
_TLS = "rediss"
MAX_SHARDS = 256
"""Every worker asks every shard about once a second."""
_FORMS = {
    "unix": "unix:///PATH[?db=N]",
    "sentinel": "redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…/MASTER[/DB]",
    "cluster": "redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…[?shards=N]",
    "": "redis://[USER:PASSWORD@]HOST[:PORT][/DB], or rediss://… for TLS (?ca=FILE for an own CA)",
}

HostPort = tuple[str, int]
"""Host and port."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a Redis is, or who knows where it is; who asks; and what an answer must have survived."""

    places: tuple[HostPort, ...] = ()
    """The server; or the sentinels, or some nodes of a cluster."""
    path: str = ""
    """Of a socket file; then there are no places."""
    master: str = ""
    """What the sentinels call the server."""
    cluster: bool = False
    db: int = 0
    username: str | None = None
    password: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = None
    """Sentinels have users of their own, and often none."""
    tls: bool = False
    ca: str | None = None
    """A file with the certificate authority to believe; None: those of the system."""
    cert: str | None = None
    key: str | None = None
    """Files with the client's certificate and its key, for a server that asks for one."""
    wait_replicas: int = 0
    """So many replicas must have a write before its answer is believed."""
    shards: int | None = None
    """Into how many a new job is split; None: as many as suit the servers."""

    def __str__(self) -> str:
        """For messages: never a password."""
        if self.path:
            return f"unix://{self.path}" + (f"?db={self.db}" if self.db else "")
        scheme = _TLS if self.tls else "redis"
        hosts = ",".join(shown(place) for place in self.places)
        if self.cluster:
            return f"{scheme}+cluster://{hosts}"
        if self.master:
            return f"{scheme}+sentinel://{hosts}/{self.master}" + (f"/{self.db}" if self.db else "")
        return f"{scheme}://{hosts}/{self.db}"


def shown(place: HostPort) -> str:
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(url: str) -> Address:
    """UsageError, with a hint and without the password, for what is no address."""
    scheme = url.partition("://")[0].lower()
    kind = scheme.partition("+")[2] or ("unix" if scheme == "unix" else "")
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        credentials, _, hosts = parts.netloc.rpartition("@")
        if not credentials:
            _check_no_user(url if kind != "unix" or ":" in parts.path else "")
        places = _places(hosts, SENTINEL_PORT if kind == "sentinel" else DEFAULT_PORT)
        address = _at(kind, places, parts.path, options)
        username, _, password = credentials.partition(":")
        address = msgspec.structs.replace(
            address,
            username=unquote(username) or None,
            password=_password(unquote(password), options, "password_file"),
            wait_replicas=_number(options.pop("wait_replicas", "0")),
            shards=_shards(options.pop("shards", None)),
        )
        if scheme.startswith(_TLS):
            address = _with_tls(address, options)
        if kind == "sentinel":
            address = msgspec.structs.replace(
                address,
                sentinel_username=options.pop("sentinel_username", None),
                sentinel_password=_password(options.pop("sentinel_password", ""), options, "sentinel_password_file"),
            )
    except ValueError as error:
        raise _wrong(scheme, kind) from error
    if options or parts.fragment:
        raise _wrong(scheme, kind)
    return address


def _at(kind: str, places: tuple[HostPort, ...], path: str, options: dict[str, str]) -> Address:
    if kind == "unix":
        if places or not path.strip("/"):
            raise ValueError("a socket file has a path and no host")
        return Address(path=unquote(path), db=_number(options.pop("db", "0")))
    if not places:
        raise ValueError("no host")
    if kind == "sentinel":
        master, _, db = path.strip("/").partition("/")
        if not master:
            raise ValueError("no master")
        return Address(places=places, master=unquote(master), db=_number(db or "0"))
    if kind == "cluster":
        if path.strip("/"):
            raise ValueError("a cluster has one database")
        return Address(places=places, cluster=True)
    if len(places) > 1 or kind:
        raise ValueError("one host")
    return Address(places=places, db=_number(path.strip("/") or "0"))


def _with_tls(address: Address, options: dict[str, str]) -> Address:
    files = {name: options.pop(name, None) for name in ("ca", "cert", "key")}
    if (files["cert"] is None) != (files["key"] is None):
        raise ValueError("a certificate goes with its key")
    for name, file in files.items():
        if file is not None:
            _read(file, f"?{name}=")
    return msgspec.structs.replace(address, tls=True, **files)


def _password(given: str, options: dict[str, str], file_option: str) -> str | None:
    """The password, or what the file has: a command line can be read by everybody on the machine."""
    file = options.pop(file_option, None)
    if file is None:
        return given or None
    if given:
        raise ValueError("two passwords")
    return _read(file, f"?{file_option}=").strip() or None


def _read(file: str, option: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise UsageError(f"cannot be read: {option}{file}: {reason}", hint="check its path, owner and mode") from error


def _check_no_user(url: str) -> None:
    """A slash too many makes a path of a password, which would be shown."""
    if "@" in url:
        raise ValueError("a user outside its place")


def _places(hosts: str, default_port: int) -> tuple[HostPort, ...]:
    places = []
    for host in hosts.split(",") if hosts else []:
        parts = urlsplit(f"//{host}")
        if not parts.hostname:
            raise ValueError("an empty host")
        places.append((parts.hostname, parts.port or default_port))
    return tuple(places)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("not a number")
    return int(text)


def _shards(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= MAX_SHARDS:
        raise ValueError("not a number of shards")
    return int(text)


def _wrong(scheme: str, kind: str) -> UsageError:
    # The address itself is not repeated: it may hold a password.
    return UsageError(
        f"not an address of a Redis: {scheme}://…",
        hint=f"it reads {_FORMS.get(kind, _FORMS[''])}",
    )
