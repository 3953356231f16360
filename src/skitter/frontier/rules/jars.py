"""Rules of jars: how the cookies of a commit are taken in, and which version of its jars a lease tells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from skitter.frontier.tables import JobRow, Tables
from skitter.model.session import CookieNews, Jar, JarRef, domains_above
from skitter.model.url import host_name
from skitter.policy.cookies import MAX_JARS, merged


class JarRules:
    """The jars of a run, in one transaction."""

    def __init__(self, tables: Tables, record: JobRow, now: float) -> None:
        self._tables = tables
        self._record = record
        self._now = now
        self._current: set[tuple[str, str]] = set()
        """Jars that outcomes of this call have changed, and that were as their worker knew them."""
        self.versions: dict[str, int] = {}
        """By host key, of those that were loaded and have a jar."""

    def load(self, host_keys: Iterable[str]) -> None:
        """Find the newest version of the jars of these hosts."""
        names = {key: domains_above(host_name(f"{key}/")) for key in set(host_keys)}
        found = self._tables.jar_versions(sorted({name for above in names.values() for name in above}))
        for key, above in names.items():
            # Of two that have jars the longer one is the registrable domain: the other is a public suffix.
            version = next((found[name] for name in above if name in found), 0)
            if version:
                self.versions[key] = version

    def take(self, news: CookieNews) -> int:
        """Change a jar; its version after it, or 0 if it was not as the worker knew it."""
        record = self._record
        known = next(iter(self._tables.jars(news.session, [news.domain])), None)
        record.jar_version += 1
        if known is None:
            record.jars += 1
        self._tables.save_jar(
            Jar(
                session=news.session,
                domain=news.domain,
                version=record.jar_version,
                cookies=merged(known.cookies if known is not None else (), news.cookies),
                changed_at=self._now,
            )
        )
        if record.jars > MAX_JARS:
            self._tables.drop_oldest_jar()
            record.jars -= 1
        key = (news.session, news.domain)
        if (known.version if known is not None else 0) != news.base and key not in self._current:
            return 0
        self._current.add(key)
        return record.jar_version

    def clear(self, session: str) -> None:
        """Forget the cookies of a session; the jars stay, so that workers which know them learn of it."""
        for jar in self._tables.jars_of(session):
            self._record.jar_version += 1
            self._tables.save_jar(
                msgspec.structs.replace(jar, version=self._record.jar_version, cookies=[], changed_at=self._now)
            )

    def read(self, wanted: Sequence[JarRef]) -> list[Jar]:
        """The jars that are there, and are not as the caller knows them."""
        domains: defaultdict[str, list[str]] = defaultdict(list)
        for ref in wanted:
            domains[ref.session].append(ref.domain)
        found = [jar for session, some in domains.items() for jar in self._tables.jars(session, some)]
        known = {(ref.session, ref.domain): ref.version for ref in wanted}
        return [jar for jar in found if known[jar.session, jar.domain] != jar.version]
