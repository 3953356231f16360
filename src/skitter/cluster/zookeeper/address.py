"""The address of a ZooKeeper ensemble: a URL becomes hosts, root node, credentials and settings."""

from __future__ import annotations

import ssl
from urllib.parse import quote, unquote

import msgspec

from skitter.errors import UsageError
from skitter.server_url import split_url, wrong_url

PORT = 2181
DEFAULT_ROOT = "/skitter"
ACLS = ("creator", "readable", "open")
_KIND = "ZooKeeper URL"
_FORM = "zookeeper://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH"
_FILES = ("ca", "client_cert", "client_key")


class Ensemble(msgspec.Struct, frozen=True, kw_only=True):
    """The servers of one ensemble, and how to use them."""

    name: str
    """The URL as people see it, without secrets."""
    hosts: tuple[str, ...]
    """HOST:PORT of each."""
    root: str
    """Path of the node below which everything is."""
    session_seconds: float
    """The time of a session that the servers are asked for."""
    user: str = ""
    password: str = ""
    acl: str = "open"
    """Who may use the nodes that are made: ``creator`` (who has the same credentials), ``readable`` (others may read
    them), ``open`` (everybody)."""
    tls: ssl.SSLContext | None = None


def parse_ensemble(text: str, *, session_seconds: float) -> Ensemble:
    """Return what a URL names. Raises UsageError if it is none, or its files cannot be read."""
    url = split_url(text, _KIND)
    secured = url.scheme == "zookeeper+ssl://"
    if not secured and url.scheme != "zookeeper://":
        raise wrong_url(text, _KIND, _FORM)
    if url.fragment or not all(url.hosts.split(",")):
        raise wrong_url(text, _KIND, _FORM)
    options = dict(url.options)
    user, password = unquote(url.user), url.pop_password(options)
    session = _seconds(options.pop("session_seconds", None), session_seconds)
    acl = options.pop("acl", "creator" if user else "open")
    if acl not in ACLS:
        raise UsageError(f"unknown ACL: acl={acl}", hint=f"one of {', '.join(ACLS)}")
    files = {name: options.pop(name) for name in _FILES if name in options}
    if files and not secured:
        raise UsageError(f"this option needs TLS: {next(iter(files))}", hint="use the scheme zookeeper+ssl://")
    if options:
        known = ", ".join(("session_seconds", "acl", "password_file", *_FILES))
        raise UsageError(f"unknown option of a {_KIND}: {next(iter(options))}", hint=f"known options: {known}")
    return Ensemble(
        name=url.named(url.options),
        hosts=tuple(host if ":" in host.rpartition("]")[2] else f"{host}:{PORT}" for host in url.hosts.split(",")),
        root="/" + "/".join(quoted(unquote(part)) for part in url.path.split("/") if part)
        if url.path.strip("/")
        else DEFAULT_ROOT,
        session_seconds=session,
        user=user,
        password=password,
        acl=acl,
        tls=tls_context(**files) if secured else None,
    )


def quoted(name: str) -> str:
    """Return a name as that of a node: no slash, no control character, neither ``.`` nor ``..``."""
    text = quote(name, safe=" !$&'()*+,:;=@", errors="surrogatepass")
    return text.replace(".", "%2E") if text in {".", ".."} else text


def unquoted(node: str) -> str:
    """Return the name that ``quoted`` was given."""
    return unquote(node, errors="surrogatepass")


def _seconds(text: str | None, default: float) -> float:
    try:
        seconds = default if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3_600:
        raise UsageError(f"invalid session time: session_seconds={text}", hint="give seconds, at most an hour")
    return seconds


def tls_context(ca: str | None = None, client_cert: str | None = None, client_key: str | None = None) -> ssl.SSLContext:
    """Return a context that checks certificates and host names. Raises UsageError if a file cannot be used."""
    if (client_cert is None) != (client_key is None):
        raise UsageError("a certificate needs a key: client_cert", hint="give both ?client_cert= and &client_key=")
    try:
        context = ssl.create_default_context(cafile=ca)
        if client_cert is not None:
            context.load_cert_chain(client_cert, client_key)
    except OSError as error:
        files = ", ".join(file for file in (ca, client_cert, client_key) if file)
        raise UsageError(
            f"cannot be read: {files}: {error.strerror or error}", hint="PEM files are expected"
        ) from error
    return context
