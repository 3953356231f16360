"""Addresses of AMQP brokers: several hosts of one cluster, a virtual host, the credentials and the files of TLS."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

PORT = 5672
TLS_PORT = 5671
TLS_OPTIONS = ("ca", "client_cert", "client_key")
"""Options of a URL that name files."""
_TLS_SCHEME = "amqps"


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of one broker, and who connects to them."""

    hosts: tuple[tuple[str, int], ...]
    virtual_host: str = "/"
    user: str = "guest"
    password: str = "guest"  # noqa: S105  that of every new RabbitMQ, which takes it from its own machine only
    tls: bool = False
    ca: str | None = None
    """A file with the certificate authority to trust; None: those of the system."""
    cert: str | None = None
    key: str | None = None
    """Files with the client's certificate and its key, for a broker that asks for one."""


def locate(
    scheme: str, hosts: str, path: str, user: str, password: str | None, options: Mapping[str, str]
) -> Address | None:
    """The address that the parts of a URL name; None: they name none."""
    tls = scheme == _TLS_SCHEME
    found = [_host_port(host, TLS_PORT if tls else PORT) for host in hosts.split(",")]
    if not all(host and 0 < port < 65536 for host, port in found):
        return None
    return Address(
        hosts=tuple(found),
        virtual_host=path[1:] or "/",
        user=user or "guest",
        password=password or "guest",
        tls=tls,
        ca=options.get("ca"),
        cert=options.get("client_cert"),
        key=options.get("client_key"),
    )


def _host_port(text: str, default: int) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        return text.strip("[]"), default
    return host.strip("[]"), int(port or default)
