"""The audit trail of a frontier for commands and the master: who acts, rows, verification, heads, pruning."""

from __future__ import annotations

import functools
import heapq
import os
import pwd
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

from skitter import private_files
from skitter.app.frontiers import HTTP_SCHEMES, is_redis, sqlite_file
from skitter.audit import trail as trails
from skitter.audit.entry import DONE, GENESIS, PRUNE, Draft, Entry, Stored, hash_of, read_entry
from skitter.audit.sqlite_table import ARCHIVE_SUFFIX, BEFORE_ALL, SqliteTrail
from skitter.audit.trail import OpenMutation, Trail
from skitter.audit.verification import ChainCheck
from skitter.errors import ExtraMissingError, UsageError
from skitter.model.audit import Actor, AuditRow
from skitter.model.secrets import shown_address
from skitter.schedule_store.store_urls import DEFAULT_FILE, FILE_SUFFIX, open_schedule_store

PAGE = 1000
"""Entries of one call to a store."""
UNKNOWN = "unknown"


class TrailFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows are wanted; what is empty does not matter."""

    job: str = ""
    actor: str = ""
    """The whole name, or its beginning: ``cli:`` is every command."""
    action: str = ""
    """The same: ``schedule.`` is everything about schedules."""
    since: float = 0.0
    limit: int = 100
    before: str = ""
    """The id of a row: those that are older."""


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """The chain of one store, as it was read."""

    store: str
    entries: int
    head: str
    problems: list[str] = []


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification has found."""

    ok: bool
    entries: int
    head: str
    """Hash of the last entry; of several chains, all hashes joined by commas."""
    problems: list[str]
    chains: list[Chain]


def local_actor(kind: str) -> Actor:
    """Whoever runs this process, as the operating system says: ``cli:USER@HOST`` or ``program:USER@HOST``."""
    user = os.geteuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = str(user)
    return Actor(f"{kind}:{name}@{socket.gethostname()}")


@asynccontextmanager
async def recorded(
    frontier: str, actor: Actor, action: str, *, job: str = "", details: dict[str, Any] | None = None
) -> AsyncIterator[OpenMutation]:
    """Record a mutation that is no call of a frontier and is made inside: intended before it, its outcome after it.

    Over a master nothing is recorded here: it records what it is asked to do.
    """
    if frontier.partition(":")[0] in HTTP_SCHEMES:
        yield OpenMutation(0)
        return
    draft = Draft(actor=actor, action=action, job=job, details=details or {})
    async with trails.recorded(_trails_of(frontier)[0], draft) as entry:
        yield entry


def _trails_of(frontier: str) -> Sequence[Trail]:
    """The chains of a frontier: that of its jobs first, then that of its schedules if it is another."""
    if not frontier:
        folder = private_files.FOLDER
        names = {path.name.removesuffix(ARCHIVE_SUFFIX) for path in folder.glob("*.db*") if _is_trail_file(path)}
        jobs = [SqliteTrail(folder / name, has_archive=True) for name in sorted(names)]
        return [*jobs, SqliteTrail(DEFAULT_FILE, has_archive=False)]
    scheme, _, rest = frontier.partition(":")
    if scheme == "sqlite" and rest:
        path, _ = sqlite_file(frontier)
        schedules = path.with_name(path.name + FILE_SUFFIX)
        return [SqliteTrail(path, has_archive=True), SqliteTrail(schedules, has_archive=False)]
    if is_redis(frontier):
        try:
            from skitter.audit.redis_trail import RedisTrail
        except ImportError as error:
            raise ExtraMissingError("the audit trail of a Redis", "redis") from error
        return [RedisTrail(frontier)]
    if scheme in HTTP_SCHEMES:
        from skitter.frontier.http.trail import http_trails

        return http_trails(frontier)
    shown = shown_address(frontier, is_server=True)
    raise UsageError(
        f"this store has no audit trail: {shown}", hint="use --frontier sqlite:PATH, redis://HOST or https://MASTER"
    )


def _is_trail_file(path: Path) -> bool:
    return path.name.endswith((".db", f".db{ARCHIVE_SUFFIX}"))


