"""The HTTP server of a master: who may connect, which credentials count, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
from aiohttp import web

from skitter.app.alert_loading import store_alerts
from skitter.app.schedules import CheckCommand
from skitter.errors import SkitterError, UsageError
from skitter.frontier.http import wire
from skitter.model.job import Report
from skitter.observe import events
from skitter.server_url import is_loopback
from skitter.settings import Run
from skitter.web import frontier_routes
from skitter.web.access import HEADERS, Access, is_public, not_known
from skitter.web.api.route import respond_problem
from skitter.web.api.routes import ApiRoutes
from skitter.web.api.session import TooManyLoginsError
from skitter.web.connections import Connection
from skitter.web.credentials import TokenFile
from skitter.web.dashboard import add_dashboard_routes
from skitter.web.frontier_routes import FrontierRoutes, RefusedError
from skitter.web.metrics_routes import add_metrics_routes
from skitter.web.stores import Store, stores_of
from skitter.web.user_audit import UserAudit
from skitter.web.users import UserFile

DRAIN_SECONDS = 10.0
"""How long running calls have when the master ends. Clients send what was broken off again."""
HANDSHAKE_SECONDS = 10.0
REFUSALS_TOLD_SECONDS = 10.0
"""A client that is refused over and over is told of once in so long."""
STORES_PATH = "/stores"
"""The work API of each store is at ``/stores/NAME/v1``, that of the first one also at ``/v1``."""
log = logging.getLogger("skitter.web")


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What ``skitter serve`` was told."""

    frontiers: tuple[str, ...] = ()
    """URLs, or NAME=URL; none: the folder .skitter."""
    host: str = "127.0.0.1"
    port: int = 8601
    token_file: str = ""
    users: str = ""
    trusted_proxies: tuple[str, ...] = ()
    tls_cert: str = ""
    tls_key: str = ""
    client_ca: str = ""
    allow: frozenset[str] = frozenset()
    """The capabilities of clients that are not the owner."""
    run: Run = Run()
    """Its ``alerts`` are watched for all jobs of the stores."""


