"""Routes of the REST API as values, and how each is served: authorised, bounded, decoded, answered."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from aiohttp import web

from skitter.errors import (
    BackendError,
    FormatError,
    FrontierError,
    JobError,
    MissingJobError,
    SkitterError,
    UrlError,
    UsageError,
    VanishedError,
)
from skitter.frontier.http.wire import Role
from skitter.model.audit import Actor
from skitter.model.job_name import check_job_name
from skitter.model.secrets import without_secrets, without_secrets_inside
from skitter.web.access import not_known
from skitter.web.call_limits import BusyError, CallLimits
from skitter.web.capabilities import capability_of_route
from skitter.web.credentials import Credential
from skitter.web.frontier_routes import CREDENTIAL, RefusedError, actor_of, check_capability, in_time, not_permitted
from skitter.web.stores import Store

PREFIX = "/api/v1"
MAX_BODY_BYTES = 1024 * 1024
BODY_SECONDS = 10.0
READ_SECONDS = 20.0
"""For an answer: a store that is unavailable is told as 503, and asked again."""
PAGE_LIMIT, MAX_PAGE_LIMIT = 50, 200
PROBLEM_TYPE = "application/problem+json"

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], kw_only=True):
    """A part of a list."""

    rows: list[T]
    next: str | None = None
    """What to give in ``after`` to go on; null: this was the last part."""


class Rows(msgspec.Struct, Generic[T], kw_only=True):
    """A whole list."""

    rows: list[T]


class Problem(msgspec.Struct, kw_only=True):
    """An error (RFC 9457)."""

    title: str
    status: int
    detail: str
    hint: str = ""
    error: str = ""
    """The class of the error."""
    type: str = "about:blank"


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class StoreQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which store; may be left out where only one is served."""

    store: Annotated[str, msgspec.Meta(max_length=100)] = ""


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object."""


class Call(msgspec.Struct, kw_only=True):
    """One request to a route, as its handler gets it."""

    request: web.Request
    credential: Credential
    stores: dict[str, Store]
    names: dict[str, str]
    """Parts of the path."""
    query: Any
    body: Any = None

    @property
    def job(self) -> str:
        return self.names["job"]

    @property
    def store(self) -> Store:
        """The store that the query names, or the only one."""
        name = self.query.store
        if not name and len(self.stores) == 1:
            return next(iter(self.stores.values()))
        if name not in self.stores:
            message = f"no such store: {name}" if name else "which store?"
            raise RefusedError(404 if name else 400, message, hint=f"existing stores: {', '.join(self.stores)}")
        return self.stores[name]

    @property
    def actor(self) -> Actor:
        """Who is recorded in the audit trail."""
        return actor_of(self.credential, self.request)

    def chosen_stores(self) -> list[Store]:
        """The store that the query names, or all of them."""
        return [self.store] if self.query.store else list(self.stores.values())


class Answer(msgspec.Struct, kw_only=True):
    """An answer with a status or headers of its own."""

    value: Any
    status: int = 200
    headers: dict[str, str] = {}


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One route: everything that the server, the table of roles and the OpenAPI document need."""

    method: str
    path: str
    """Below ``/api/v1``, with names in braces."""
    role: Role | None
    """The least that may use it; None: everybody."""
    summary: str
    handle: Callable[[Call], Awaitable[Any]]
    """Returns a value for JSON, an ``Answer``, or a response that it has sent itself."""
    query: type[msgspec.Struct] = NoQuery
    body: type[msgspec.Struct] | None = None
    answer: Any = None
    """The type of the answer, for the document; None: no content."""
    status: int = 200
    timeout_seconds: float | None = READ_SECONDS
    """None: it goes on until its client goes."""
    media_type: str = "application/json"

    @property
    def full_path(self) -> str:
        return PREFIX + self.path


class RouteServer:
    """Serves routes: what all of them have in common."""

    def __init__(self, stores: dict[str, Store], allowed: Collection[str] = ()) -> None:
        """``allowed``: the capabilities of clients that are not the owner."""
        self._stores = stores
        self._allowed = allowed
        self._limits = CallLimits()

    def add(self, app: web.Application, route: Route) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._serve(route, request)

        app.router.add_route(route.method, route.full_path, handle)

    async def _serve(self, route: Route, request: web.Request) -> web.StreamResponse:
        credential = request.get(CREDENTIAL) or (NOBODY if route.role is None else None)
        if credential is None:
            raise not_known()
        if route.role is not None and credential.role < route.role:
            raise not_permitted(credential, route.role)
        check_capability(capability_of_route(route.method, route.path), credential, self._allowed)
        names = dict(request.match_info)
        if (job := names.get("job")) is not None:
            check_scope(credential, job)
        query = decoded_query(request, route.query)
        with self._limits.admitted(f"{credential.kind}:{credential.name}", request.content_length or 0):
            body = await decoded_body(request, route.body) if route.body is not None else None
            call = Call(
                request=request, credential=credential, stores=self._stores, names=names, query=query, body=body
            )
            made = await in_time(route.handle(call), route.timeout_seconds)
        if isinstance(made, web.StreamResponse):
            return made
        answer = made if isinstance(made, Answer) else Answer(value=made, status=route.status)
        return respond(request, answer)


