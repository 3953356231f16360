"""Rules of sessions that the frontier hands out: which needs they serve now, who logs them in, and what ends them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from skitter.frontier.rules.jars import JarRules
from skitter.frontier.tables import LeaseRow, Tables
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Entry
from skitter.model.session import (
    LOGIN_NEED,
    POOL,
    SESSION_NEED,
    SessionLogin,
    SessionRecord,
    SessionState,
    login_of,
    pool_names,
    session_of_need,
)
from skitter.policy.sessions import LOGIN_ASK_SECONDS, LOGIN_SECONDS, MAX_NEEDS, SessionRules


class HandedOutSessions:
    """The sessions of a run, in one transaction."""

    def __init__(self, tables: Tables, now: float, rules: SessionRules, jars: JarRules) -> None:
        self._tables = tables
        self._jars = jars
        self._now = now
        self.rules = rules
        self._loaded: dict[str, SessionRecord] = {}
        self._pool = pool_names(rules.pool)
        self.logins: list[SessionLogin] = []
        """Those that the worker of this call is asked to log in."""

    # ---- granting

    def serve(self, served: Sequence[str]) -> tuple[str, ...]:
        """The needs that a worker can be granted, which serves these by itself; sessions that are worn are replaced."""
        queued = [need for need, _ in self._tables.needs(MAX_NEEDS)]
        if self.rules.is_on:
            names = {session_of_need(need) or login_of(need) for need in queued} - {""}
            if POOL in names:
                names = (names - {POOL}) | set(self._pool)
            self._load(names)
            logging_in = {login_of(need) for need in queued}
            for name in sorted(names):
                self._look_at(name, login_is_queued=name in logging_in)
        return tuple(need for need in queued if self.is_served(need, served))

    def is_served(self, need: str, served: Collection[str]) -> bool:
        """Whether each word of a need is served: by the worker, or by a session that is free."""
        return all(word in served or self._is_free(word) for word in need.split())

    def _is_free(self, word: str) -> bool:
        if not self.rules.is_on or (word == SESSION_NEED + POOL and not self._pool):
            # The run goes on with other settings, which hand out none.
            return word.startswith((LOGIN_NEED, SESSION_NEED))
        if word.startswith(LOGIN_NEED):
            return self.rules.may_log_in(self._loaded[word[len(LOGIN_NEED) :]])
        if not word.startswith(SESSION_NEED):
            return False
        name = word[len(SESSION_NEED) :]
        names = self._pool if name == POOL else [name]
        return any(self.rules.is_free(self._loaded[name], self._now) for name in names)

    def _look_at(self, name: str, *, login_is_queued: bool) -> None:
        record, now = self._loaded[name], self._now
        if self.rules.is_worn(record, now):
            self._replace(name)
        is_late = record.state is SessionState.LOGGING_IN and now > record.since + LOGIN_SECONDS
        if is_late and not login_is_queued:
            self.rules.fail_login(record, now)
            self._save(name)
        if record.state is SessionState.EXPIRED and now >= record.since:
            self.logins.append(SessionLogin(name, record.generation))
            record.since = now + LOGIN_ASK_SECONDS
            self._save(name)

    def grant(self, need: str, epoch: int) -> str:
        """Take a session for a request: its name and generation, or nothing if the need names none."""
        name = login_of(need)
        is_login = bool(name)
        if not is_login and (name := session_of_need(need)) == POOL and not self._pool:
            return ""
        if name == POOL:
            free = [name for name in self._pool if self.rules.is_free(self._loaded[name], self._now)]
            name = min(free, key=lambda name: (self._loaded[name].used_at, self._pool.index(name)))
        if not name:
            return ""
        record = self._loaded[name]
        record.in_flight += 1
        record.uses += not is_login
        record.used_at = epoch
        self._save(name)
        return f"{name} {record.generation}"

    def proxy_of(self, taken: str) -> str:
        """The proxy that a session keeps which was just taken; empty: none."""
        return self._loaded[taken.rpartition(" ")[0]].proxy if taken else ""

    def keep_proxy(self, taken: str, proxy: str) -> None:
        """Note the proxy that such a session was granted with."""
        if taken and self.rules.keeps_proxy:
            name = taken.rpartition(" ")[0]
            self._loaded[name].proxy = proxy
            self._save(name)

    # ---- the end of leases

    def ended(self, lease: LeaseRow) -> None:
        """A lease is over, however it ended."""
        name, _ = self._of(lease)
        self._loaded[name].in_flight -= 1
        self._save(name)

    def given_back(self, lease: LeaseRow) -> None:
        """It was not used after all."""
        name, generation = self._of(lease)
        record = self._loaded[name]
        if record.generation == generation and record.uses and not (lease.row and login_of(lease.row.need)):
            record.uses -= 1

    def committed(self, lease: LeaseRow, outcome: Outcome) -> None:
        """What an accepted outcome tells of its session."""
        name, generation = self._of(lease)
        record = self._loaded[name]
        if record.generation != generation:
            return
        if lease.row is not None and login_of(lease.row.need):
            if outcome.ending is not Ending.RETRY and record.state is SessionState.LOGGING_IN:
                record.logins += sum(login_of(link.need) == name for link in outcome.links) - 1
                if record.logins <= 0 and outcome.ending in (Ending.FAILED, Ending.EXCLUDED):
                    self.rules.fail_login(record, self._now)
                elif record.logins <= 0:
                    self.rules.end_login(record, self._now)
                self._save(name)
        elif record.state is SessionState.READY and outcome.session_news is not None and outcome.session_news.expired:
            self._replace(name)

    def log_in(self, name: str, generation: int, entries: Sequence[Entry], *, failed: bool) -> bool:
        """Whether the login that a worker has begun counts: only the first one of a generation does."""
        self._load([name])
        record = self._loaded[name]
        if record.state is not SessionState.EXPIRED or record.generation != generation:
            return False
        if failed:
            self.rules.fail_login(record, self._now)
        elif entries:
            record.state, record.since, record.logins = SessionState.LOGGING_IN, self._now, len(entries)
        else:
            self.rules.end_login(record, self._now)
        self._save(name)
        return True

    # ---- records

    def _of(self, lease: LeaseRow) -> tuple[str, int]:
        name, _, generation = lease.session.rpartition(" ")
        self._load([name])
        return name, int(generation)

    def _load(self, names: Collection[str]) -> None:
        missing = sorted(set(names) - self._loaded.keys())
        if missing:
            found = self._tables.sessions(missing)
            for name in missing:
                self._loaded[name] = found.get(name) or self.rules.new(self._now)

    def _replace(self, name: str) -> None:
        self.rules.replace(self._loaded[name], self._now)
        self._jars.clear(name)
        self._save(name)

    def _save(self, name: str) -> None:
        self._tables.save_session(name, self._loaded[name])
