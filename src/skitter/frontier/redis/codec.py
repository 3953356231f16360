"""Encoding of the scripts' arguments and of what lies in Redis, and decoding of the scripts' answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import msgspec

from skitter.errors import DamageError, UsageError
from skitter.frontier import contract
from skitter.frontier.damage_errors import checked_time
from skitter.frontier.dedup_settings import bloom_layout
from skitter.frontier.redis.errors import OtherFormatError
from skitter.frontier.redis.payload_prefix import restore_prefix, strip_prefix
from skitter.frontier.tables import JobRow, RequestState, Row, sessions_seen, storable
from skitter.model.intake import IntakeRecord
from skitter.model.item import Item, ItemKind
from skitter.model.job import JobSpec, State
from skitter.model.lease import SEED_ID, Call, Grant, Lease, Work, gate_id
from skitter.model.outcome import HostNews, HostTrouble, Outcome, RobotsRecord
from skitter.model.page_record import KnownPage, PageRecord
from skitter.model.proxy import HostProxies, ProxyRecord
from skitter.model.request import Entry
from skitter.model.session import (
    LOGIN_NEED,
    SESSION_NEED,
    Cookie,
    CookieNews,
    Jar,
    JarRef,
    SessionLogin,
    SessionRecord,
    SessionSeen,
)
from skitter.policy import host_budgets
from skitter.policy.sessions import rules_of
from skitter.settings import Proxies, Settings

FORMAT = 7
"""The format of what lies in Redis (1_job.lua)."""
LEASE_FIELDS = 14
_NO_SUCH_KEY = b"?"
_TRUSTS, _PERMITS, _EXACT, _PERMITS_EXACT, _REPEATS = b"!%d", b"?%d", b"=%d", b"&%d", b"*%d"
_WORKS = list(Work)
_encode = msgspec.msgpack.encode
_decode_spec = msgspec.msgpack.Decoder(JobSpec).decode


class JobRecord(msgspec.Struct):
    """The key ``job`` (begin.lua), as far as clients read it."""

    state: str
    run: int
    seeding: bool
    started_at: float
    ended_at: float
    reason: str
    queued: int
    delayed: int
    leased: int
    done: int
    redirected: int
    failed: int
    excluded: int
    position: int
    secret: str
    spec_version: int
    settings: dict[str, Any]
    samples: tuple[float, int, float, int] = (0.0, 0, 0.0, 0)
    changes: int = 0
    """Of a shard: how often a request has changed its state."""
    closed: bool = False
    paused_hosts: int = 0


class ExactRecord(msgspec.Struct):
    """The record of an exact set (dedup/lua/exact.lua)."""

    buckets: Annotated[int, msgspec.Meta(ge=1)]
    round: Annotated[int, msgspec.Meta(ge=1)]
    mean: Annotated[int, msgspec.Meta(ge=1)]
    count: int


class ScriptsRecord(msgspec.Struct):
    """The fields of the key ``job`` that only scripts read: for the search of damaged values."""

    next_seq: Annotated[int, msgspec.Meta(ge=1)]
    next_epoch: Annotated[float, msgspec.Meta(ge=0)]
    first_item: Annotated[int, msgspec.Meta(ge=1)]
    position: Annotated[int, msgspec.Meta(ge=0)]
    seed_losses: int
    seen: ExactRecord
    clock: Annotated[float, msgspec.Meta(ge=0, lt=1e11)]
    wall: Annotated[float, msgspec.Meta(ge=0, lt=1e11)]
    settings: dict[str, float | bool | list[dict[str, int]] | dict[str, float | bool | None] | str | None]
    crowded: dict[str, int] | list[Any] = {}
    short_workers: dict[str, tuple[int, int, float, float]] | list[Any] = {}
    shared_at: float = 0.0
    held_seconds: float = 0.0
    needy: Annotated[int, msgspec.Meta(ge=0)] = 0
    samples: tuple[float, int, float, int] = (0.0, 0, 0.0, 0)
    delivered: ExactRecord | None = None
    intakes: Annotated[int, msgspec.Meta(ge=0)] = 0
    shortened: tuple[float, float, float] = (0.0, 0.0, 0.0)
    reschedule_after: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    closing: tuple[str, float] = ("", 0.0)
    pooled: bool = False
    proxy_serial: Annotated[int, msgspec.Meta(ge=0)] = 0
    proxy_draw: Annotated[int, msgspec.Meta(ge=0)] = 1
    proxy_hosts: Annotated[int, msgspec.Meta(ge=0)] = 0
    jars: Annotated[int, msgspec.Meta(ge=0)] = 0
    jar_version: Annotated[int, msgspec.Meta(ge=0)] = 0
    closed: bool = False


class _Outline(msgspec.Struct):
    """The fields of the key ``job`` that every format has."""

    format: int = 0
    shards: int = 1
    run: int = 1


class BegunRecord(msgspec.Struct, array_like=True):
    """The key ``begun``."""

    token: str
    begun: str
    over: int
    changed: str = ""
    """The token of the newest change of settings since."""


class SinkRecord(msgspec.Struct, array_like=True):
    """A target in ``RUN:sinks``."""

    position: int
    closed: bool
    owner: str
    owned_until: float
    rejected: int = 0
    trouble: str = ""


_decode_outline = msgspec.msgpack.Decoder(_Outline).decode
decode_record = msgspec.msgpack.Decoder(JobRecord).decode
decode_sink = msgspec.msgpack.Decoder(SinkRecord).decode
decode_intake = msgspec.msgpack.Decoder(IntakeRecord).decode
decode_proxy = msgspec.msgpack.Decoder(ProxyRecord).decode
decode_host_proxies = msgspec.msgpack.Decoder(HostProxies).decode
decode_session = msgspec.msgpack.Decoder(SessionRecord).decode
_decode_jar = msgspec.msgpack.Decoder(tuple[int, float, list[Cookie]]).decode
decode_page_record = msgspec.msgpack.Decoder(PageRecord).decode


def _unreadable(what: str) -> DamageError:
    return DamageError(f"damaged, or not written by skitter: {what}", hint="use another --job, or another /DB")


def _outline(record: bytes, what: str = "the record of the job") -> _Outline:
    try:
        return _decode_outline(record)
    except msgspec.DecodeError as error:
        raise _unreadable(what) from error


def check_format(record: bytes, job_name: str) -> None:
    """OtherFormatError for a job that another version has written in another format."""
    found = _outline(record, f"job {job_name}").format
    if found != FORMAT:
        age = "a newer" if found > FORMAT else "an older"
        raise OtherFormatError(
            f"written by {age} skitter (format {found}, this one reads {FORMAT}): job {job_name}",
            hint="use the skitter that wrote it, or another --job",
        )


def shards_of(record: bytes) -> int:
    """The number of shards of a job of any format."""
    return _outline(record).shards


def run_of(record: bytes) -> int:
    """The run of a job of any format."""
    return _outline(record).run


def read_spec(packed: bytes) -> JobSpec:
    """The specification of a job."""
    try:
        return _decode_spec(packed)
    except msgspec.DecodeError as error:
        raise _unreadable("the record of the job") from error


def job_row(record: bytes, spec: JobSpec) -> JobRow:
    """The record and the specification of a job as a JobRow."""
    try:
        job = decode_record(record)
    except msgspec.DecodeError as error:
        raise _unreadable("the record of the job") from error
    return JobRow(
        spec=spec,
        secret=bytes.fromhex(job.secret),
        state=State(job.state),
        run=job.run,
        seeding=job.seeding,
        started_at=checked_time(job.started_at),
        ended_at=checked_time(job.ended_at),
        reason=job.reason,
        queued=job.queued,
        delayed=job.delayed,
        leased=job.leased,
        done=job.done,
        redirected=job.redirected,
        failed=job.failed,
        excluded=job.excluded,
        position=job.position,
        closed=job.closed,
        sampled_at=(job.samples[0], job.samples[2]),
        sampled_done=(job.samples[1], job.samples[3]),
    )


def settings_of(spec: JobSpec, shards: int = 1) -> bytes:
    """The settings that the scripts apply, in each of so many shards."""
    settings = Settings.from_layers([("the job", spec.settings)])
    politeness, retry, limits = settings.politeness, settings.retry, settings.limits
    keeps_proxy = settings.proxies.proxy_rotation == "session"
    sessions = rules_of(settings.sessions, login=spec.login, keeps_proxy=keeps_proxy)
    if sessions.is_on and shards > 1:
        raise UsageError(
            "a job with shards cannot manage sessions: session_pool, exclusive_sessions, proxy_rotation=session, or a"
            " spider with login",
            hint="start the job without ?shards=N, under another name if it exists; cookies work in shards too",
        )
    forgetful: dict[str, Any] = {}
    if settings.dedup.dedup == "bloom":
        forgetful["layout"] = bloom_layout(settings.dedup, shards)
    elif settings.dedup.dedup_seconds is not None:
        forgetful["dedup_seconds"] = settings.dedup.dedup_seconds
    return _encode(
        {
            **forgetful,
            **_pool_settings(settings.proxies, shards),
            "delay_seconds": politeness.delay_seconds,
            "per_host": politeness.per_host,
            "per_ip": politeness.per_ip,
            "obey_robots": politeness.obey_robots,
            "robots_seconds": politeness.robots_seconds,
            "host_backoff_seconds": politeness.host_backoff_seconds,
            "burst_pages": politeness.burst_pages,
            "burst_seconds": politeness.burst_seconds,
            "target_concurrency": politeness.target_concurrency,
            "max_delay_seconds": politeness.max_delay_seconds,
            "max_attempts": retry.max_attempts,
            "retry_delay_seconds": retry.retry_delay_seconds,
            "retry_priority": retry.retry_priority,
            "max_pages": limits.max_pages,
            "max_pages_per_host": limits.max_pages_per_host,
            "max_in_flight": None if limits.max_in_flight is None else max(1, limits.max_in_flight // shards),
            "trap_pages": settings.traps.trap_pages if settings.traps.traps == "strict" else None,
            "trap_signs": host_budgets.TRAP_SIGNS,
            "lease_seconds": limits.lease_seconds,
            "max_outbox_items": limits.max_outbox_items,
            "bury_batch": contract.BURY_BATCH,
            "skips_delivered": settings.dedup.dedup_scope == "job",
            "recrawl": settings.recrawl.is_on,
            "recrawl_due": settings.recrawl.recrawl == "due",
            "stay": settings.recrawl.stay,
            "on_close": spec.on_close,
            "sessions": msgspec.to_builtins(sessions) if sessions.is_on else None,
        }
    )


def pool_text(proxies: Proxies, shards: int = 1) -> str:
    """The settings of a pool in each of so many shards, for scripts: they read them only where a job has one."""
    per_proxy = max(1, proxies.per_proxy // shards)
    return f"{per_proxy} {proxies.proxy_strategy} {proxies.proxy_rotation} {proxies.proxy_ban_seconds!r}"


DEFAULT_POOL = pool_text(Proxies())
"""Of a job whose settings have none."""


def _pool_settings(proxies: Proxies, shards: int) -> dict[str, Any]:
    """Nothing, where a job uses no pool: each script reads the job's record."""
    told, text = {"proxy_pool": True} if proxies.proxy_pool else {}, pool_text(proxies, shards)
    return told if text == DEFAULT_POOL else {**told, "pool": text}


