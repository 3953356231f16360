"""Users of a master: a private file of names, roles and password hashes, and the key that signs their sessions.

The file is JSON, for its owner alone, and written by ``skitter user``. A master reads it again when it changes.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from skitter import private_files
from skitter.errors import UsageError
from skitter.frontier.http.wire import Role
from skitter.observe import events
from skitter.web.credentials import ROLES, Credential
from skitter.web.file_changes import FileChanges

DEFAULT_FILE = private_files.FOLDER / "users"
SESSION_SECONDS = 12 * 3600.0
MIN_PASSWORD_CHARS = 8
MAX_PASSWORD_CHARS = 1_000
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**15, 8, 1
"""32 MB and about 0.1 s for each password that is tried."""
_MAX_MEMORY = 64 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user as the file has it."""

    name: str
    role: str
    jobs: list[str] = []
    """Names or patterns such as ``shop-*``; none: every job."""
    salt: str
    hash: str
    """Of the password, by scrypt with the parameters below; base64."""
    n: int = SCRYPT_N
    r: int = SCRYPT_R
    p: int = SCRYPT_P

    @property
    def version(self) -> str:
        """A short name of this password, role and jobs: sessions of others end."""
        text = "\n".join((self.name, self.role, *self.jobs, self.hash))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class _File(msgspec.Struct, kw_only=True):
    version: int = 1
    key: str
    users: list[User] = []
    changed_by: str = ""
    """Who wrote it, for the audit trail."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """What a session's cookie says, signed."""

    id: str
    user: str
    version: str
    expires_at: float


