"""A client of one Redis for an event loop: connections, redirections, and replicas that confirm.

One round trip per call. Commands are packed by hiredis: the driver's own packing costs more than the rest of a
client's work.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from typing import Any

import hiredis
import msgspec
from redis import exceptions
from redis.asyncio.connection import AbstractConnection

from skitter.redis_driver import connections, server_checks
from skitter.redis_driver.address import Address, HostPort
from skitter.redis_driver.connections import connection_to
from skitter.redis_driver.errors import CheckFailedError, NodesFailedError, is_reply, reply_code
from skitter.redis_driver.topology import route_to

MAX_REDIRECTS = 5
"""The most redirections of one command from node to node of a cluster."""
REPLICAS_MILLISECONDS = 1000
"""How long one WAIT waits before it is reported that replicas do not keep up. Then it is sent again."""
SILENT_SECONDS = 2.0
"""After a silence of so long, the sentinels or other nodes are asked whether the master has a successor."""
FAILED = (
    *(exceptions.ReadOnlyError, exceptions.ClusterDownError),
    *(exceptions.ConnectionError, exceptions.TimeoutError, OSError),
)
"""Errors of a host in whose place another one may do."""
DRIVER_ERRORS = (exceptions.RedisError, OSError, hiredis.HiredisError)
"""What calls may raise: the callers make errors of their own of them."""


class _Link(msgspec.Struct):
    """A connection, and the host that it leads to."""

    connection: AbstractConnection
    host: HostPort
    used_at: float = 0.0


class RedisClient:
    """A Redis, at whichever host it is now. Calls may run side by side: each has a connection to itself meanwhile."""

    def __init__(self, address: Address, failed_at: dict[HostPort, float] | None = None) -> None:
        """``failed_at``: when hosts failed, shared by clients of one Redis. Each learns from the others which of its
        idle connections are worth nothing, and does not find it out by a time-out of its own."""
        self.address = address
        self.life = ""
        """The run id of the server that was last connected to: one with another may lack the newest writes."""
        self._failed_at: dict[HostPort, float] = {} if failed_at is None else failed_at
        self._route = route_to(address, self._failed_at)
        self._free: list[_Link] = []
        wait: tuple[Any, ...] = ("WAIT", address.wait_replicas, REPLICAS_MILLISECONDS)
        self._wait: bytes = hiredis.pack_command(wait) if address.wait_replicas else b""

    async def send(self, words: Sequence[Any], *, confirm: bool = False, resend: bool = True) -> Any:
        """Send one command and return its answer.

        ``confirm``: where the address asks for replicas, wait until they have what it wrote. ``resend``: if an idle
        connection turns out to be cut, send it once more, though the server may have run it.
        """
        return await self._send(pack(words), self._wait if confirm else b"", resend=resend)

    async def run_script(
        self, source: bytes, sha: str, keys: Sequence[str], arguments: Sequence[Any], *, resend: bool = True
    ) -> Any:
        """Run a script by its hash; its source is sent when the server does not have it."""
        words = (len(keys), *keys, *arguments)
        try:
            return await self.send(("EVALSHA", sha, *words), confirm=True, resend=resend)
        except exceptions.NoScriptError:
            return await self.send(("EVAL", source, *words), confirm=True, resend=resend)

    async def close(self) -> None:
        while self._free:
            # TLS says goodbye, which takes a moment: a loop that ended before would leave the socket open.
            await self._free.pop().connection.disconnect(nowait=not self.address.tls)

    # ---- one command and its answer

    async def _send(self, packed: bytes, wait: bytes, *, resend: bool = True) -> Any:
        failures: dict[HostPort, Exception] = {}
        redirects = 0
        while True:
            link = await self._idle_link()
            is_new = link is None
            link = link or await self._open_link(failures)
            try:
                answer = await self._send_over(link, packed, wait)
            except exceptions.MovedError as error:
                await self._drop(link)
                redirects += 1
                if not self.address.cluster:
                    raise
                if redirects > MAX_REDIRECTS:
                    # Nodes that do not agree yet who has the keys: in the middle of a failover.
                    raise exceptions.TryAgainError("moved too often") from error
                # A node that does not know its own name redirects with an empty one: it is the host that was asked.
                self._route.moved((error.host or link.host[0], error.port))
            except FAILED as error:
                # The master may be another one by now, and another node may know.
                await self._drop(link)
                if not resend or isinstance(error, exceptions.TimeoutError | TimeoutError):
                    raise
                # A connection that was idle may be cut: not worth reporting if a new one can be made at once.
                if is_new:
                    failures[link.host] = error
            except exceptions.ResponseError:
                self._keep(link)
                raise
            except BaseException:
                # Also when cancelled: the answer of this call must not become that of the next.
                await link.connection.disconnect(nowait=True)
                raise
            else:
                self._keep(link)
                return answer

    async def _send_over(self, link: _Link, packed: bytes, wait: bytes) -> Any:
        async with asyncio.timeout(connections.ANSWER_SECONDS):
            await link.connection.send_packed_command(packed + wait)
        try:
            answer = await self._read(link)
        except exceptions.ResponseError:
            if wait:
                # The answer to WAIT is still on its way, and nobody reads it.
                await link.connection.disconnect(nowait=True)
            raise
        if wait:
            await self._wait_for_replicas(link)
        return answer

    async def _read(self, link: _Link) -> Any:
        """Read an answer. While there is none, ask every now and then whether the master has a successor."""
        deadline = time.monotonic() + connections.ANSWER_SECONDS
        while True:
            try:
                async with asyncio.timeout(min(SILENT_SECONDS, connections.ANSWER_SECONDS)):
                    return await link.connection.read_response(disconnect_on_error=False)
            except TimeoutError:
                if time.monotonic() >= deadline:
                    self._failed_at[link.host] = time.monotonic()
                    raise
            await self._leave_replaced(link)

    async def _wait_for_replicas(self, link: _Link) -> None:
        """Read the answer to WAIT, and send WAIT again until enough replicas have the write.

        The write has happened, so it is not sent again. WAIT counts from the last write of its own connection. If that
        breaks, or the master turns out to be replaced, the call as a whole is made again, as after any answer that was
        lost: leases are fenced and adds have an identity, so that changes nothing twice.
        """
        wanted = self.address.wait_replicas
        while True:
            try:
                replicas: int = await self._read(link)
            except exceptions.NoPermissionError:
                await link.connection.disconnect(nowait=True)
                raise
            except exceptions.ResponseError as error:
                raise exceptions.ConnectionError("it is no longer a master") from error
            if replicas >= wanted:
                return
            await self._leave_replaced(link)
            self._few_replicas(replicas)
            await link.connection.send_packed_command(self._wait)

    async def _leave_replaced(self, link: _Link) -> None:
        if await self._route.is_replaced(link.host):
            self._failed_at[link.host] = time.monotonic()
            raise exceptions.ConnectionError("another server has become the master")

    def _few_replicas(self, replicas: int) -> None:
        """Raise because too few replicas have a write; an override may return, and WAIT is sent again."""
        raise CheckFailedError("FEWREPLICAS", f"{replicas} of {self.address.wait_replicas}")

    # ---- connections

    async def _idle_link(self) -> _Link | None:
        """An idle connection, unless its host has failed since it was used."""
        while self._free:
            link = self._free.pop()
            if self._failed_at.get(link.host, 0.0) < link.used_at:
                return link
            self._route.failed(link.host)
            await link.connection.disconnect(nowait=True)
        return None

    def _keep(self, link: _Link) -> None:
        if link.connection.is_connected:
            link.used_at = time.monotonic()
            self._free.append(link)

    async def _open_link(self, failures: dict[HostPort, Exception]) -> _Link:
        """Connect to the present host, or to the next one that answers. ``failures``: the hosts that were tried."""
        while True:
            host = await self._route.host(failures)
            if host in failures:
                raise self._no_node(failures)
            connection = connection_to(self.address, host)
            limits = connections.ANSWER_SECONDS, connections.HANDSHAKE_SECONDS
            try:
                await self._identify(connection, host, limits[self._route.others({*failures, host})])
            except (*FAILED, CheckFailedError) as error:
                self._route.failed(host)
                if isinstance(error, exceptions.AuthenticationError) or reply_code(error) in ("ISSENTINEL", "TOOOLD"):
                    raise
                failures[host] = error
                if not reply_code(error):
                    self._failed_at[host] = time.monotonic()
            else:
                return _Link(connection, host)

    def _no_node(self, failures: dict[HostPort, Exception]) -> Exception:
        """The error that says why no host could be used."""
        if not self.address.cluster and not self.address.master:
            return next(iter(failures.values()))
        any_answered = self._route.others(failures) or any(map(is_reply, failures.values()))
        return NodesFailedError(failures, any_answered=any_answered)

    async def _identify(self, connection: AbstractConnection, host: HostPort, seconds: float) -> None:
        """Open a connection and note which server answers."""
        try:
            async with asyncio.timeout(seconds):
                server = await server_checks.handshake(connection, cluster=self.address.cluster)
        except exceptions.NoPermissionError:
            # Then each connection may be to another one.
            server = server_checks.ServerIdentity(life=secrets.token_hex(8))
        except BaseException:
            # Also after a refusal: it must not be taken for a connection whose server is known.
            await connection.disconnect(nowait=True)
            raise
        self.life = server.life
        self._route.learn(host, server)

    async def _drop(self, link: _Link) -> None:
        """Close a connection, and the idle ones to the same host: the keys or the server are no longer there."""
        self._route.failed(link.host)
        left = [link, *(other for other in self._free if other.host == link.host)]
        self._free = [other for other in self._free if other.host != link.host]
        for other in left:
            await other.connection.disconnect(nowait=True)


def pack(words: Sequence[Any]) -> bytes:
    """A command as it goes over the connection."""
    packed: bytes = hiredis.pack_command(tuple(words))
    return packed
