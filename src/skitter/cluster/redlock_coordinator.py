"""The redlock coordinator (``redlock://HOST,HOST,HOST``): locks that a majority of independent Redis servers grants.

It survives the loss of any minority of them, and has locks and elections only. A server that restarts without its
newest writes may grant a lock twice: let it have ``appendonly yes`` and ``appendfsync always``. Only then there are
tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from skitter.cluster.contract import Hold
from skitter.cluster.redis_scripts import RedisScripts, split_namespace
from skitter.errors import ClusterError, ClusterUnavailableError, UsageError
from skitter.redis_driver.address import parse_address
from skitter.server_url import split_url

DRIFT = 0.01
DRIFT_SECONDS = 0.002
"""What the clocks of the servers may differ by in the course of a lifetime: this part of it, and this much more."""
_LEAST_SERVERS = 3
_ANSWER_SECONDS = 2.0
_FORM = "the form is redlock://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT],HOST[:PORT][/DB], or redlocks://… for TLS"


class _Votes(msgspec.Struct, frozen=True):
    """What the servers said; None: no answer."""

    answers: list[Any]
    majority: int

    def has(self, votes: int) -> bool:
        return votes >= self.majority

    @property
    def given(self) -> list[Any]:
        return [answer for answer in self.answers if answer is not None]

    def may_have(self, votes: int) -> bool:
        """Whether it would be a majority if those that are silent agreed."""
        return self.has(votes + len(self.answers) - len(self.given))


class RedlockCoordinator:
    """Locks on several Redis servers that know nothing of each other."""

    def __init__(self, url: str, *, session_seconds: float) -> None:
        self._servers = _servers(url)
        self.address = f"redlock://{','.join(str(server.address).partition('://')[2] for server in self._servers)}"
        self.session_seconds = session_seconds
        self.locks = RedlockLocks(self._servers, self.address)
        self.members = None
        self.keys = None
        self.rates = None

    async def open(self) -> None:
        async def check(server: RedisScripts) -> bool:
            await server.ping()
            await server.check()
            return True

        await self.locks.ask_majority(check, _ANSWER_SECONDS)

    async def close(self) -> None:
        for server in self._servers:
            await server.close()

    async def ping(self) -> None:
        async def ping(server: RedisScripts) -> bool:
            await server.ping()
            return True

        await self.locks.ask_majority(ping, _ANSWER_SECONDS)

    def on_connection_change(self, callback: Callable[[], None]) -> None:
        """Calls that fail tell of it."""


class RedlockLocks:
    """A lock is held while a majority holds it for the owner."""

    def __init__(self, servers: Sequence[RedisScripts], address: str) -> None:
        self._servers = servers
        self._majority = len(servers) // 2 + 1
        self._address = address
        self._silent: set[RedisScripts] = set()
        """Servers that did not answer the last question."""
        self._durable: dict[RedisScripts, bool] = {}
        """Of servers that could be asked: whether they keep every write through a restart."""

    async def acquire(
        self, name: str, owner: str, *, lifetime_seconds: float, wait_seconds: float | None
    ) -> Hold | None:
        del wait_seconds  # there is no queue
        seconds = _patience(lifetime_seconds)
        milliseconds = round(lifetime_seconds * 1000)

        async def grant(server: RedisScripts) -> Any:
            return await server.run("redlock_acquire", name, owner, milliseconds)

        # One server first: of several who come at once, all but one learn there that they are late, and do not share
        # the others' votes among them such that nobody has a majority.
        first = next((server for server in self._servers if server not in self._silent), self._servers[0])
        (answer,) = (await self._ask(grant, seconds, [first])).answers
        others = [server for server in self._servers if server is not first]
        if answer is not None and not answer[0] and await self._is_taken(name, owner, others, seconds):
            return None
        votes = _Votes([answer, *(await self._ask(grant, seconds, others)).answers], self._majority)
        granted = [answer for answer in votes.given if answer[0]]
        if votes.has(len(granted)):
            token = await self._write_token(name, owner, granted, seconds)
            if token is not _REFUSED:
                return Hold(token, _valid(lifetime_seconds))
        # Those that have granted it would keep others from a majority.
        await self._ask(lambda server: server.run("release", name, owner), seconds)
        if not votes.has(len(votes.given)):
            raise self._unavailable(votes)
        return None

    async def renew(self, name: str, owner: str, *, lifetime_seconds: float) -> Hold | None:
        milliseconds = round(lifetime_seconds * 1000)

        async def renew(server: RedisScripts) -> int:
            token = await server.run("renew", name, owner, milliseconds)
            return -1 if token is None else int(token)

        votes = await self._ask(renew, _patience(lifetime_seconds))
        tokens = [token for token in votes.given if token >= 0]
        if votes.has(len(tokens)):
            token = max(tokens)
            missing = [server for server, told in zip(self._servers, votes.answers, strict=True) if told == -1]
            if missing:
                await self._take_too(missing, name, owner, token, lifetime_seconds)
            return Hold(token or None, _valid(lifetime_seconds))
        if votes.may_have(len(tokens)):
            raise self._unavailable(votes)
        return None

    async def release(self, name: str, owner: str) -> bool:
        votes = await self._ask(lambda server: server.run("release", name, owner, resend=False), _ANSWER_SECONDS)
        released = sum(votes.given)
        if not votes.has(released) and votes.may_have(released) and len(votes.given) < len(votes.answers):
            raise self._unavailable(votes)
        return votes.has(released)

    async def ask_majority(self, question: Callable[[RedisScripts], Any], seconds: float) -> None:
        """Ask all servers. ClusterUnavailableError: no majority answers."""
        votes = await self._ask(question, seconds)
        if not votes.has(len(votes.given)):
            raise self._unavailable(votes)

    async def _is_taken(self, name: str, owner: str, others: Sequence[RedisScripts], seconds: float) -> bool:
        """Whether, besides the first server, so many of the others hold it for another that there is no majority."""

        async def holder(server: RedisScripts) -> bytes:
            return await server.lock_owner(name) or b""

        holders = (await self._ask(holder, seconds, others)).given
        taken = 1 + sum(one not in (b"", owner.encode()) for one in holders)
        return len(self._servers) - taken < self._majority

    async def _write_token(self, name: str, owner: str, granted: Sequence[Any], seconds: float) -> int | None:
        """The token: the greatest number that a majority knows plus one, known to a majority when it is given out.

        Every later majority shares a server with this one, so its token is greater, as long as no server forgets. A
        write counts only where the owner still has the lock: one that was slow cannot share its token with the next.
        """
        durable = await self._ask(self._is_durable, seconds)
        if not durable.has(sum(durable.given)):
            # A silent server may be durable: then there is no lock now, rather than one without a token.
            return _REFUSED if durable.may_have(sum(durable.given)) else None
        known = max(int(token) for _, _, token in granted)
        token = known or max(int(counter) for _, counter, _ in granted) + 1

        async def write(server: RedisScripts) -> bool:
            return self._durable.get(server, False) and bool(await server.run("redlock_token", name, owner, token))

        written = await self._ask(write, seconds)
        return token if written.has(sum(written.given)) else _REFUSED

    async def _take_too(
        self, servers: Sequence[RedisScripts], name: str, owner: str, token: int, lifetime_seconds: float
    ) -> None:
        """Take the lock on servers that have lost it or held it for another, so that losing one more ends nothing."""

        async def take(server: RedisScripts) -> None:
            granted, _, _ = await server.run("redlock_acquire", name, owner, round(lifetime_seconds * 1000))
            if granted and token:
                await server.run("redlock_token", name, owner, token)

        await self._ask(take, _patience(lifetime_seconds), servers)

    async def _is_durable(self, server: RedisScripts) -> bool:
        if server not in self._durable:
            is_kept = await server.parameter("appendonly") == "yes"
            self._durable[server] = is_kept and await server.parameter("appendfsync") == "always"
        return self._durable[server]

    async def _ask(
        self, question: Callable[[RedisScripts], Any], seconds: float, servers: Sequence[RedisScripts] | None = None
    ) -> _Votes:
        """Ask all servers at once. None of them may hold up the others for longer than this."""

        async def ask(server: RedisScripts) -> Any:
            try:
                async with asyncio.timeout(seconds):
                    answer = await question(server)
            except (TimeoutError, ClusterUnavailableError):
                self._silent.add(server)
                return None
            self._silent.discard(server)
            return answer

        # A server that is not unavailable but cannot be used is an error: it would be missing in every majority.
        return _Votes(await asyncio.gather(*map(ask, self._servers if servers is None else servers)), self._majority)

    def _unavailable(self, votes: _Votes) -> ClusterError:
        return ClusterUnavailableError(
            f"too few servers answer: {len(votes.given)} of {len(self._servers)}: {self._address}",
            hint=f"{self._majority} are needed: are they running, and reachable?",
        )


_REFUSED = -1


def _patience(lifetime_seconds: float) -> float:
    """How long one server is waited for: a small part of the lifetime, which is running."""
    return max(0.05, min(_ANSWER_SECONDS, lifetime_seconds / 10))


def _valid(lifetime_seconds: float) -> float:
    return lifetime_seconds * (1 - DRIFT) - DRIFT_SECONDS


def _servers(url: str) -> list[RedisScripts]:
    address, namespace = split_namespace(url)
    parts = split_url(address, "coordinator")
    scheme = "rediss" if parts.scheme.startswith("redlocks") else "redis"
    hosts = [host for host in parts.hosts.split(",") if host]
    if len(hosts) < _LEAST_SERVERS:
        raise UsageError(f"a redlock needs three servers or more: {parts.named(parts.options)}", hint=_FORM)
    rest = address.partition("://")[2]
    behind = rest[rest.index(parts.hosts) + len(parts.hosts) :]
    credentials = rest[: rest.index(parts.hosts)]
    parsed = [parse_address(f"{scheme}://{credentials}{host}{behind}") for host in hosts]
    if len({one.hosts for one in parsed}) < len(parsed):
        raise UsageError(f"a redlock names a server twice: {parts.named(parts.options)}", hint=_FORM)
    return [RedisScripts(one, namespace) for one in parsed]
