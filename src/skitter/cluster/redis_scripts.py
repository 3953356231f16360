"""The Redis of a coordinator: its address, its scripts, and the driver's errors in words."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from redis import exceptions

from skitter.errors import ClusterError, ClusterUnavailableError, UsageError
from skitter.redis_driver import server_checks
from skitter.redis_driver.address import Address, parse_address
from skitter.redis_driver.client import DRIVER_ERRORS, RedisClient
from skitter.redis_driver.errors import TROUBLES, WRONG_TYPE, Remedy, connection_trouble, is_reply, reply_code

NAMESPACE = "default"
_GROUP_SCRIPTS = ("join", "leave", "present")


class RedisScripts:
    """One Redis, and the scripts of a coordinator there. Each is one atomic step."""

    def __init__(self, address: Address, namespace: str) -> None:
        self.address = address
        # One hash tag: a Redis Cluster keeps everything of a coordinator on one node.
        self._prefix = f"skitter:cluster:{{{namespace}}}:"
        self._client = RedisClient(address)

    async def run(self, name: str, *arguments: Any, resend: bool = True) -> Any:
        """Run a script."""
        with self.errors():
            return await self._client.run_script(*_script(name), [self._prefix], arguments, resend=resend)

    async def run_once(self, name: str, *arguments: Any) -> Any:
        """Run a script that must not be run twice, on a connection that is known to be alive."""
        await self.command("PING")
        return await self.run(name, *arguments, resend=False)

    async def lock_owner(self, name: str) -> bytes | None:
        """The owner of a lock here; None: it is free."""
        owner: bytes | None = await self.command("HGET", f"{self._prefix}lock:{name}", "owner")
        return owner

    async def command(self, *words: Any) -> Any:
        """Send one command."""
        with self.errors():
            return await self._client.send(words)

    async def ping(self) -> None:
        """Read the counter: unlike PING, this fails while the server loads or its cluster is down."""
        await self.command("GET", f"{self._prefix}counter")

    async def check(self) -> None:
        """Refuse a server that may throw away a lock when its memory is full."""
        try:
            reply = await self.command("INFO", "memory")
        except ClusterError as error:
            if isinstance(error.__cause__, exceptions.NoPermissionError):
                return
            raise
        info = server_checks.parse_info(reply)
        policy = info.get("maxmemory_policy", "noeviction")
        if info.get("maxmemory", "0") != "0" and policy != "noeviction":
            raise ClusterError(
                f"the Redis at {self.address} evicts keys when its memory is full: maxmemory-policy {policy}",
                hint="run CONFIG SET maxmemory-policy noeviction there; a lock could vanish while it is held",
            )

    async def parameter(self, name: str) -> str:
        """A parameter of the server; empty where CONFIG is forbidden."""
        try:
            answer = await self.command("CONFIG", "GET", name)
        except ClusterError as error:
            if isinstance(error.__cause__, exceptions.ResponseError):
                return ""
            raise
        return answer[1].decode() if answer else ""

    async def close(self) -> None:
        await self._client.close()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert errors of the driver."""
        try:
            yield
        except DRIVER_ERRORS as error:
            where, code = str(self.address), reply_code(error)
            if code in TROUBLES:
                trouble = TROUBLES[code]
                kind = ClusterError if trouble.remedy is Remedy.CHANGE else ClusterUnavailableError
                raise kind(f"the Redis at {where} {trouble.text}", hint=trouble.hint) from error
            if code == WRONG_TYPE or is_reply(error):
                raise ClusterError(f"Redis says: {error}: {where}", hint="give another ?namespace=NAME") from error
            reason, hint = connection_trouble(error, tls=self.address.tls)
            raise ClusterUnavailableError(f"the Redis cannot be reached: {where}: {reason}", hint=hint) from error


def split_namespace(url: str) -> tuple[str, str]:
    """Return a URL without its option ``namespace``, and the namespace."""
    # Not by urlsplit: it would write unix:///PATH with one slash.
    place, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    namespace = next((value for name, value in options if name == "namespace"), NAMESPACE)
    if not namespace or not namespace.isprintable() or set(namespace) & set("{}"):
        raise UsageError(f"invalid namespace: {namespace!r}", hint="give a name without { and }: ?namespace=NAME")
    if "namespace" not in dict(options):
        return url, namespace
    rest = urlencode([option for option in options if option[0] != "namespace"], safe=",/:", quote_via=quote)
    return f"{place}{rest and '?' + rest}", namespace


def redis_scripts(url: str) -> RedisScripts:
    """The Redis of a URL with an optional namespace."""
    address, namespace = split_namespace(url)
    parsed = parse_address(address)
    if parsed.shards is not None:
        raise UsageError("a coordinator does not support shards: ?shards=", hint="omit it: one node stores everything")
    return RedisScripts(parsed, namespace)


@cache
def _script(name: str) -> tuple[bytes, str]:
    parts = ("shared", "groups", name) if name in _GROUP_SCRIPTS else ("shared", name)
    folder = Path(__file__).with_name("lua")
    source = "".join(folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts).encode()
    return source, hashlib.sha1(source, usedforsecurity=False).hexdigest()