class Trails:
    """The chains of one frontier; an empty URL is the current folder. ``async with Trails(URL) as trails``."""

    def __init__(self, frontier: str) -> None:
        self._trails = _trails_of(frontier)
        # Files of jobs in a folder come and go.
        self._own = self._trails[0 if frontier else -1]
        self._is_folder = not frontier

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for trail in self._trails:
            await trail.close()

    async def rows(self, wanted: TrailFilter) -> list[AuditRow]:
        """Return mutations, the newest first."""
        found = [await _rows_of(trail, wanted) for trail in self._trails]
        return list(heapq.merge(*found, key=_order, reverse=True))[: wanted.limit]

    async def newest(self, action: str, most: int, **details: str) -> AuditRow | None:
        """Return the newest mutation with these details among so many entries of the store's own chain."""
        before: int | None = None
        for _ in range(0, most, PAGE):
            page = await self._own.entries_before(before, PAGE)
            for stored in page:
                entry = read_entry(stored)
                if entry is not None and entry.action == action and details.items() <= entry.details.items():
                    return _row(self._own.store, stored, entry, None)
            if not page:
                break
            before = page[-1].seq
        return None

    async def append(self, draft: Draft) -> None:
        """Record what is no call of a frontier and has been made, in the store's own chain."""
        if self._is_folder:
            # The chain is in the file of the schedules, which may not be there yet.
            schedules = open_schedule_store("", create=True)
            await schedules.read_all()
            await schedules.close()
        await self._own.append(draft)

    async def export(self) -> AsyncIterator[tuple[str, Stored]]:
        """Yield every entry as it is stored, and where: each chain from its beginning."""
        for trail in self._trails:
            async for stored in _entries_of(trail):
                yield trail.store, stored

    def chain(self, number: int) -> Trail | None:
        """Return one chain, for a client that reads and verifies it itself; None: there are fewer."""
        return self._trails[number] if 0 <= number < len(self._trails) else None

    async def verify(self, heads: Sequence[str] = ()) -> Verification:
        """Read all chains to their ends, and look for the noted heads in them."""
        noted = {word for head in heads for word in head.lower().split(",") if word}
        checks = []
        for trail in self._trails:
            check = ChainCheck(noted)
            async for stored in _entries_of(trail):
                check.read([stored])
            check.finish()
            checks.append((trail.store, check))
        chains = [
            Chain(store=store, entries=check.entries, head=check.head, problems=check.problems)
            for store, check in checks
            if check.entries
        ]
        lost = functools.reduce(lambda left, pair: left & pair[1].missing, checks, noted - {GENESIS})
        problems = [f"{chain.store}: {problem}" for chain in chains for problem in chain.problems]
        problems += [f"the given hash is not in the trail, whose end was removed or pruned: {head}" for head in lost]
        entries = sum(chain.entries for chain in chains)
        return Verification(ok=not problems, entries=entries, head=_joined(chains), problems=problems, chains=chains)

    async def head(self) -> str:
        """Return the hash of the last entry, to be noted elsewhere; of several chains, all, joined by commas."""
        return _joined(await self.chains())

    async def chains(self) -> list[Chain]:
        """Return the chains that have entries, with their heads."""
        ends = [(trail, await trail.entries_before(None, 1)) for trail in self._trails]
        return [Chain(store=trail.store, entries=last[0].seq, head=last[0].hash) for trail, last in ends if last]

    async def prune(self, before: float, actor: Actor) -> int:
        """Remove the entries that are older than this time; how many. An entry says so in their place.

        A chain that is not intact is left as it is: pruning must not hide what was done to it.
        """
        removed = 0
        for trail in self._trails:
            check, last, number = ChainCheck(), None, 0
            async for stored in _entries_of(trail):
                check.read([stored])
                entry = read_entry(stored)
                if entry is not None and entry.at < before and (last is None or stored.seq == last.seq + 1):
                    last, number = stored, number + 1
            check.finish()
            if check.problems:
                raise UsageError(
                    f"not pruned: {trail.store}: {check.problems[0]}", hint="skitter audit --verify shows more"
                )
            if last is not None:
                details = {"through": last.seq, "hash": last.hash, "removed": number}
                await trail.prune(last.seq, Draft(actor=actor, action=PRUNE, details=details, outcome=DONE))
                removed += number
        return removed


async def _entries_of(trail: Trail) -> AsyncIterator[Stored]:
    # Also what somebody has put before the first one.
    after = BEFORE_ALL
    while page := await trail.entries(after, PAGE):
        for stored in page:
            yield stored
        after = page[-1].seq


async def _rows_of(trail: Trail, wanted: TrailFilter) -> list[AuditRow]:
    """The newest rows of one chain: an outcome is met before the entry that it belongs to."""
    rows: list[AuditRow] = []
    outcomes: dict[int, Entry] = {}
    limit = _parsed(wanted.before)
    before: int | None = None
    at = time.time()
    while page := await trail.entries_before(before, PAGE):
        for stored in page:
            entry = read_entry(stored) or _unreadable(stored, at)
            at = entry.at
            if entry.of:
                outcomes[entry.of] = entry
                continue
            row = _row(trail.store, stored, entry, outcomes.pop(entry.seq, None))
            if row.at < wanted.since:
                return rows
            if (limit is None or _order(row) < limit) and _is_wanted(row, wanted):
                rows.append(row)
                if len(rows) >= wanted.limit:
                    return rows
        before = page[-1].seq
    return rows


def _row(store: str, stored: Stored, entry: Entry, end: Entry | None) -> AuditRow:
    outcome = entry.outcome or (end.outcome if end is not None else UNKNOWN)
    return AuditRow(
        id=f"{entry.at}:{stored.seq}:{store}",
        store=store,
        seq=stored.seq,
        at=entry.at,
        actor=entry.actor,
        claim=entry.claim,
        action=entry.action,
        job=entry.job,
        details=entry.details,
        before=entry.before,
        after=end.after if end is not None else entry.after,
        outcome=outcome,
        ended_at=end.at if end is not None else entry.at if entry.outcome else None,
        hash=stored.hash,
    )


def _unreadable(stored: Stored, at: float) -> Entry:
    """Stands for an entry that somebody has overwritten: it is listed, so that it is seen, before the next one."""
    outcome = f"unreadable: {hash_of(stored.body)}"
    return Entry(format=0, seq=stored.seq, previous="", at=at, actor="?", action="?", outcome=outcome)


def _is_wanted(row: AuditRow, wanted: TrailFilter) -> bool:
    return (
        wanted.job in ("", row.job)
        and row.actor.startswith(wanted.actor)
        and row.action.startswith(wanted.action)
        and row.at >= wanted.since
    )


def _order(row: AuditRow) -> tuple[float, int, str]:
    return row.at, row.seq, row.store


def _parsed(row_id: str) -> tuple[float, int, str] | None:
    if not row_id:
        return None
    at, _, rest = row_id.partition(":")
    seq, _, store = rest.partition(":")
    try:
        return float(at), int(seq), store
    except ValueError as error:
        raise UsageError(f"unknown row id: {row_id}", hint="use the id of a row of the previous page") from error


def _joined(chains: Sequence[Chain]) -> str:
    return ",".join(chain.head for chain in chains) or GENESIS