class UserFile:
    """The users of a file. ``skitter user`` changes it, a master reads it."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self._path = path
        self._changes = FileChanges(path)
        self._may_create = create
        self._content = self._read_or_make()
        self._ended: dict[str, float] = {}
        """Sessions that were logged out, until they would have expired."""

    # ---- changes, by the command line

    @property
    def users(self) -> list[User]:
        return sorted(self._content.users, key=lambda user: user.name)

    @property
    def changed_by(self) -> str:
        """Who changed the file last, as its writer says."""
        return self._content.changed_by

    def put(self, name: str, password: str, role: str, jobs: list[str], *, by: str = "") -> None:
        """Add a user, or replace one. ``by``: who does, for the audit trail."""
        if not _NAME.fullmatch(name):
            raise UsageError(f"invalid user name: {name}", hint="use letters, digits, . _ and -, as in anna")
        check_role(role)
        if not MIN_PASSWORD_CHARS <= len(password) <= MAX_PASSWORD_CHARS:
            raise UsageError(
                f"a password must have {MIN_PASSWORD_CHARS} to {MAX_PASSWORD_CHARS} characters: {len(password)}",
                hint="create one with: openssl rand -base64 18",
            )
        salt = secrets.token_bytes(16)
        encoded = [base64.b64encode(each).decode() for each in (salt, _scrypt(password, salt))]
        user = User(name=name, role=role, jobs=jobs, salt=encoded[0], hash=encoded[1])
        with self._alone():
            self._content.users = [*(one for one in self._content.users if one.name != name), user]
            self._write(by)

    def remove(self, name: str, *, by: str = "") -> bool:
        """Remove a user; False: there is none."""
        with self._alone():
            left = [user for user in self._content.users if user.name != name]
            if len(left) == len(self._content.users):
                return False
            self._content.users = left
            self._write(by)
        return True

    # ---- a master's questions

    def read_again(self) -> list[User]:
        """The users of the file as it is now."""
        self._look()
        return self.users

    def check_password(self, name: str, password: str) -> User | None:
        """The user, if the password is right. Takes as long for a name that nobody has. For a thread."""
        self._look()
        user = self._find(name)
        known = user or _NOBODY
        given = _scrypt(password[:MAX_PASSWORD_CHARS], base64.b64decode(known.salt), n=known.n, r=known.r, p=known.p)
        is_right = hmac.compare_digest(given, base64.b64decode(known.hash))
        return user if is_right and user is not None else None

    def begin_session(self, user: User) -> str:
        """The text of a cookie."""
        session = Session(
            id=secrets.token_hex(16),
            user=user.name,
            version=user.version,
            expires_at=time.time() + SESSION_SECONDS,
        )
        payload = base64.urlsafe_b64encode(msgspec.json.encode(session)).rstrip(b"=")
        return f"{payload.decode()}.{self._signature(payload)}"

    def session_of(self, cookie: str) -> tuple[Credential, Session] | None:
        """Who a cookie stands for; None: it was changed, has expired, was logged out, or the user has changed."""
        self._look()
        payload, _, signature = cookie.partition(".")
        raw = payload.encode("ascii", "replace")
        if not hmac.compare_digest(self._signature(raw).encode(), signature.encode("ascii", "replace")):
            return None
        try:
            session = msgspec.json.decode(base64.urlsafe_b64decode(raw + b"=" * (-len(raw) % 4)), type=Session)
        except (ValueError, msgspec.MsgspecError):
            return None
        user = self._find(session.user)
        if user is None or session.expires_at <= time.time() or session.id in self._ended:
            return None
        if not hmac.compare_digest(user.version, session.version):
            return None
        credential = Credential(
            name=user.name,
            role=ROLES[user.role],
            jobs=tuple(user.jobs),
            kind="user",
            expires_at=session.expires_at,
        )
        return credential, session

    def end_session(self, session: Session) -> None:
        """Refuse a session from now on."""
        now = time.time()
        self._ended = {one: until for one, until in self._ended.items() if until > now}
        self._ended[session.id] = session.expires_at

    # ---- the file

    def _find(self, name: str) -> User | None:
        return next((user for user in self._content.users if user.name == name), None)

    def _signature(self, payload: bytes) -> str:
        digest = hmac.new(bytes.fromhex(self._content.key), payload, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def _look(self) -> None:
        if not self._changes.found():
            return
        try:
            self._content = self._read()
        except UsageError as error:
            # Those who were let in before still are.
            events.emit(events.MASTER_USERS_REFUSED(reason=str(error)))
        else:
            events.emit(events.MASTER_USERS_READ(users=len(self._content.users)))

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Change what the file has now, with no other command at it; UsageError if it cannot be written."""
        try:
            private_files.make_folder(self._path.parent)
            # Another file: the one with the users is replaced.
            with open(self._path.with_name(f"{self._path.name}.lock"), "w", opener=private_files.opener) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._content = self._read_or_make()
                yield
        except OSError as error:
            raise UsageError(f"the users cannot be written: {self._path}: {error.strerror or error}") from error

    def _read_or_make(self) -> _File:
        if self._may_create and not self._path.exists():
            return _File(key=secrets.token_hex(32))
        return self._read()

    def _read(self) -> _File:
        hint = f"skitter user add NAME --role ROLE --users {self._path}"
        try:
            content = msgspec.json.decode(private_files.read(self._path), type=_File)
            bytes.fromhex(content.key)
            for user in content.users:
                check_role(user.role)
                base64.b64decode(user.salt, validate=True)
                base64.b64decode(user.hash, validate=True)
        except OSError as error:
            raise UsageError(f"the users cannot be read: {self._path}: {error.strerror or error}", hint=hint) from error
        except (ValueError, msgspec.MsgspecError) as error:
            raise UsageError(f"not a users file: {self._path}", hint=hint) from error
        if content.version != 1:
            raise UsageError(
                f"the users file has another version: {self._path}", hint="use the same version of skitter for both"
            )
        return content

    def _write(self, by: str) -> None:
        self._content.changed_by = by
        scratch = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            with open(scratch, "w", encoding="utf-8", opener=private_files.opener) as file:
                file.write(msgspec.json.format(msgspec.json.encode(self._content)).decode() + "\n")
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(self._path)
        finally:
            scratch.unlink(missing_ok=True)


def check_role(role: str) -> Role:
    """The role of this name; UsageError for another one."""
    if role not in ROLES:
        raise UsageError(f"no such role: {role}", hint=f"one of {', '.join(ROLES)}")
    return ROLES[role]


def _scrypt(password: str, salt: bytes, *, n: int = SCRYPT_N, r: int = SCRYPT_R, p: int = SCRYPT_P) -> bytes:
    secret = password.encode("utf-8", "surrogateescape")
    return hashlib.scrypt(secret, salt=salt, n=n, r=r, p=p, maxmem=_MAX_MEMORY, dklen=32)


_NOBODY = User(name="", role="viewer", salt="AAAAAAAAAAAAAAAAAAAAAA==", hash="")
"""Stands for a user that is not there: its password is compared too, and is never right."""
