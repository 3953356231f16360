"""Addresses of a Redis: what ``--frontier`` and a stream target may name, and how one is shown without its password."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from skitter.errors import UsageError

DEFAULT_PORT = 6379
SENTINEL_PORT = 26379
_TLS = "rediss"
MAX_SHARDS = 256
"""Each worker polls every shard about once a second."""
_FORMS = {
    "unix": "unix:///PATH[?db=N]",
    "sentinel": "redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…/MASTER[/DB]",
    "cluster": "redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…[?shards=N]",
    "": "redis://[USER:PASSWORD@]HOST[:PORT][/DB], or rediss://… for TLS (?ca=FILE for your own CA)",
}

HostPort = tuple[str, int]


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A Redis server, its sentinels or its cluster; the credentials; and how many replicas must confirm a write."""

    hosts: tuple[HostPort, ...] = ()
    """The server; or the sentinels, or some nodes of a cluster."""
    path: str = ""
    """The path of a socket file; then there are no hosts."""
    master: str = ""
    """The name that the sentinels have for the server."""
    cluster: bool = False
    db: int = 0
    username: str | None = None
    password: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = None
    """The credentials for the sentinels: they have users of their own, and often none."""
    tls: bool = False
    ca: str | None = None
    """A file with the certificate authority to trust; None: those of the system."""
    cert: str | None = None
    key: str | None = None
    """Files with the client's certificate and its key, for a server that asks for one."""
    wait_replicas: int = 0
    """How many replicas must have a write before it counts as done."""
    shards: int | None = None
    """The number of shards of a new job; None: not given, so the job lies on one server."""

    def __str__(self) -> str:
        """The address as messages show it, without credentials."""
        if self.path:
            return f"unix://{self.path}" + (f"?db={self.db}" if self.db else "")
        scheme = _TLS if self.tls else "redis"
        hosts = ",".join(map(format_host, self.hosts))
        if self.cluster:
            return f"{scheme}+cluster://{hosts}"
        if self.master:
            return f"{scheme}+sentinel://{hosts}/{self.master}" + (f"/{self.db}" if self.db else "")
        return f"{scheme}://{hosts}/{self.db}"


def format_host(host_port: HostPort) -> str:
    """``HOST:PORT``, with brackets around an IPv6 address."""
    host, port = host_port
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(url: str) -> Address:
    """The address of a frontier. UsageError, with a hint and without the password, for anything else."""
    scheme = url.partition("://")[0].lower()
    kind = scheme.partition("+")[2] or ("unix" if scheme == "unix" else "")
    try:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        credentials, _, hosts = parts.netloc.rpartition("@")
        if not credentials:
            _refuse_misplaced_user(url if kind != "unix" or ":" in parts.path else "")
        if kind == "unix":
            _check_socket_path(hosts, parts.path)
        address = locate(kind, hosts, parts.path, db=options.pop("db", "") if kind == "unix" else "")
        username, _, password = credentials.partition(":")
        address = msgspec.structs.replace(
            address,
            path=unquote(address.path),
            master=unquote(address.master),
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
        raise _not_an_address(scheme, kind) from error
    if options or parts.fragment:
        raise _not_an_address(scheme, kind)
    return address


def locate(kind: str, hosts: str, path: str, *, db: str = "") -> Address:
    """The address without credentials and options. ValueError for hosts, a path or a database that do not fit ``kind``.

    ``kind`` is what stands behind the ``+`` of the scheme, "unix" for a socket file, or empty for a single server.
    ``db`` is for a socket file only: all others have their database in the path.
    """
    if kind == "unix":
        return Address(path=path, db=_number(db or "0"))
    found = _parse_hosts(hosts, SENTINEL_PORT if kind == "sentinel" else DEFAULT_PORT)
    if not found:
        raise ValueError("no host")
    words = path.strip("/")
    if kind == "sentinel":
        master, _, number = words.partition("/")
        if not master:
            raise ValueError("no master")
        return Address(hosts=found, master=master, db=_number(number or "0"))
    if kind == "cluster":
        if words:
            raise ValueError("a cluster has only database 0")
        return Address(hosts=found, cluster=True)
    if len(found) > 1 or kind:
        raise ValueError("one host")
    return Address(hosts=found, db=_number(words or "0"))


def _with_tls(address: Address, options: dict[str, str]) -> Address:
    files = {name: options.pop(name, None) for name in ("ca", "cert", "key")}
    if (files["cert"] is None) != (files["key"] is None):
        raise ValueError("a certificate needs a key")
    for name, file in files.items():
        if file is not None:
            _read(file, f"?{name}=")
    return msgspec.structs.replace(address, tls=True, **files)


def _password(given: str, options: dict[str, str], file_option: str) -> str | None:
    """The password, given or from its file: a command line can be read by everybody on the machine."""
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


def _refuse_misplaced_user(url: str) -> None:
    """ValueError for an ``@`` outside the authority: a slash too many turns a password into a path, which is shown."""
    if "@" in url:
        raise ValueError("credentials must be before the host")


def _check_socket_path(hosts: str, path: str) -> None:
    if hosts or not path.strip("/"):
        raise ValueError("a socket file has a path and no host")


def _parse_hosts(hosts: str, default_port: int) -> tuple[HostPort, ...]:
    found = []
    for host in hosts.split(",") if hosts else []:
        parts = urlsplit(f"//{host}")
        if not parts.hostname:
            raise ValueError("an empty host")
        found.append((parts.hostname, parts.port or default_port))
    return tuple(found)


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


def _not_an_address(scheme: str, kind: str) -> UsageError:
    # The address itself is not repeated: it may hold a password.
    return UsageError(
        f"not the address of a Redis server: {scheme}://…",
        hint=f"the form is {_FORMS.get(kind, _FORMS[''])}",
    )
