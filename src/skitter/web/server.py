"""The HTTP server of a master: who may connect, which credentials count, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import msgspec
from aiohttp import web

from skitter.app.alert_loading import store_alerts
from skitter.app.frontiers import is_shared
from skitter.errors import UsageError
from skitter.frontier.http import wire
from skitter.model.secrets import shown_frontier
from skitter.observe import events
from skitter.settings import Run
from skitter.web import frontier_routes
from skitter.web.connections import Connection
from skitter.web.credentials import EVERYBODY, Credential, TokenFile
from skitter.web.frontier_routes import FrontierRoutes, RefusedError, jobs_of_store
from skitter.web.metrics_routes import READY_PATH, add_metrics_routes

DRAIN_SECONDS = 10.0
"""How long running calls have when the master ends. Clients send what was broken off again."""
HANDSHAKE_SECONDS = 10.0
REFUSALS_TOLD_SECONDS = 10.0
"""A client that is refused over and over is told of once in so long."""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What ``skitter serve`` was told."""

    frontier: str
    host: str = "127.0.0.1"
    port: int = 8601
    token_file: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    client_ca: str = ""
    run: Run = Run()
    """Its ``alerts`` are watched for all jobs of the store."""


class MasterServer:
    """Serves one store until it is stopped."""

    def __init__(self, config: ServerConfig, routes: FrontierRoutes | None = None) -> None:
        """``routes``: for tests, in place of those of the frontier's URL."""
        _check(config)
        self._config = config
        self._ssl = _ssl_context(config)
        self._tokens = TokenFile(Path(config.token_file)) if config.token_file else None
        self._routes = routes or FrontierRoutes(config.frontier)
        self._refusals_told_at = -REFUSALS_TOLD_SECONDS
        self.app = web.Application(client_max_size=wire.MAX_BODY_BYTES, middlewares=[self._guard])
        self.app.router.add_get("/healthz", _healthy)
        self._ready = add_metrics_routes(self.app, self._routes)
        self._routes.add_to(self.app)
        self._stopped = asyncio.Event()
        self.port = config.port

    @property
    def url(self) -> str:
        """Where it listens."""
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        return f"{'https' if self._ssl else 'http'}://{host}:{self.port}"

    def stop(self) -> None:
        """Finish running calls and end."""
        self._stopped.set()

    async def run(self) -> None:
        """Listen until ``stop``."""
        async with self.listening():
            await self._stopped.wait()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        """Listen while the body of this lasts."""
        runner = web.AppRunner(self.app, shutdown_timeout=DRAIN_SECONDS)
        await runner.setup()
        assert runner.server is not None, "it is made by setup"
        manager, loop = runner.server, asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                lambda: Connection(manager, loop),
                *(self._config.host, self.port),
                backlog=1024,
                ssl=self._ssl,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self._ssl else None,
            )
        except OSError as error:
            await runner.cleanup()
            where = f"{self._config.host}:{self.port}"
            raise UsageError(
                f"cannot listen: {where}: {error.strerror or error}", hint="name another address with --bind HOST:PORT"
            ) from error
        self.port = server.sockets[0].getsockname()[1]
        if self._ssl is None and not is_loopback(self._config.host):
            events.emit(events.MASTER_OPEN(url=self.url))
        events.emit(events.MASTER_STARTED(url=self.url, frontier=shown_frontier(self._config.frontier)))
        try:
            async with store_alerts(self._config.frontier, self._config.run):
                yield self
        finally:
            server.close()
            self._routes.wake_waiters()
            # It waits for running calls; what still waits for a store that is away is broken off.
            await runner.cleanup()
            await self._routes.close()
            events.emit(events.MASTER_STOPPED(url=self.url))

    # ---- each request

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.came()
        try:
            if request.path == "/healthz":
                return await _healthy(request)
            if request.path == READY_PATH:
                return await self._ready.answer(request)
            request[frontier_routes.CREDENTIAL] = self._identified(request)
            if request.path.startswith(wire.JOBS_PATH):
                _check_version(request)
            answer: web.StreamResponse = await handler(request)
        except RefusedError as error:
            self._tell_refusal(request, error)
            return await frontier_routes.answer_error(request, error)
        except web.HTTPException as error:
            return await frontier_routes.answer_error(
                request, RefusedError(error.status, f"{error.reason}: {request.path}")
            )
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  whatever a store raises is told to its client
            return await frontier_routes.answer_error(request, error)
        return answer

    def _identified(self, request: web.Request) -> Credential:
        if self._tokens is None:
            return EVERYBODY
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        credential = None
        if scheme.lower() == "bearer":
            credential = self._tokens.of_token(token.strip())
        elif request.transport is not None and (certificate := request.transport.get_extra_info("peercert")):
            credential = self._tokens.of_certificate(certificate)
        if credential is None:
            raise RefusedError(
                401,
                "the master knows no such credential" if scheme else "the master asks for a credential",
                hint="set SKITTER_TOKEN, or name a file with the token: https://HOST:PORT?token_file=FILE",
            )
        return credential

    def _tell_refusal(self, request: web.Request, error: RefusedError) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._refusals_told_at >= REFUSALS_TOLD_SECONDS:
            self._refusals_told_at = now
            events.emit(events.MASTER_REFUSED(client=request.remote or "", status=error.status, reason=str(error)))


def _check_version(request: web.Request) -> None:
    if request.headers.get(wire.VERSION_HEADER) != wire.VERSION:
        raise RefusedError(
            426,
            f"another version of the wire format: this master speaks {wire.VERSION}",
            hint="use the same version of skitter on both sides",
        )


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def is_loopback(host: str) -> bool:
    """Whether an address reaches this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check(config: ServerConfig) -> None:
    if not config.token_file and not is_loopback(config.host):
        raise UsageError(
            f"without credentials a master listens on this machine only: {config.host}",
            hint="give it --token-file FILE, or leave --bind away",
        )
    if bool(config.tls_cert) != bool(config.tls_key):
        raise UsageError("a certificate without its key, or a key alone", hint="give both --tls-cert and --tls-key")
    if config.client_ca and not (config.tls_cert and config.token_file):
        raise UsageError(
            "certificates of clients need TLS, and lines that say what each may do",
            hint="give --tls-cert, --tls-key and --token-file with lines ROLE cert:NAME [JOB...]",
        )


def _ssl_context(config: ServerConfig) -> ssl.SSLContext | None:
    if not config.tls_cert:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
        if config.client_ca:
            context.load_verify_locations(config.client_ca)
            # A client without one may have a token.
            context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the certificates cannot be used: {error}", hint="check --tls-cert, --tls-key and --client-ca"
        ) from error
    return context


async def check_store(frontier: str) -> None:
    """Raise FrontierError if the store cannot be used, before anybody relies on it."""
    if not is_shared(frontier):
        raise UsageError(
            f"lives inside one process only: {shown_frontier(frontier)}", hint="serve sqlite:PATH or redis://HOST"
        )
    await jobs_of_store(frontier)
