"""Credentials by origin: Basic, Digest, bearer tokens and client certificates, before any fetcher.

They are looked up by the origin of each request. A redirect is a request of its own, so nothing of them follows it to
another origin. What a request says itself, in a header ``Authorization`` or in its URL, is sent instead.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from skitter import private_files
from skitter.agent import Credential
from skitter.errors import SettingsError
from skitter.fetch.contract import ClientCertificate, Fetcher, FetchRequest, RendersPages, slow_transfers_of
from skitter.fetch.digest import Challenge, find_challenge
from skitter.model.page import Page
from skitter.model.url import absolute, host_key

_MAX_KNOWN = 10_000
_UNAUTHORIZED = 401
_MAX_REQUESTS = 3
"""For one page with a digest: to be asked, to answer, and once more if the nonce was used up by others meanwhile."""


class CredentialTable:
    """Which credential an origin has; its own goes before one with an asterisk, and a longer one before a shorter."""

    def __init__(self, credentials: Sequence[Credential]) -> None:
        self._exact: dict[str, Credential] = {}
        self._below: list[tuple[str, str, Credential]] = []
        for credential in credentials:
            scheme, _, host = credential.origin.partition("://")
            if host.startswith("*."):
                key = host_key(absolute(f"{scheme}://{host[2:]}/"))
                self._below.append((f"{scheme.lower()}://", f".{key.partition('://')[2]}", credential))
            else:
                self._exact[host_key(absolute(f"{credential.origin}/"))] = credential
        self._below.sort(key=lambda one: -len(one[1]))
        self._known: dict[str, Credential | None] = {}

    def find(self, origin: str) -> Credential | None:
        """Return the credential of an origin as ``host_key`` writes it."""
        try:
            return self._known[origin]
        except KeyError:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[origin] = self._exact.get(origin) or self._below_of(origin)
            return found

    def _below_of(self, origin: str) -> Credential | None:
        for scheme, suffix, credential in self._below:
            if origin.startswith(scheme) and origin.endswith(suffix):
                return credential
        return None


class _DigestState:
    """What one origin has asked for last, and whether it has refused a fresh answer to it."""

    def __init__(self) -> None:
        self.challenge: Challenge | None = None
        self.refused = False


class AuthenticatingFetcher:
    """A fetcher that adds credentials to requests for the origins that have some."""

    def __init__(self, fetcher: Fetcher, credentials: Sequence[Credential]) -> None:
        check_certificates(credentials)
        self._fetcher = fetcher
        self._table = CredentialTable(credentials)
        self._digests: dict[str, _DigestState] = {}
        self.slow_transfers = slow_transfers_of(fetcher)
        if isinstance(fetcher, RendersPages):
            self.watch_room = fetcher.watch_room

    async def fetch(self, request: FetchRequest) -> Page:
        """See ``Fetcher.fetch``. A digest that the server has not asked for yet takes two requests."""
        origin = host_key(request.url)
        credential = self._table.find(origin)
        if credential is None:
            return await self._fetcher.fetch(request)
        if credential.certificate:
            shown = ClientCertificate(
                file=credential.certificate, key=credential.key, key_password=credential.key_password
            )
            request = msgspec.structs.replace(request, certificate=shown)
        if credential.kind == "certificate" or _has_own(request):
            return await self._fetcher.fetch(request)
        if credential.kind == "digest":
            return await self._with_digest(request, origin, credential)
        return await self._fetcher.fetch(_with(request, _authorization(credential)))

    async def close(self) -> None:
        """See ``Fetcher.close``."""
        await self._fetcher.close()

    async def _with_digest(self, request: FetchRequest, origin: str, credential: Credential) -> Page:
        if len(self._digests) >= _MAX_KNOWN:
            self._digests.clear()
        state = self._digests.setdefault(origin, _DigestState())
        if request.on_headers is not None:
            # A challenge is no answer to the request, and not for a hook to see.
            request = msgspec.structs.replace(request, on_headers=_unless_challenged(request.on_headers))
        used, number = state.challenge, 0
        while True:
            page = await self._fetcher.fetch(request if used is None else _answered(request, used, credential))
            number += 1
            newer = find_challenge(page.headers) if page.status == _UNAUTHORIZED else None
            if newer is None:
                state.refused = False
                return page
            state.challenge = newer
            if used is not None and not newer.is_stale and (number > 1 or state.refused):
                state.refused = True  # the password is wrong, which asking again does not change
                return page
            if number == _MAX_REQUESTS:
                return page
            # It was at the socket in time with the first one, which the server has noticed.
            used, request = newer, msgspec.structs.replace(request, start_by=None)


def check_certificates(credentials: Sequence[Credential]) -> None:
    """SettingsError for a certificate that cannot be used, or a key that others may read."""
    for credential in credentials:
        if not credential.certificate:
            continue
        for file, is_secret in ((credential.certificate, not credential.key), (credential.key, True)):
            if file:
                read_secret(Path(file), f"of {credential.shown}", is_secret=is_secret)
        try:
            # With a password in any case: without one, it would be asked for at the terminal.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_cert_chain(credential.certificate, credential.key or None, credential.key_password)
        except OSError as error:
            files = " and ".join(filter(None, (credential.certificate, credential.key)))
            reason = getattr(error, "reason", None) or "wrong password for the key"
            raise SettingsError(
                f"a certificate cannot be used, of {credential.shown}: {files}: {reason}",
                hint="give PEM files that belong together, and key_password_file if the key has a password",
            ) from None


def read_secret(path: Path, place: str, *, is_secret: bool = True) -> str:
    """Return what a file of a credential holds; SettingsError if it cannot be read, or if others may read it."""
    try:
        return private_files.read(path) if is_secret else path.read_text(encoding="utf-8")
    except private_files.NotPrivateError as error:
        raise SettingsError(f"a secret is not private, {place}: {error}", hint=f"chmod 600 {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise SettingsError(f"cannot read a file, {place}: {path}: {reason}", hint="check its name and owner") from None


def _has_own(request: FetchRequest) -> bool:
    """Return whether the request has credentials of its own, in a header or in its URL."""
    authority = request.url.split("/", 3)[2]
    return "@" in authority or any(name.lower() == "authorization" for name in request.headers)


def _authorization(credential: Credential) -> str:
    if credential.kind == "bearer":
        return f"Bearer {credential.token}"
    return f"Basic {base64.b64encode(f'{credential.user}:{credential.password}'.encode()).decode()}"


def _answered(request: FetchRequest, challenge: Challenge, credential: Credential) -> FetchRequest:
    target = "/" + request.url.split("/", 3)[3].partition("#")[0]
    return _with(request, challenge.answer(credential.user, credential.password, request.method, target))


def _with(request: FetchRequest, authorization: str) -> FetchRequest:
    return msgspec.structs.replace(request, headers={"Authorization": authorization, **request.headers})


def _unless_challenged(on_headers: Callable[[Page], bool]) -> Callable[[Page], bool]:
    def wanted(page: Page) -> bool:
        is_challenge = page.status == _UNAUTHORIZED and find_challenge(page.headers) is not None
        return is_challenge or on_headers(page)

    return wanted
