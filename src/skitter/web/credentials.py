"""Credentials of a master's clients: the token file, certificates of clients, and what each may do.

A token file has one token alone, for everything; or lines ``ROLE TOKEN [JOB...]``. In place of a token, ``cert:NAME``
stands for a client's certificate with this common name or DNS name. ``#`` begins a comment line.
"""

from __future__ import annotations

import fnmatch
import hashlib
import secrets
from pathlib import Path
from typing import Any

import msgspec

from skitter import private_files
from skitter.errors import UsageError
from skitter.frontier.http.wire import Role
from skitter.observe import events
from skitter.web.file_changes import FileChanges

MIN_TOKEN_CHARS = 16
_CERTIFICATE = "cert:"
ROLES = {role.name.lower(): role for role in Role}


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """Who a client is and what it may do."""

    name: str
    """For people, and part of the names of its workers: never the token."""
    role: Role
    jobs: tuple[str, ...] = ()
    """Names or patterns such as ``shop-*``; none: every job."""
    kind: str = "token"
    """token, certificate, user or anybody."""
    expires_at: float | None = None
    """Of a user's session."""

    def may_see(self, job: str) -> bool:
        """Whether a job is one of its own."""
        return not self.jobs or any(fnmatch.fnmatchcase(job, pattern) for pattern in self.jobs)


EVERYBODY = Credential(name="anybody", role=Role.ADMIN, kind="anybody")
"""The credential of all clients where there are none: on loopback."""


class TokenFile:
    """The credentials of a file, which is read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Tokens are compared by a hash with a key of this process: how long that takes tells nothing about them.
        self._key = secrets.token_bytes(32)
        self._by_digest: dict[bytes, Credential] = {}
        self._by_name: dict[str, Credential] = {}
        self._changes = FileChanges(path)
        self._read()

    def of_token(self, token: str) -> Credential | None:
        """The credential of a token."""
        self._look()
        return self._by_digest.get(self._digest(token))

    def of_certificate(self, certificate: dict[str, Any]) -> Credential | None:
        """The credential of a verified certificate, by the first of its names that has a line."""
        self._look()
        return next((self._by_name[name] for name in names_of(certificate) if name in self._by_name), None)

    def _digest(self, token: str) -> bytes:
        return hashlib.blake2b(token.encode("utf-8", "surrogateescape"), key=self._key, digest_size=32).digest()

    def _look(self) -> None:
        if not self._changes.found():
            return
        try:
            self._read()
        except UsageError as error:
            # Whoever edits it makes a mistake: those who were let in before still are.
            events.emit(events.MASTER_TOKENS_REFUSED(reason=str(error)))
        else:
            events.emit(events.MASTER_TOKENS_READ(credentials=len(self._by_digest) + len(self._by_name)))

    def _read(self) -> None:
        try:
            text = private_files.read(self._path)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"the tokens cannot be read: {self._path}: {error}",
                hint=f"only its owner may read it: chmod 600 {self._path}",
            ) from error
        by_digest: dict[bytes, Credential] = {}
        by_name: dict[str, Credential] = {}
        lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1)]
        lines = [(number, words) for number, words in lines if words and not words[0].startswith("#")]
        for number, words in lines:
            is_only_token = len(lines) == 1 and len(words) == 1
            role, token, jobs = self._parse(number, ["admin", *words] if is_only_token else words)
            if token.startswith(_CERTIFICATE):
                name = token.removeprefix(_CERTIFICATE)
                by_name[name] = Credential(name=name, role=role, jobs=jobs, kind="certificate")
            else:
                by_digest[self._digest(token)] = Credential(name=_short_name(token), role=role, jobs=jobs)
        if not lines:
            raise UsageError(f"no token in the token file: {self._path}", hint=_FORM)
        self._by_digest, self._by_name = by_digest, by_name

    def _parse(self, number: int, words: list[str]) -> tuple[Role, str, tuple[str, ...]]:
        # What is wrong is not quoted: it may be a token.
        where = f"{self._path}, line {number}"
        if len(words) < 2 or words[0] not in ROLES:
            raise UsageError(f"invalid line of a token file: {where}", hint=_FORM)
        token = words[1]
        if token.startswith(_CERTIFICATE) and "@" in token:
            # It stands behind the names of workers, after an @.
            raise UsageError(f"the name of a certificate contains @: {where}", hint="name one of its DNS names")
        if len(token) < MIN_TOKEN_CHARS and not token.startswith(_CERTIFICATE):
            raise UsageError(
                f"a token has fewer than {MIN_TOKEN_CHARS} characters: {where}",
                hint="create one with: openssl rand -hex 32",
            )
        return ROLES[words[0]], token, tuple(words[2:])


_FORM = f"write one token alone, or lines ROLE TOKEN [JOB...]; roles: {', '.join(ROLES)}"


def names_of(certificate: dict[str, Any]) -> list[str]:
    """The names of a certificate as ``ssl`` tells it: its common name, then its DNS names."""
    subject = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return [*subject, *(value for key, value in certificate.get("subjectAltName", ()) if key == "DNS")]


def _short_name(token: str) -> str:
    """A name of a token that can be shown: 32 bits of its hash."""
    return hashlib.blake2b(token.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
