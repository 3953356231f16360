"""The frontier contract through a master: each method is one call of ``wire.METHODS``."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, cast
from urllib.parse import quote

import msgspec

from skitter.errors import JobError, VanishedError
from skitter.frontier.contract import Frontier
from skitter.frontier.http import wire
from skitter.frontier.http.address import parse_address
from skitter.frontier.http.client import MasterClient
from skitter.frontier.tables import storable
from skitter.model.audit import MAX_ACTOR_CHARS, Actor
from skitter.model.job import Report


def http_frontier(url: str, job_name: str, *, patient: bool = False) -> Frontier:
    """The frontier of one job. ``patient``: wait for a master that is unavailable already at the first call."""
    return cast("Frontier", HttpFrontier(MasterClient(parse_address(url), patient=patient), job_name))


async def list_jobs(url: str) -> list[str]:
    """The names of the jobs that the credential may see."""
    return wire.read_names(await _ask_once(url, wire.JOBS_PATH))


async def drop_job(url: str, job_name: str, actor: Actor | None = None) -> bool:
    """Remove a job and everything of it; False: there was none. The master records it, and who asks for it."""
    return wire.read_flag(await _ask_once(url, f"{wire.JOBS_PATH}/{job_name}/{wire.DROP}", actor))


async def _ask_once(url: str, path: str, actor: Actor | None = None) -> bytes:
    client = MasterClient(parse_address(url))
    try:
        headers = {wire.CALL_HEADER: secrets.token_hex(16), **_claim_of(actor)}
        return await client.call(path, b"", wire.LONG_CALL_SECONDS, headers=headers)
    finally:
        await client.close()


class HttpFrontier:
    """A Frontier behind a master, for one job and one event loop. Its other methods come from ``wire.METHODS``."""

    def __init__(self, client: MasterClient, job_name: str, actor: Actor | None = None) -> None:
        self._client = client
        self._name = job_name
        self._claim = _claim_of(actor)
        self._was_there = False
        """The job: a master that refuses to begin one has not lost it."""
        self._spec, self._spec_tag = wire.NO_SPEC, ""
        self._turn = asyncio.Lock()
        """Held by calls without a token: the store remembers the last answer to a worker, and no more."""

    @property
    def round_trip_seconds(self) -> float:
        """See ``contract.DistantSource``."""
        return self._client.round_trip_seconds

    async def wait_for_work(self, worker: str, timeout_seconds: float) -> bool:
        """See ``contract.DistantSource``."""
        limit = min(timeout_seconds, wire.MAX_POLL_SECONDS)
        body = wire.encode(wire.WaitForWork(worker, limit))
        return wire.read_flag(await self._client.call(self._path(wire.WAIT), body, limit))

    def acting_for(self, actor: Actor) -> Frontier:
        """See ``contract.RecordsMutations``: the master records, whoever asks."""
        return cast("Frontier", HttpFrontier(self._client, self._name, actor))

    async def close(self) -> None:
        await self._client.close()

    async def _call(self, method: wire.Method, arguments: msgspec.Struct) -> Any:
        call = getattr(arguments, "call", None)
        if call is None:
            return await self._send(method, arguments)
        if call.token:
            return await self._send(method, arguments, timed=True)
        async with self._turn:
            arguments = msgspec.structs.replace(
                arguments, call=msgspec.structs.replace(call, token=secrets.token_hex(16))
            )
            return await self._send(method, arguments)

    async def _send(self, method: wire.Method, arguments: msgspec.Struct, *, timed: bool = False) -> Any:
        try:
            answer = await self._client.call(
                self._path(method.name),
                _packed(arguments),
                method.timeout_seconds,
                headers=self._headers(method.name),
                timed=timed,
            )
        except JobError as error:
            if method.name != "begin" and await self._has_vanished():
                raise VanishedError(
                    f"the job was removed from its store while it was in use: {self._name}",
                    hint="run the same crawl command to start over",
                ) from error
            raise
        self._was_there = True
        result = method.read_answer(answer)
        return self._with_spec(result, len(answer)) if isinstance(result, Report) else result

    def _headers(self, name: str) -> dict[str, str] | None:
        if name == "begin":
            # Of all calls it is this one that a store does not know again.
            return {wire.CALL_HEADER: secrets.token_hex(16), **self._claim}
        if name == "report" and self._spec_tag:
            return {wire.SPEC_HEADER: self._spec_tag}
        return self._claim or None

    def _with_spec(self, report: Report, size_bytes: int) -> Report:
        """A report with the specification that was not sent again; a large one is kept for that."""
        if not report.job.spec.name:
            return msgspec.structs.replace(report, job=msgspec.structs.replace(report.job, spec=self._spec))
        if size_bytes >= wire.LARGE_SPEC_BYTES:
            self._spec, self._spec_tag = report.job.spec, wire.spec_tag(report.job.spec)
        return report

    async def _has_vanished(self) -> bool:
        """Whether the job was there when this object asked before, and is not there any more."""
        if not self._was_there:
            return False
        state = wire.METHODS["state"]
        try:
            await self._client.call(self._path(state.name), wire.encode(state.arguments()), state.timeout_seconds)
        except JobError:
            return True
        return False

    def _path(self, name: str) -> str:
        return f"{wire.JOBS_PATH}/{self._name}/{name}"


def _claim_of(actor: Actor | None) -> dict[str, str]:
    # Quoted: the name of a user may have any character.
    return {wire.ACTOR_HEADER: quote(actor.name[:MAX_ACTOR_CHARS], safe=":@ ")} if actor is not None else {}


def _packed(arguments: msgspec.Struct) -> bytes:
    try:
        return wire.encode(arguments)
    except UnicodeEncodeError:
        # The message of an error may have anything in it; stores keep it so.
        outcomes = [
            msgspec.structs.replace(one, error=storable(one.error)) for one in getattr(arguments, "outcomes", ())
        ]
        return wire.encode(msgspec.structs.replace(arguments, outcomes=outcomes))


def _caller(method: wire.Method) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(self: HttpFrontier, *arguments: Any, **options: Any) -> Any:
        return await self._call(method, method.arguments(*arguments, **options))

    call.__name__ = method.name
    return call


for _method in wire.METHODS.values():
    setattr(HttpFrontier, _method.name, _caller(_method))
