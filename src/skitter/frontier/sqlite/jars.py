"""Jars of cookies, one row for each session and registrable domain; and the sessions that are handed out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from skitter.frontier.sqlite.job_table import JobTable, typed
from skitter.frontier.sqlite.row_codec import encode, listed
from skitter.model.session import Cookie, Jar, SessionRecord

_COLUMNS = "session, domain, version, changed_at, cookies"
_decode_session = msgspec.msgpack.Decoder(SessionRecord).decode
_decode = msgspec.msgpack.Decoder(list[Cookie]).decode


class JarTable(JobTable):
    """A jar is found by its session and domain; the newest version of a domain's jars by an index."""

    def jars(self, session: str, domains: Sequence[str]) -> list[Jar]:
        return self._jars("session = ? AND domain IN (SELECT value FROM json_each(?))", session, listed(domains))

    def jar_versions(self, domains: Sequence[str]) -> dict[str, int]:
        found = self._execute(
            "SELECT domain, max(version) FROM jars INDEXED BY jars_domain WHERE job = ?"
            " AND domain IN (SELECT value FROM json_each(?)) GROUP BY domain",
            (self._job, listed(domains)),
        )
        return dict(typed(found.fetchall(), str, int))

    def save_jar(self, jar: Jar) -> None:
        self._execute(
            f"INSERT OR REPLACE INTO jars (job, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
            (self._job, jar.session, jar.domain, jar.version, jar.changed_at, encode(jar.cookies)),
        )

    def drop_oldest_jar(self) -> None:
        self._execute(
            "DELETE FROM jars WHERE job = ?1 AND (session, domain) IN (SELECT session, domain FROM jars WHERE job = ?1"
            " ORDER BY session != '', version LIMIT 1)",
            (self._job,),
        )

    def jars_of(self, session: str) -> list[Jar]:
        return self._jars("session = ?", session)

    def all_jars(self) -> list[Jar]:
        return self._jars("1 ORDER BY session, domain")

    def sessions(self, names: Sequence[str]) -> dict[str, SessionRecord]:
        found = self._execute(
            "SELECT name, record FROM sessions WHERE job = ? AND name IN (SELECT value FROM json_each(?))",
            (self._job, listed(names)),
        )
        return {name: _decode_session(record) for name, record in typed(found.fetchall(), str, bytes)}

    def save_session(self, name: str, session: SessionRecord) -> None:
        self._execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", (self._job, name, encode(session)))

    def all_sessions(self) -> dict[str, SessionRecord]:
        found = self._execute("SELECT name, record FROM sessions WHERE job = ? ORDER BY name", (self._job,))
        return {name: _decode_session(record) for name, record in typed(found.fetchall(), str, bytes)}

    def _jars(self, where: str, *values: object) -> list[Jar]:
        found = self._execute(f"SELECT {_COLUMNS} FROM jars WHERE job = ? AND {where}", (self._job, *values))
        return [
            Jar(session=session, domain=domain, version=version, changed_at=at, cookies=_decode(cookies))
            for session, domain, version, at, cookies in typed(found.fetchall(), str, str, int, float, bytes)
        ]
