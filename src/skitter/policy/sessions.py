"""Policy of sessions that the frontier hands out: when one may be used, and when it is replaced. Pure.

``10_sessions.lua`` has the same rules once more, for Redis.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from skitter.model.session import SessionRecord, SessionState
from skitter.settings import Sessions

LOGIN_ASK_SECONDS = 30.0
"""A worker that was asked to log a session in has this long to begin; then another one is asked."""
LOGIN_SECONDS = 600.0
"""A login that has not ended by then has failed, unless a request of it is still queued: its host may be paused."""
LOGIN_RETRY_SECONDS = 5.0
"""After a first failed login; doubles."""
MAX_LOGIN_FAILURES = 3
"""After so many in a row a session is used as it is: its pages tell what is wrong."""
MAX_NEEDS = 256
"""Needs that one call looks at: those that most queued requests have."""


class SessionRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of sessions, and whether the spider logs them in."""

    pool: int = 0
    exclusive: bool = False
    max_uses: int | None = None
    max_seconds: float | None = None
    login: bool = False
    keeps_proxy: bool = False
    """A session has one proxy of the job's pool, as long as that is free."""

    @property
    def is_on(self) -> bool:
        """Whether the frontier keeps records of sessions."""
        return self.pool > 0 or self.exclusive or self.login or self.keeps_proxy

    def new(self, now: float) -> SessionRecord:
        """A session that was never used."""
        return SessionRecord(state=SessionState.EXPIRED if self.login else SessionState.READY, born_at=now)

    def is_worn(self, record: SessionRecord, now: float) -> bool:
        """Whether it is ready, and to be replaced by its uses or its age."""
        if record.state is not SessionState.READY:
            return False
        is_old = self.max_seconds is not None and now >= record.born_at + self.max_seconds
        return is_old or (self.max_uses is not None and record.uses >= self.max_uses)

    def is_free(self, record: SessionRecord, now: float) -> bool:
        """Whether a page may be granted with it."""
        is_idle = not self.exclusive or record.in_flight == 0
        return record.state is SessionState.READY and is_idle and not self.is_worn(record, now)

    def may_log_in(self, record: SessionRecord) -> bool:
        """Whether a request of its login may be granted, also when the login is over: what it has left must end."""
        is_idle = not self.exclusive or record.in_flight == 0
        return record.state is not SessionState.EXPIRED and is_idle

    def replace(self, record: SessionRecord, now: float) -> None:
        """It is over; another one takes its name, and has to be logged in."""
        record.generation += 1
        record.uses, record.logins, record.since, record.born_at, record.proxy = 0, 0, 0.0, now, ""
        record.state = SessionState.EXPIRED if self.login else SessionState.READY

    def fail_login(self, record: SessionRecord, now: float) -> None:
        """Record a failed login; another one follows, a few times.

        That is one of another generation: with the same ids, its requests would be duplicates.
        """
        record.failures += 1
        record.logins = 0
        if record.failures >= MAX_LOGIN_FAILURES:
            self.end_login(record, now, keep_failures=True)
        else:
            record.generation += 1
            record.state = SessionState.EXPIRED
            record.since = now + LOGIN_RETRY_SECONDS * 2 ** (record.failures - 1)

    @staticmethod
    def end_login(record: SessionRecord, now: float, *, keep_failures: bool = False) -> None:
        """It is ready for use."""
        record.state, record.since, record.born_at, record.uses = SessionState.READY, 0.0, now, 0
        if not keep_failures:
            record.failures = 0


@lru_cache(maxsize=64)
def rules_of(settings: Sessions, *, login: bool, keeps_proxy: bool) -> SessionRules:
    """Return the rules of a job's settings. ``login``: its spider logs sessions in. ``keeps_proxy``: see there."""
    return SessionRules(
        pool=settings.session_pool,
        exclusive=settings.exclusive_sessions,
        max_uses=settings.max_session_uses,
        max_seconds=settings.max_session_seconds,
        login=login,
        keeps_proxy=keeps_proxy,
    )