NOBODY = Credential(name="nobody", role=Role.VIEWER, kind="none")
"""Stands for a client without a credential, at the routes that need none."""


def check_scope(credential: Credential, job: str) -> None:
    """Refuse a job that is not one of the credential's own, or whose name is none."""
    try:
        check_job_name(job)
    except UsageError as error:
        raise RefusedError(404, f"no such job: {job[:200]}", hint=error.hint) from error
    if not credential.may_see(job):
        raise RefusedError(
            403, f"this credential is not for the job: {job}", hint="the credential is limited to some jobs"
        )


# ---- what comes in


def decoded_query(request: web.Request, kind: type[T]) -> T:
    """The parameters of a request; 400 for one that is unknown, given twice, or none of its type."""
    given = request.rel_url.query
    if len(set(given)) != len(given):
        raise RefusedError(400, "a parameter is given twice")
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise RefusedError(400, f"invalid parameter: {_one_line(error)}", hint="see /api/v1/openapi.json") from error


async def decoded_body(request: web.Request, kind: type[T]) -> T:
    """The JSON of a request; what is too large, too slow, or none of its type is refused."""
    if (length := request.content_length) is None:
        raise RefusedError(411, "the body has no length", hint="send Content-Length")
    if length > MAX_BODY_BYTES:
        raise RefusedError(413, f"the body has more than {MAX_BODY_BYTES} bytes: {length}", hint="send it in parts")
    if request.content_type != "application/json":
        raise RefusedError(415, "the body is not JSON", hint="send Content-Type: application/json")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            data = await request.read()
    except TimeoutError as error:
        raise RefusedError(408, f"the body did not arrive within {BODY_SECONDS:g} s") from error
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise RefusedError(400, f"invalid body: {_one_line(error)}", hint="see /api/v1/openapi.json") from error


def _one_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


# ---- what goes out


def encoded(value: Any) -> bytes:
    """A value as JSON, without secrets."""
    plain = without_secrets_inside(msgspec.to_builtins(value))
    try:
        return msgspec.json.encode(plain)
    except (UnicodeEncodeError, OverflowError):
        # The name of a file may be no text, and a number of an item may have more than 64 bits.
        return json.dumps(plain, separators=(",", ":")).encode()


def respond(request: web.Request, answer: Answer) -> web.Response:
    """The response with an answer; of a read, 304 if the client has it already."""
    headers = {"Cache-Control": "private, no-cache", **answer.headers}
    if answer.value is None:
        return web.Response(status=answer.status if answer.status != 200 else 204, headers=headers)
    body = encoded(answer.value)
    if request.method in ("GET", "HEAD"):
        tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        headers["ETag"] = tag
        known = [part.strip().removeprefix("W/") for part in request.headers.get("If-None-Match", "").split(",")]
        if tag in known or "*" in known:
            return web.Response(status=304, headers=headers)
    return web.Response(body=body, status=answer.status, content_type="application/json", headers=headers)


def problem_of(error: Exception) -> Problem:
    """An error as its client is told it."""
    if not isinstance(error, SkitterError):
        return _problem(500, "the server failed to answer this request", "see the server's log", "")
    return _problem(status_of(error), str(error), error.hint, type(error).__name__)


def status_of(error: SkitterError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, VanishedError | MissingJobError):
        return 404
    if isinstance(error, JobError | FormatError):
        return 409
    if isinstance(error, UsageError | UrlError):
        return 400
    if isinstance(error, BusyError | FrontierError | BackendError):
        return 503
    return 400


def _problem(status: int, detail: str, hint: str, kind: str) -> Problem:
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    return Problem(title=title, status=status, detail=without_secrets(detail), hint=without_secrets(hint), error=kind)


def respond_problem(error: Exception, headers: dict[str, str] | None = None) -> web.Response:
    """The response that tells of an error."""
    problem = problem_of(error)
    more = dict(headers or {})
    if problem.status == 503:
        more.setdefault("Retry-After", "1")
    if problem.status == 401:
        more.setdefault("WWW-Authenticate", "Bearer")
    more["Cache-Control"] = "no-store"
    body = encoded(problem)
    return web.Response(body=body, status=problem.status, content_type=PROBLEM_TYPE, headers=more)