# ---- requests


def raw_id(request_id: int) -> bytes:
    return request_id.to_bytes(8, "big", signed=True)


def read_id(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def stored_need(need: str) -> str:
    """A need as Redis has it: a part of keys' names, which colons separate."""
    return need.replace(":", "=")


SESSION_WORD, LOGIN_WORD = stored_need(SESSION_NEED), stored_need(LOGIN_NEED)


def read_need(stored: bytes) -> str:
    """A need as it was given."""
    return stored.decode().replace("=", ":")


def pack_entries(arguments: list[Any], entries: Iterable[Entry]) -> None:
    """Append the entries to the arguments of a script, four arguments each (add.lua)."""
    for entry in entries:
        priority, host_key = entry.priority, entry.host_key.encode()
        if priority:
            priority = max(-contract.MAX_PRIORITY, min(priority, contract.MAX_PRIORITY))
        is_marked = entry.repeats or entry.permits or entry.exact
        ordered = _mark(entry) % priority if is_marked else b"%d" % priority
        arguments += (
            b"%d" % entry.id,
            host_key,
            ordered if not entry.need else b"%b@%b" % (ordered, stored_need(entry.need).encode()),
            entry.id.to_bytes(8, "big", signed=True) + strip_prefix(entry.payload, host_key),
        )


def _mark(entry: Entry) -> bytes:
    """The form of a priority with a mark (3_requests.lua)."""
    if entry.trusts:
        return _TRUSTS
    if entry.permits:
        return _PERMITS_EXACT if entry.exact else _PERMITS
    return _EXACT if entry.exact else _REPEATS


def read_row(fields: Sequence[Any]) -> Row:
    """A row of the hash ``requests`` (3_requests.lua), without its id."""
    seq, host, priority, state, attempts, losses, alone, blocks, *rest = fields
    not_before, status, error_class, error, ended, load, need, *by_proxy = rest
    return Row(
        seq=seq,
        id=0,
        host_key=host.decode(),
        priority=int(priority),
        payload=restore_prefix(load, host),
        state=RequestState(state),
        attempts=attempts,
        losses=losses,
        losses_alone=alone,
        blocks=blocks,
        not_before=float(not_before),
        status=status,
        error_class=error_class.decode(),
        error=error.decode(),
        ended_at=float(ended),
        need=read_need(need),
        proxy_failures=by_proxy[0] if by_proxy else 0,
    )


# ---- leases


def lease_key(lease: Lease) -> bytes:
    """The key of a lease in the store; one that does not exist for a lease that was never granted."""
    if lease.work is Work.PAGE:
        return raw_id(lease.id)
    if lease.work is Work.ROBOTS:
        return b"g" + lease.host_key.encode() if lease.id == gate_id(lease.host_key) else _NO_SUCH_KEY
    return b"s" if lease.id == SEED_ID else _NO_SUCH_KEY


def pack_leases(arguments: list[Any], leases: Iterable[Lease]) -> None:
    for lease in leases:
        arguments += (lease_key(lease), lease.epoch)


def read_grant(answer: Sequence[Any], store: str, call: Call) -> Grant:
    state, run, ask_again, blocked_by, now, deadline, permitted, flat, recovered, workers, logins, reign, _ = answer
    leased_at, ends_at = float(now), float(deadline)
    leases = []
    for place in range(0, len(flat), LEASE_FIELDS):
        fields = flat[place : place + LEASE_FIELDS]
        number, raw, epoch, host, payload, attempts, window, robots, trusted, distance, page, *identity = fields
        proxy, jar, session = identity
        work, host_key = _WORKS[number], host.decode()
        if work is Work.PAGE:
            request_id = int.from_bytes(raw, "big", signed=True)
        else:
            request_id = gate_id(host_key) if work is Work.ROBOTS else SEED_ID
        leases.append(
            Lease(
                work,
                request_id,
                epoch,
                host_key,
                payload=restore_prefix(payload, host),
                attempts=attempts,
                leased_at=leased_at,
                deadline=ends_at,
                start_seconds=float(window) if window else None,
                pace_seconds=float(distance) if distance else 0.0,
                robots_version=robots,
                trusted=trusted == 1,
                page=decode_page_record(page) if page else None,
                proxy=proxy.decode(),
                jar=jar,
                session=session.decode(),
            )
        )
    return Grant(
        leases=leases,
        state=State(state.decode()),
        run=run,
        ask_again_seconds=float(ask_again),
        workers=workers,
        blocked_by=blocked_by.decode(),
        recovered=sorted((name.decode(), count) for name, count in zip(recovered[::2], recovered[1::2], strict=True)),
        permitted=[key.decode() for key in permitted],
        permits=(call.permits if call.run == run else 0) + len(permitted),
        now=leased_at,
        logins=[SessionLogin(n.decode(), number) for n, number in zip(logins[::2], logins[1::2], strict=True)],
        store=reign.decode() or store,
    )


# ---- outcomes

_KINDS = tuple(bytes([kind]) for kind in ItemKind)


def pack_outcomes(arguments: list[Any], outcomes: Iterable[Outcome]) -> None:
    """Append the outcomes to the arguments: one with everything small, then what is large or binary (commit.lua)."""
    place = len(arguments)
    arguments.append(b"")
    heads: list[tuple[Any, ...]] = []
    for outcome in outcomes:
        tally, error_class = outcome.tally, outcome.error_class
        head: tuple[Any, ...] = (
            outcome.lease.epoch,
            outcome.ending,
            len(outcome.items),
            len(outcome.links),
            outcome.status,
            [part for pair in tally.items() for part in pair] if tally else None,
            None if outcome.news is None else _news(outcome.news),
        )
        page, proxy_news, cookies = outcome.page, outcome.proxy_news, outcome.cookies
        is_special = error_class or outcome.more or outcome.error or not outcome.touched or outcome.retry_seconds
        news = outcome.session_news
        if is_special or page or proxy_news or cookies or news:
            error = storable(outcome.error)
            head += (outcome.touched, outcome.more, error_class, error, outcome.retry_seconds, outcome.after)
            has_identity = proxy_news is not None or cookies is not None or news is not None
            if page is not None or outcome.max_attempts or has_identity:
                head += (None if page is None else page.next_at, outcome.max_attempts)
            if has_identity:
                head += (
                    None if proxy_news is None else (proxy_news.fault, proxy_news.latency_seconds, proxy_news.bytes),
                    None if cookies is None else pack_cookies(cookies),
                    news is not None and news.expired,
                )
        heads.append(head)
        arguments.append(lease_key(outcome.lease))
        if outcome.news is not None and outcome.news.robots is not None:
            record = outcome.news.robots
            arguments.append(_encode(RobotsRecord(record.text, record.crawl_delay_seconds, outcome.lease.epoch)))
        if page is not None:
            arguments.append(_encode(page))
        arguments += [_KINDS[item.kind] + item.record for item in outcome.items]
        if outcome.links:
            pack_entries(arguments, outcome.links)
    arguments[place] = _encode(heads)


def pack_cookies(news: CookieNews) -> tuple[Any, ...]:
    """What 9_jars.lua takes in."""
    return news.session, news.domain, news.base, news.cookies


def read_jar(session: str, domain: str, stored: bytes) -> Jar:
    """A jar as 9_jars.lua has packed it."""
    version, changed_at, cookies = _decode_jar(stored)
    return Jar(session=session, domain=domain, version=version, changed_at=changed_at, cookies=cookies)


def read_jars(wanted: Sequence[JarRef], found: Sequence[bytes | None]) -> list[Jar]:
    """The answer of read_jars.lua, without those whose version is known."""
    pairs = [(ref, stored) for ref, stored in zip(wanted, found, strict=True) if stored]
    jars = [(ref.version, read_jar(ref.session, ref.domain, stored)) for ref, stored in pairs]
    return [jar for known, jar in jars if known != jar.version]


def read_sessions(jars: Sequence[bytes], records: Sequence[bytes]) -> list[SessionSeen]:
    """The answer of list_sessions.lua."""
    names = [name.decode().partition(" ") for name in jars[::2]]
    found = [read_jar(name[0], name[2], stored) for name, stored in zip(names, jars[1::2], strict=True)]
    sessions = {name.decode(): decode_session(one) for name, one in zip(records[::2], records[1::2], strict=True)}
    return sessions_seen(found, sessions)


def _news(news: HostNews) -> tuple[Any, ...]:
    did = news.answered + 2 * news.unreachable + 4 * news.blocked
    if news.sign is not None:
        did += 256 if news.sign else 512
    if news.robots is not None:
        did += 24 if news.robots.text else 8
    elif news.retry_after_seconds is None:
        return did, news.latency_seconds, news.address
    crawl_delay = 0 if news.robots is None else news.robots.crawl_delay_seconds
    return did, news.latency_seconds, news.address, news.retry_after_seconds, crawl_delay


def read_troubles(answer: Iterable[Sequence[Any]]) -> list[HostTrouble]:
    return [
        HostTrouble(
            key=key.decode(),
            error_class=error_class.decode(),
            strikes=strikes,
            pause_seconds=float(pause),
            given_up=given_up == 1,
            rule=rule.decode(),
            pages=pages,
        )
        for key, error_class, strikes, pause, given_up, rule, pages in answer
    ]


def read_known_pages(flat: Sequence[Any]) -> list[KnownPage]:
    """The answer of known_pages.lua."""
    return [
        KnownPage(read_id(raw), host.decode(), restore_prefix(payload, host), float(due))
        for due, raw, host, payload in zip(*[iter(flat)] * 4, strict=True)
    ]


def read_items(first: int, elements: Sequence[bytes]) -> list[Item]:
    return [
        Item(
            first + n,
            read_id(element[:8]),
            int.from_bytes(element[8:12], "big"),
            element[13:],
            ItemKind(element[12]),
        )
        for n, element in enumerate(elements)
    ]
