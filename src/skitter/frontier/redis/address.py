"""Addresses of a Redis: what ``--frontier`` may say, and how it is shown without its password."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from skitter.errors import UsageError

SCHEMES = ("redis", "rediss", "unix")
LATER = ("redis+cluster", "redis+sentinel")
"""Known, and refused by name until they keep every promise."""
DEFAULT_PORT = 6379
_FORMS = "redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss://… for TLS (?ca=FILE for an own CA), or unix:///PATH[?db=N]"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where one Redis is."""

    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    """Of a socket file; then host and port mean nothing."""
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False
    ca: str | None = None
    """A file with the certificate authority to believe; None: those of the system."""

    def __str__(self) -> str:
        """For messages: never the password."""
        if self.path:
            return f"unix://{self.path}" + (f"?db={self.db}" if self.db else "")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.db}"


def parse_address(url: str) -> Address:
    """UsageError, with a hint and without the password, for what is no address."""
    scheme = url.partition("://")[0].lower()
    if scheme in LATER:
        raise UsageError(f"not supported yet: {scheme}://", hint="give the address of one server: redis://HOST:PORT")
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
        options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        db = int(options.pop("db", "0")) if scheme == "unix" else int(parts.path.strip("/") or "0")
    except ValueError as error:
        raise _wrong(scheme) from error
    ca = options.pop("ca", None) if scheme == "rediss" else None
    if options or db < 0 or scheme not in SCHEMES or parts.fragment:
        raise _wrong(scheme)
    username = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    if scheme == "unix":
        if not parts.path.strip("/"):
            raise _wrong(scheme)
        return Address(path=unquote(parts.path), db=db, username=username, password=password)
    if not parts.hostname:
        raise _wrong(scheme)
    tls = scheme == "rediss"
    return Address(host=parts.hostname, port=port, db=db, username=username, password=password, tls=tls, ca=ca)


def _wrong(scheme: str) -> UsageError:
    # The address itself is not repeated: it may hold a password.
    return UsageError(f"not an address of a Redis: {scheme}://…", hint=_FORMS)
