"""Login and logout of users, and who a client is."""

from __future__ import annotations

import asyncio
import math
from typing import Annotated

import msgspec
from aiohttp import web

from skitter.observe import events
from skitter.web.access import COOKIE, Access
from skitter.web.api.route import Answer, Call
from skitter.web.credentials import Credential
from skitter.web.frontier_routes import RefusedError
from skitter.web.login_limits import LoginLimits
from skitter.web.users import MAX_PASSWORD_CHARS, SESSION_SECONDS

LOGINS_AT_ONCE = 2
"""Each takes 32 MB and a tenth of a second of a core."""
MAX_LOGINS_WAITING = 50
TOLD_SECONDS = 10.0


class LoginBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A user and the password."""

    user: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    password: Annotated[str, msgspec.Meta(max_length=MAX_PASSWORD_CHARS)]


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """Who a client is."""

    name: str
    role: str | None
    """null: nobody that is known."""
    kind: str
    """user, token, certificate, anybody (there are no credentials) or none."""
    jobs: list[str]
    """Patterns of the jobs that it is limited to; none: all."""
    expires_at: float | None
    login: bool
    """Whether users can log in with a password here."""


class TooManyLoginsError(RefusedError):
    """A login that has to wait."""

    def __init__(self, wait_seconds: float) -> None:
        super().__init__(429, "too many wrong passwords", hint=f"try again in {math.ceil(wait_seconds)} s")
        self.wait_seconds = wait_seconds


class SessionRoutes:
    """The handlers."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._limits = LoginLimits()
        self._turns = asyncio.Semaphore(LOGINS_AT_ONCE)
        self._waiting = 0
        self._told_at = -TOLD_SECONDS

    async def get(self, call: Call) -> SessionView:
        return self._view(call.credential)

    async def log_in(self, call: Call) -> Answer:
        users = self._access.users
        if users is None:
            raise RefusedError(404, "this server has no users", hint="skitter user add NAME --role ROLE")
        body: LoginBody = call.body
        address = self._access.address_of(call.request)
        if wait := self._limits.wait_seconds(body.user, address):
            raise TooManyLoginsError(wait)
        if self._waiting >= MAX_LOGINS_WAITING:
            raise TooManyLoginsError(1.0)
        self._waiting += 1
        try:
            async with self._turns:
                # Others may have failed meanwhile with the same name.
                if wait := self._limits.wait_seconds(body.user, address):
                    raise TooManyLoginsError(wait)
                user = await asyncio.to_thread(users.check_password, body.user, body.password)
        finally:
            self._waiting -= 1
        if user is None:
            self._limits.failed(body.user, address)
            self._tell(body.user, address)
            raise RefusedError(401, "wrong name or password")
        self._limits.succeeded(body.user, address)
        cookie = users.begin_session(user)
        found = users.session_of(cookie)
        if found is None:
            # The file was changed in between.
            raise RefusedError(401, "the user was changed just now", hint="log in again")
        headers = {"Set-Cookie": self._cookie(call.request, cookie, int(SESSION_SECONDS)), "Cache-Control": "no-store"}
        return Answer(value=self._view(found[0]), headers=headers)

    async def log_out(self, call: Call) -> Answer:
        found = self._access.session_of(call.request)
        if found is not None and self._access.users is not None:
            self._access.users.end_session(found[1])
        return Answer(value=None, status=204, headers={"Set-Cookie": self._cookie(call.request, "", 0)})

    def _cookie(self, request: web.Request, value: str, age_seconds: int) -> str:
        secure = "; Secure" if self._access.is_secure(request) else ""
        return f"{COOKIE}={value}; Path=/; Max-Age={age_seconds}; HttpOnly; SameSite=Strict{secure}"

    def _view(self, credential: Credential) -> SessionView:
        return SessionView(
            name=credential.name,
            role=None if credential.kind == "none" else credential.role.name.lower(),
            kind=credential.kind,
            jobs=list(credential.jobs),
            expires_at=credential.expires_at,
            login=self._access.users is not None,
        )

    def _tell(self, user: str, address: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= TOLD_SECONDS:
            self._told_at = now
            events.emit(events.MASTER_LOGIN_FAILED(user=user, client=address))
