"""The node of ``skitter egress``: a proxy of a job's pool, on a machine whose address changes.

One turn: listen, find out the address, be in the pool, leave it when the time is over or a host has banned the address,
redial. Each turn has a password of its own, and so is another proxy to the pool: what is remembered of an address is
not held against the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import msgspec

from skitter.app.crawl_node import opened
from skitter.app.node_metrics import served_metrics
from skitter.app.views.metrics import build_info
from skitter.cluster.process_identity import resident_bytes, worker_id
from skitter.delivery.job_sinks import OnEvent
from skitter.egress.pool_member import PoolMember
from skitter.egress.proxy_server import ProxyServer
from skitter.egress.redial import address_in, redial
from skitter.errors import BackendError, FetchError, JobError
from skitter.fetch.contract import FetchRequest
from skitter.model.url import host_name, port
from skitter.node.node import Node
from skitter.observe import events, metrics
from skitter.observe.metrics import EGRESS_METRICS, Sample
from skitter.settings import Fetch, Run
from skitter.stop_request import StopRequest

POLL_SECONDS = 1.0
TEST_TRIES = 5
TEST_SECONDS = 10.0
"""For one of them; a line that was dialled a moment ago may need a few."""
USER = "egress"
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104  what they mean


class EgressConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What one egress does."""

    frontier: str
    job: str
    host: str = ""
    """Where it listens; empty: everywhere."""
    port: int = 0
    proxy: str = ""
    """A proxy that runs already, in the place of its own."""
    advertise: str = ""
    """HOST or HOST:PORT by which workers reach it; empty: the address that it finds out."""
    source: str = ""
    """The address that requests go out from, until a redial prints another; empty: as routes say."""
    address_url: str = ""
    """Answers with the address that it is asked from, and so tests each new one; empty: neither."""
    redial: str = ""
    redial_seconds: float = 120.0
    every_seconds: float | None = None
    at_least_seconds: float = 60.0
    drain_seconds: float = 30.0
    lifetime_seconds: float = 30.0
    allow_private: bool = False
    run: Run = Run()
    """Of its settings, those of metrics count."""

    def __repr__(self) -> str:
        return f"EgressConfig({self.job})"


def make_egress_node(config: EgressConfig, on_event: OnEvent) -> Node[None]:
    """A node that is a proxy of a job until it is stopped. It waits for a job that is not there yet."""

    async def work(stop: StopRequest) -> None:
        stopped = asyncio.Event()
        task = asyncio.current_task()
        assert task is not None
        async with opened(config.frontier, config.job, create=True) as store:
            # A store that cannot be used is an error at the start, and waited for later.
            with contextlib.suppress(JobError):
                await store.job()
            member = PoolMember(store, owner=worker_id(), lifetime_seconds=config.lifetime_seconds, on_event=on_event)
            stop.set_handlers(stopped.set, task.cancel)
            egress = _Egress(config, member, stopped, on_event)
            async with served_metrics(config.run, egress.samples, EGRESS_METRICS, on_event):
                await egress.run()

    return Node(work)