class MasterServer:
    """Serves stores until it is stopped."""

    def __init__(
        self,
        config: ServerConfig,
        stores: Sequence[Store] | None = None,
        *,
        check_command: CheckCommand | None = None,
    ) -> None:
        """``stores``: for tests, in place of those of the URLs. ``check_command``: for schedules that users add."""
        _check(config)
        self._config = config
        self._ssl = _ssl_context(config)
        self.access = Access(
            TokenFile(Path(config.token_file)) if config.token_file else None,
            UserFile(Path(config.users)) if config.users else None,
            config.trusted_proxies,
            tls=self._ssl is not None,
        )
        self.stores = {store.name: store for store in (stores or stores_of(config.frontiers))}
        self._work = {name: FrontierRoutes(store, config.allow) for name, store in self.stores.items()}
        self._api = ApiRoutes(self.stores, self.access, self._seen_report, check_command, config.allow)
        self._refusals_told_at = -REFUSALS_TOLD_SECONDS
        self.app = web.Application(client_max_size=wire.MAX_BODY_BYTES, middlewares=[self._guard])
        self.app.on_response_prepare.append(_add_headers)
        self.app.router.add_get("/healthz", _healthy)
        for place, (name, routes) in enumerate(self._work.items()):
            routes.add_to(self.app, f"{STORES_PATH}/{name}")
            if place == 0:
                routes.add_to(self.app)
        self._api.add_to(self.app)
        add_metrics_routes(self.app, list(self.stores.values()))
        add_dashboard_routes(self.app)
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
                f"cannot listen: {where}: {error.strerror or error}",
                hint="choose another address with --bind HOST:PORT",
            ) from error
        self.port = server.sockets[0].getsockname()[1]
        if self._ssl is None and not is_loopback(self._config.host):
            events.emit(events.MASTER_OPEN(url=self.url))
        shown = ", ".join(store.shown for store in self.stores.values())
        events.emit(events.MASTER_STARTED(url=self.url, frontier=shown))
        try:
            async with contextlib.AsyncExitStack() as stack:
                for store in self.stores.values():
                    await stack.enter_async_context(store_alerts(store, self._config.run))
                if self.access.users is not None:
                    audit = UserAudit(self.access.users, Path(self._config.users), list(self.stores.values()))
                    await stack.enter_async_context(audit.recording())
                yield self
        finally:
            server.close()
            for routes in self._work.values():
                routes.wake_waiters()
            self._api.close_streams()
            # It waits for running calls; what still waits for a store that is unavailable is broken off.
            await runner.cleanup()
            for store in self.stores.values():
                await store.close()
            events.emit(events.MASTER_STOPPED(url=self.url))

    # ---- each request

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.came()
        if request.path == "/healthz":
            return await _healthy(request)
        try:
            self._admit(request)
            answer: web.StreamResponse = await handler(request)
        except RefusedError as error:
            self._tell_refusal(request, error)
            answer = await self._refusal(request, error)
        except web.HTTPException as error:
            refused = RefusedError(error.status, f"{error.reason}: {request.path}")
            allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
            answer = await self._refusal(request, refused, allowed)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  whatever a store raises is told to its client
            answer = await self._refusal(request, error)
        return answer

    def _admit(self, request: web.Request) -> None:
        """Find out who sends a request; RefusedError if it may not come any further."""
        self.access.check_place(request)
        credential = self.access.credential_of(request)
        if credential is not None:
            request[frontier_routes.CREDENTIAL] = credential
        elif not is_public(request.path):
            raise not_known()
        if _is_work(request.path):
            if credential is not None and credential.kind == "user":
                raise RefusedError(403, "workers and commands need a token", hint="give it --token-file FILE")
            _check_version(request)

    async def _refusal(
        self, request: web.Request, error: Exception, headers: dict[str, str] | None = None
    ) -> web.StreamResponse:
        if _is_work(request.path):
            return await frontier_routes.answer_error(request, error)
        if not isinstance(error, SkitterError):
            log.error("a request failed: %s: %s", request.path, type(error).__name__, exc_info=error)
        if isinstance(error, TooManyLoginsError):
            headers = {"Retry-After": str(math.ceil(error.wait_seconds))}
        return respond_problem(error, headers)

    def _seen_report(self, store: str, job: str, report: Report) -> Report:
        return self._work[store].seen_report(job, report)

    def _tell_refusal(self, request: web.Request, error: RefusedError) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._refusals_told_at >= REFUSALS_TOLD_SECONDS:
            self._refusals_told_at = now
            events.emit(events.MASTER_REFUSED(client=request.remote or "", status=error.status, reason=str(error)))


def _check_version(request: web.Request) -> None:
    if request.headers.get(wire.VERSION_HEADER) != wire.VERSION:
        raise RefusedError(
            426,
            f"another version of the wire format: this master uses {wire.VERSION}",
            hint="use the same version of skitter on both sides",
        )


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Protect every answer, also a stream, which is begun by its handler."""
    response.headers.update(HEADERS)


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _is_work(path: str) -> bool:
    """Whether a path is one of the work API."""
    return path.startswith((f"{wire.JOBS_PATH}/", f"{STORES_PATH}/")) or path in (wire.JOBS_PATH, wire.AUDIT_PATH)


def _check(config: ServerConfig) -> None:
    if not (config.token_file or config.users) and not is_loopback(config.host):
        raise UsageError(
            f"without credentials, a master can listen on this machine only: {config.host}",
            hint="use --token-file FILE or --users FILE, or omit --bind",
        )
    if config.trusted_proxies and not (config.token_file or config.users):
        raise UsageError(
            f"behind a proxy, a master needs credentials: --trusted-proxy {config.trusted_proxies[0]}",
            hint="give it --token-file FILE or --users FILE",
        )
    if bool(config.tls_cert) != bool(config.tls_key):
        raise UsageError("a certificate and its key must be given together", hint="give both --tls-cert and --tls-key")
    if config.client_ca and not (config.tls_cert and config.token_file):
        raise UsageError(
            "client certificates need TLS, and a role for each",
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
