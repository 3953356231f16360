"""The routes of the frontier contract: each call is authorised, bounded, decoded, made, and answered."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from aiohttp import web

from skitter.app.audit import Trails
from skitter.audit.mutations import MUTATIONS
from skitter.concurrency import wait_shielded
from skitter.dedup.hyperloglog import checked_changes
from skitter.delivery.archive import is_output_of
from skitter.errors import FrontierError, JobError, UsageError, VanishedError
from skitter.frontier.contract import acting_for
from skitter.frontier.http import wire
from skitter.frontier.http.trail import AskedEntries, FoundEntries, read_asked
from skitter.frontier.http.wire import Role
from skitter.model.audit import MAX_ACTOR_CHARS, Actor
from skitter.model.capability import SUBMIT
from skitter.model.job import JobSpec, Report
from skitter.model.job_name import check_job_name
from skitter.web import work_waiters, worker_identity
from skitter.web.call_limits import BusyError, CallLimits
from skitter.web.capabilities import HINT, capability_of_call, refusal
from skitter.web.credentials import Credential
from skitter.web.stores import Store
from skitter.web.work_waiters import WorkWaiters
from skitter.web.worker_identity import WorkerIdentity

BODY_SECONDS = 30.0
"""For a body to arrive, and for an answer to be taken."""
SMALL_BYTES = 32_768
ANSWERS_KEPT = 1_000
"""Answers to calls with an id (``wire.CALL_HEADER``), for when they are sent again."""
MAX_WAIT_BYTES = 4096
"""Of the body of a worker that waits: its name and a number."""
MAX_LIMIT = 100_000
"""Of what one call may ask for, and of the lists that it brings; what is added is bounded by the bytes of the call."""
MAX_ENTRIES = 1_000
"""Of the audit trail, in one answer."""
MAX_PAUSE_SECONDS = 86_400.0
_LIMITS = ("limit", "want", "hosts", "queues")
CREDENTIAL = web.RequestKey("credential", Credential)

T = TypeVar("T")
log = logging.getLogger("skitter.web")


class RefusedError(FrontierError):
    """A call that is refused, with its HTTP status."""

    def __init__(self, status: int, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class FrontierRoutes:
    """Serves the jobs of one store."""

    def __init__(self, store: Store, allowed: Collection[str] = ()) -> None:
        """``allowed``: the capabilities of clients that are not the owner."""
        self._store = store
        self._allowed = allowed
        self._limits = CallLimits()
        self._identity = WorkerIdentity()
        self._waiters = WorkWaiters()
        self._answers: OrderedDict[tuple[str, ...], asyncio.Task[bytes]] = OrderedDict()

    def add_to(self, app: web.Application, prefix: str = "") -> None:
        """``prefix``: a path before that of the calls, for one of several stores."""
        path = prefix + wire.JOBS_PATH
        app.router.add_post(path, self._list)
        app.router.add_post(prefix + wire.AUDIT_PATH, self._read_trail)
        app.router.add_post(f"{path}/{{job}}/{wire.DROP}", self._drop)
        app.router.add_post(f"{path}/{{job}}/{wire.WAIT}", self._wait)
        app.router.add_post(f"{path}/{{job}}/{{method}}", self._call_method)

    def wake_waiters(self) -> None:
        """Let workers that wait ask another master, or this one after its restart."""
        self._waiters.close()

    def seen_report(self, job: str, report: Report) -> Report:
        """A report in which workers that wait here are alive."""
        seen: Report = self._waiters.seen(job, report)
        return seen

    # ---- routes

    async def _call_method(self, request: web.Request) -> web.StreamResponse:
        method = wire.METHODS.get(request.match_info["method"])
        if method is None:
            raise RefusedError(404, f"no such call: {request.path}", hint="does the client run the same version?")
        credential, job = authorised(request, method.role), request.match_info["job"]
        check_capability(capability_of_call(method.name), credential, self._allowed)
        with self._limits.admitted(credential.name, _length_of(request)):
            arguments = _decoded(method.read_arguments, await _body_of(request))
            if credential.role < (needed := method.role_for(arguments)):
                raise not_permitted(credential, needed)
            if method.name == "close_sink" and arguments.forget:
                check_capability(SUBMIT, credential, self._allowed)
            known_spec = request.headers.get(wire.SPEC_HEADER, "")
            actor = actor_of(credential, request) if method.name in MUTATIONS else None
            call = functools.partial(self._call, credential, job, method, arguments, known_spec, actor)
            # Others are known again by the store.
            call_id = request.headers.get(wire.CALL_HEADER, "") if method.name == "begin" else ""
            key = (credential.name, job, method.name, call_id)
            return await _answered(request, await self._once(key, call, method.timeout_seconds))

    async def _list(self, request: web.Request) -> web.StreamResponse:
        credential = authorised(request, Role.VIEWER)
        with self._limits.admitted(credential.name, 0):
            names = await in_time(self._store.jobs(), wire.CALL_SECONDS)
            return await _answered(request, wire.encode([name for name in names if credential.may_see(name)]))

    async def _drop(self, request: web.Request) -> web.StreamResponse:
        credential, job = authorised(request, Role.ADMIN), request.match_info["job"]

        async def drop() -> bytes:
            dropped = await self._store.drop(job, actor_of(credential, request))
            self.forget(job)
            return wire.encode(dropped)

        with self._limits.admitted(credential.name, 0):
            key = (credential.name, job, wire.DROP, request.headers.get(wire.CALL_HEADER, ""))
            return await _answered(request, await self._once(key, drop, wire.LONG_CALL_SECONDS))

    async def _read_trail(self, request: web.Request) -> web.StreamResponse:
        credential = authorised(request, Role.ADMIN)
        if credential.jobs:
            raise RefusedError(
                403, "the audit trail contains all jobs", hint="use a token of the role admin for all jobs"
            )
        with self._limits.admitted(credential.name, _length_of(request)):
            asked: AskedEntries = _decoded(read_asked, await _body_of(request))
            return await _answered(request, wire.encode(await in_time(self._entries(asked), wire.CALL_SECONDS)))

    async def _entries(self, asked: AskedEntries) -> FoundEntries:
        limit = max(1, min(asked.limit, MAX_ENTRIES))
        async with Trails(self._store.url) as trails:
            chain = trails.chain(asked.chain)
            if chain is None:
                return FoundEntries("", [])
            found = (
                await chain.entries_before(asked.before, limit)
                if asked.newest_first
                else await chain.entries(asked.after, limit)
            )
            return FoundEntries(chain.store, [(entry.seq, entry.body, entry.hash) for entry in found])

    async def _wait(self, request: web.Request) -> web.StreamResponse:
        credential, job = authorised(request, Role.WORKER), request.match_info["job"]
        # No limit of calls: they cost a master next to nothing, and each has a connection, which are limited.
        if self._waiters.count >= work_waiters.MAX_WAITERS:
            raise BusyError("the master is busy: too many workers wait", hint="the client will try again")
        if _length_of(request) > MAX_WAIT_BYTES:
            raise RefusedError(413, f"a waiting worker may send at most {MAX_WAIT_BYTES} bytes")
        asked = _decoded(wire.read_wait, await _body_of(request))
        # Written so that what is no number at all is the longest.
        timeout = asked.timeout_seconds if 0 <= asked.timeout_seconds < wire.MAX_POLL_SECONDS else wire.MAX_POLL_SECONDS
        worker = worker_identity.tagged(asked.worker, credential) if credential.role is Role.WORKER else asked.worker
        with self._limits.waiting(credential.name):
            woken = await self._waiters.wait(job, worker, timeout, lambda: is_gone(request))
        return await _answered(request, wire.encode(woken))

    # ---- calls

    async def _call(
        self,
        credential: Credential,
        job: str,
        method: wire.Method,
        arguments: Any,
        known_spec: str = "",
        actor: Actor | None = None,
    ) -> bytes:
        is_worker = credential.role is Role.WORKER
        _check_bounds(method, arguments)
        try:
            async with self._store.use(job, alone=method.is_long) as frontier:
                if is_worker:
                    await self._identity.own(credential, job, frontier, arguments)
                elif isinstance(spec := getattr(arguments, "spec", None), JobSpec) and spec.name != job:
                    raise RefusedError(400, f"the specification is of another job: {spec.name}, not {job}")
                refused = refusal(SUBMIT, credential, self._allowed) if method.name == "open_sink" else ""
                if refused and not is_output_of(await frontier.sinks(), arguments.target):
                    raise RefusedError(403, refused, hint=HINT)
                called = frontier if actor is None else acting_for(frontier, actor)
                answer: Any = await getattr(called, method.name)(**msgspec.structs.asdict(arguments))
        except (JobError, VanishedError):
            # Whoever waits for work of a job that is gone is to find that out.
            self.forget(job)
            raise
        if method.name in ("workers", "report"):
            answer = self._waiters.seen(job, answer)
        if known_spec and isinstance(answer, Report):
            answer = _without_known_spec(answer, known_spec)
        self._identity.note(job, arguments, answer)
        if is_worker:
            answer = worker_identity.untagged(answer, credential)
        self._waiters.heard(job, method.name, arguments, answer)
        return wire.encode(answer)

    def forget(self, job: str) -> None:
        """The job is gone, and so are its leases: epochs may begin anew with another one of its name."""
        self._identity.forget(job)
        self._waiters.wake_all(job)

    async def _once(self, key: tuple[str, ...], call: Callable[[], Awaitable[bytes]], timeout_seconds: float) -> bytes:
        """Make a call, or give the answer of the time that it was sent before; ``key`` ends with its id, if any."""
        if not key[-1]:
            return await in_time(call(), timeout_seconds)
        task = self._answers.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._answers[key] = asyncio.ensure_future(call())
            if len(self._answers) > ANSWERS_KEPT:
                self._answers.popitem(last=False)
        # The waiting has an end, and the call goes on: when it is sent again, it is waited for again.
        return await in_time(wait_shielded(task), timeout_seconds)


def actor_of(credential: Credential, request: web.Request) -> Actor:
    """Who is recorded: the name of the credential, and beside it who the client says it is."""
    kind = {"anybody": "", "user": "user:"}.get(credential.kind, "token:")
    claim = unquote(request.headers.get(wire.ACTOR_HEADER, ""), errors="replace")[:MAX_ACTOR_CHARS]
    return Actor(f"{kind}{credential.name}", claim)


def authorised(request: web.Request, role: Role) -> Credential:
    """The credential of a request, if it has the role and the job of the path is one of its own."""
    credential = request[CREDENTIAL]
    if credential.role < role:
        raise not_permitted(credential, role)
    job = request.match_info.get("job")
    if job is not None and not credential.may_see(job):
        raise RefusedError(
            403, f"this credential is not for the job: {job}", hint="the token file of the master lists them"
        )
    if job is not None:
        check_job_name(job)
    return credential


def check_capability(what: str, credential: Credential, allowed: Collection[str]) -> None:
    """Refuse what brings new work to the master and is not allowed to this client."""
    if sentence := refusal(what, credential, allowed):
        raise RefusedError(403, sentence, hint=HINT)


def not_permitted(credential: Credential, needed: Role) -> RefusedError:
    return RefusedError(
        403,
        f"not permitted to a {credential.role.name.lower()}: this takes the role {needed.name.lower()}",
        hint="use another token, or ask the administrator of the master",
    )


def _length_of(request: web.Request) -> int:
    length = request.content_length
    if length is None:
        raise RefusedError(411, "the call has no length", hint="send Content-Length")
    if length > wire.MAX_BODY_BYTES:
        raise RefusedError(
            413, f"the call has more than {wire.MAX_BODY_BYTES} bytes: {length}", hint="send it in parts"
        )
    return length


async def _body_of(request: web.Request) -> bytes:
    _length_of(request)
    if request.content.is_eof():
        # Most have come together with their headers: a timeout costs more than the reading.
        return await request.read()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError as error:
        raise RefusedError(408, f"the call did not arrive within {BODY_SECONDS:g} s") from error


def _decoded(read: Callable[[bytes], Any], body: bytes) -> Any:
    try:
        return read(body)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        # No more than a line of it: the bytes may be hostile.
        text = str(error).partition("\n")[0][:200]
        raise RefusedError(400, f"invalid call: {text}", hint="does the client run the same version?") from error


def _check_bounds(method: wire.Method, arguments: msgspec.Struct) -> None:
    """Refuse numbers and lists that no client sends, before they reach the store."""
    for name in method.names:
        value = getattr(arguments, name)
        if isinstance(value, float):
            is_wrong = value != value or (name == "pause_seconds" and not 0 <= value <= MAX_PAUSE_SECONDS)  # noqa: PLR0124
        elif isinstance(value, int):
            is_wrong = not (0 <= value <= MAX_LIMIT if name in _LIMITS else -(2**63) <= value < 2**63)
        elif isinstance(value, list):
            is_wrong = len(value) > MAX_LIMIT and method.name != "add"
        else:
            continue
        if is_wrong:
            raise RefusedError(400, f"out of bounds: {name} of {method.name}")
    if isinstance(changes := getattr(arguments, "changes", None), bytes):
        _decoded(checked_changes, changes)


def _without_known_spec(report: Report, known: str) -> Report:
    if wire.spec_tag(report.job.spec) != known:
        return report
    return msgspec.structs.replace(report, job=msgspec.structs.replace(report.job, spec=wire.NO_SPEC))


async def in_time(call: Awaitable[T], timeout_seconds: float | None) -> T:
    try:
        async with asyncio.timeout(timeout_seconds):
            return await call
    except TimeoutError as error:
        raise BusyError("the store behind the master does not answer in time", hint="check the master's log") from error


async def _answered(request: web.Request, body: bytes, status: int = 200) -> web.StreamResponse:
    """Send an answer, and break off with a client that does not take it."""
    response = web.Response(body=body, status=status, content_type=wire.CONTENT_TYPE)
    response.headers[wire.VERSION_HEADER] = wire.VERSION
    if len(body) < SMALL_BYTES:
        # It fits into the buffer of the connection.
        return response
    try:
        async with asyncio.timeout(BODY_SECONDS):
            await response.prepare(request)
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    return response


def is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def answer_error(request: web.Request, error: Exception) -> web.StreamResponse:
    """The answer to a call that failed."""
    if isinstance(error, RefusedError):
        return await _answered(request, wire.pack_error(error), error.status)
    if isinstance(error, BusyError):
        return await _answered(request, wire.pack_error(error), 503)
    if isinstance(error, UsageError | JobError | FrontierError):
        return await _answered(request, wire.pack_error(error), 422)
    log.error("a call failed: %s: %s: %s", request.path, type(error).__name__, error, exc_info=error)
    failed = FrontierError("the master failed to answer this call", hint="check the master's log")
    return await _answered(request, wire.pack_error(failed), 500)