class _Egress:
    """One run of an egress."""

    def __init__(self, config: EgressConfig, member: PoolMember, stopped: asyncio.Event, on_event: OnEvent) -> None:
        self._config = config
        self._member = member
        self._stopped = stopped
        self._on_event = on_event
        url = config.address_url
        trusted = [(host_name(url).strip("[]"), port(url))] if url else []
        self._server = ProxyServer(allow_private=config.allow_private, trusted=trusted)
        self._source = config.source
        self._address = ""
        self._redialed_at = -config.at_least_seconds
        self._redials = self._failed_redials = 0
        self._is_registered = False
        self._started_at = time.time()

    def samples(self) -> Iterator[Sample]:
        """Give out all series of this egress."""
        yield build_info()
        yield Sample(metrics.EGRESS_STARTED, (), self._started_at)
        yield Sample(metrics.EGRESS_MEMORY, (), resident_bytes())
        yield Sample(metrics.EGRESS_REGISTERED, (), int(self._is_registered))
        yield Sample(metrics.EGRESS_CONNECTIONS, (), self._server.connections)
        yield Sample(metrics.EGRESS_REQUESTS, (), self._server.requests)
        yield Sample(metrics.EGRESS_REDIALS, ("done",), self._redials - self._failed_redials)
        yield Sample(metrics.EGRESS_REDIALS, ("failed",), self._failed_redials)

    async def run(self) -> None:
        reason = ""
        try:
            while not self._stopped.is_set():
                reason = await self._turn(reason)
                await self._server.close()
                if not self._stopped.is_set():
                    await self._dial()
        finally:
            await self._server.close()
        self._on_event(events.EGRESS_STOPPED(requests=self._server.requests, redials=self._redials))

    async def _turn(self, reason: str) -> str:
        """Be in the pool until it is time to leave it; return why. ``reason``: of the turn before."""
        try:
            own_url, own_port = await self._open()
            address = await self._tested(own_url)
        except _NotUsableError as error:
            self._on_event(events.EGRESS_NOT_USABLE(error=str(error)))
            return reason
        if reason == "banned" and address and address == self._address:
            self._on_event(events.EGRESS_NOT_USABLE(error=f"the address is the same as before: {address}"))
            return reason
        self._address = address
        await self._member.register(registered_url(self._config, own_url, own_port, address), address)
        self._is_registered = True
        reason = await self._until_over()
        await self._member.leave(self._config.drain_seconds, reason)
        self._is_registered = False
        return reason

    async def _open(self) -> tuple[str, int]:
        """Return the URL by which this process reaches the proxy, and its port."""
        config = self._config
        if config.proxy:
            return config.proxy, 0
        password = secrets.token_urlsafe(24)
        try:
            own_port = await self._server.open(
                config.host or "0.0.0.0",  # noqa: S104  workers are elsewhere, and the password is random
                config.port,
                user=USER,
                password=password,
                source=self._source,
            )
        except OSError as error:
            message = f"cannot listen: {config.host}:{config.port}: {error.strerror or error}"
            if self._redials:
                raise _NotUsableError(message) from error
            raise BackendError(
                message, hint="choose another --listen, or stop the program that listens there"
            ) from error
        return _url(password, "127.0.0.1" if config.host in _EVERYWHERE else config.host, own_port), own_port

    async def _tested(self, own_url: str) -> str:
        """Return the address that requests go out from, as far as it is known."""
        url = self._config.address_url
        if not url:
            return self._source
        # Its libcurl is needed for nothing else here.
        from skitter.fetch.engine import CurlFetcher

        error = ""
        for number in range(TEST_TRIES):
            if number and await self._stops_within(POLL_SECONDS):
                break
            fetcher = CurlFetcher(Fetch(allow_private=True, cookies=False), proxy=own_url)
            try:
                page = await fetcher.fetch(FetchRequest(url=url, trusted=True, timeout_seconds=TEST_SECONDS))
                if page.status == 200 and (address := address_in(page.body[:100].decode("latin-1"))):
                    return address
                error = f"{url} answers {page.status} without an address"
            except FetchError as failure:
                error = str(failure)
            finally:
                await fetcher.close()
        raise _NotUsableError(error)

    async def _until_over(self) -> str:
        config, began = self._config, time.monotonic()
        while True:
            seen = await self._member.look()
            now = time.monotonic()
            if config.redial and config.every_seconds and now - began >= config.every_seconds:
                return "time"
            is_banned = seen is not None and (seen.banned_seconds > 0 or bool(seen.banned_hosts))
            if config.redial and is_banned and now - self._redialed_at >= config.at_least_seconds:
                return "banned"
            if await self._stops_within(POLL_SECONDS):
                return "stop"

    async def _dial(self) -> None:
        """Run the redial command, not more often than it may be; again and again, until it succeeds."""
        config = self._config
        while True:
            pause = self._redialed_at + config.at_least_seconds - time.monotonic()
            if (pause > 0 and await self._stops_within(pause)) or self._stopped.is_set() or not config.redial:
                return
            self._redialed_at = began = time.monotonic()
            result = await redial(config.redial, config.redial_seconds)
            self._redials += 1
            if not result.error:
                self._source = result.address or self._source
                self._on_event(events.EGRESS_REDIALED(seconds=round(time.monotonic() - began, 2)))
                return
            self._failed_redials += 1
            self._on_event(events.EGRESS_REDIAL_FAILED(error=result.error))

    async def _stops_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        return self._stopped.is_set()


class _NotUsableError(Exception):
    """The proxy cannot be used as it is: another redial may change that."""


def registered_url(config: EgressConfig, own_url: str, own_port: int, address: str) -> str:
    """Return the URL by which workers reach the proxy. ``address``: from which requests go out, as far as known."""
    if config.proxy:
        return own_url
    host, _, given_port = config.advertise.partition(":")
    if config.advertise.startswith("["):
        host, _, given_port = config.advertise.removeprefix("[").partition("]")
        given_port = given_port.removeprefix(":")
    elif not host:
        listens = config.host if config.host not in _EVERYWHERE else ""
        host = listens or (address if config.address_url else "") or _address_towards(config.frontier)
    return _url(urlsplit(own_url).password or "", host, int(given_port or own_port))


def _url(password: str, host: str, own_port: int) -> str:
    return f"http://{USER}:{password}@{f'[{host}]' if ':' in host else host}:{own_port}"


def _address_towards(frontier: str) -> str:
    """Return the address of this machine that a store elsewhere sees; the machine's own for a store in a file."""
    with contextlib.suppress(OSError, ValueError):
        parts = urlsplit(frontier)
        if parts.hostname and parts.scheme not in ("sqlite", "unix"):
            with socket.socket(socket.AF_INET6 if ":" in parts.hostname else socket.AF_INET, socket.SOCK_DGRAM) as one:
                # Nothing is sent: the system only chooses the address that it would send from.
                one.connect((parts.hostname, parts.port or 80))
                return str(one.getsockname()[0])
    return "127.0.0.1"
