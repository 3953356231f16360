"""The frontier contract on one Redis server: one call of a method is one script, and one round trip."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec

from skitter.dedup.hyperloglog import checked_changes, checked_registers
from skitter.dedup.lua_files import PACKED_SETTING, bucket_mean
from skitter.errors import JobError, UsageError
from skitter.frontier.contract import BATCH, FORGET_SECONDS, INTAKE_OWNER_SECONDS, MAX_PROXIES, SINK_OWNER_SECONDS
from skitter.frontier.dedup_settings import check_dedup, is_same_dedup, refuse_other_dedup
from skitter.frontier.redis import codec, consistency, report
from skitter.frontier.redis.client import RedisServer, flags
from skitter.frontier.redis.jobs import forget_runs, prefix_of, register
from skitter.frontier.redis.report import OutboxSeen
from skitter.frontier.tables import no_such_job, public_job
from skitter.model.consistency import Consistency
from skitter.model.host import Halt, HostCommand, HostFilter
from skitter.model.intake import IntakeProgress, IntakeSeen
from skitter.model.item import Item
from skitter.model.job import (
    Begun,
    CloseClaim,
    Command,
    Counts,
    FailedRequest,
    HostPage,
    Job,
    JobSpec,
    JobState,
    Report,
    SinkProgress,
    SinkSeen,
    State,
    StopReason,
    Trace,
)
from skitter.model.lease import ONCE, Call, Grant, Lease
from skitter.model.outcome import Committed, Outcome, RobotsRecord
from skitter.model.page_record import KnownPage, PageRecord
from skitter.model.proxy import ProxySeen, ProxyState, proxy_id
from skitter.model.request import Entry
from skitter.model.session import CookieNews, Jar, JarRef, SessionLogin, SessionSeen
from skitter.model.store_capacity import StoreCapacity
from skitter.model.worker import WorkerHeartbeat, WorkerSeen

_REVIVE_BATCH = 1000
_decode_robots = msgspec.msgpack.Decoder(RobotsRecord).decode


class OtherShardsError(Exception):
    """The job was begun meanwhile, with another number of shards."""

    def __init__(self, shards: int) -> None:
        super().__init__(shards)
        self.shards = shards


class RedisFrontier:
    """A Frontier in a Redis, for one job and one process. All its keys are on one server.

    A job in shards has one of these for each shard (``shards``).
    """

    def __init__(
        self, server: RedisServer, job_name: str, clock: Callable[[], float] | None = None, prefix: str = ""
    ) -> None:
        self._server = server
        self._name = job_name
        self._prefix = prefix or prefix_of(job_name)
        self._key = self._prefix + "job"
        self._clock = clock
        self._turn = asyncio.Lock()
        """Held by calls without a token: the store remembers the last answer to a worker, and no more."""
        self._client = secrets.token_hex(8)
        self._calls = 0
        self._given_by: dict[str, bytes] = {}
        """By target: the reign of the server whose items it got last."""
        self._spec: JobSpec | None = None
        self._spec_token: bytes = b""
        """The token of the ``begin`` that wrote the specification. A version could be given twice by a server that has
        lost its newest writes."""

    # ---- the job

    async def begin(self, spec: JobSpec, *, fresh: bool = False, sinks: Sequence[str] = ()) -> Begun:
        return await self.begin_with_shards(spec, fresh=fresh, sinks=sinks, shards=1, items=0)

    async def begin_with_shards(
        self, spec: JobSpec, *, fresh: bool, sinks: Sequence[str], shards: int, items: int
    ) -> Begun:
        """Begin a job with so many shards, which have ever had so many items. OtherShardsError: it has others."""
        check_dedup(spec, can_forget=True)
        settings = codec.settings_of(spec, shards)
        await self._server.check()
        # Before the job: a job that is not listed could not be dropped.
        await register(self._server.address, self._name)
        mean = await self._bucket_mean()
        while True:
            found = await self._row()
            version = codec.decode_record(found[0]).spec_version if found else 0
            before = codec.read_spec(found[1]) if found else spec
            same = before.same_work(spec) and is_same_dedup(before, spec)
            secret = secrets.token_hex(16)
            stored = spec.after(before)
            kept = stored.keeping_changes(before)
            changed = (b"", b"") if kept is stored else (msgspec.msgpack.encode(kept), codec.settings_of(kept, shards))
            how = "2" if found and before.is_begun(spec) else "1" if fresh else "0"
            head = (version, how, *flags([same]), msgspec.msgpack.encode(stored), settings, secret, mean)
            word, over = await self._call("begin", *head, shards, items, *changed, *sinks)
            if word == b"shards":
                raise OtherShardsError(over)
            if word == b"other":
                refuse_other_dedup(before, spec)
                raise JobError(
                    f"job {spec.name} is unfinished and has another spider, other seeds or other arguments",
                    hint="fresh=True (--fresh) discards the unfinished run; job=NAME (--job NAME) keeps both",
                )
            if word != b"again":
                if over:
                    await forget_runs(self._server, self._prefix, keep=over + 1)
                return Begun(word.decode())

    async def _bucket_mean(self) -> int:
        """The mean size of the buckets of seen: smaller where the server packs smaller sets only."""
        packed = await self._server.config(PACKED_SETTING)
        return bucket_mean(int(packed) if packed is not None else None)

    async def job(self) -> Job:
        found = await self._row()
        if found is None:
            raise self._absent()
        return public_job(codec.job_row(found[0], codec.read_spec(found[1])))

    async def state(self) -> JobState:
        record = await self.record()
        return JobState(state=State(record.state), run=record.run, reason=record.reason)

    async def command(self, command: Command, reason: StopReason = StopReason.COMMAND) -> Job:
        record, spec = await self._run("command", command, reason)
        return public_job(codec.job_row(record, codec.read_spec(spec)))

    async def claim_close(self, owner: str, *, done: bool = False) -> CloseClaim:
        word: bytes = await self._run("claim_close", owner, SINK_OWNER_SECONDS, *flags([done]))
        return CloseClaim(word.decode())

    async def change_settings(self, values: Mapping[str, Any]) -> Job:
        return await self.change_settings_of_shards(values, 1)

    async def change_settings_of_shards(self, values: Mapping[str, Any], shards: int) -> Job:
        """Change settings of a job with so many shards, in this one."""
        token = secrets.token_hex(16)
        while True:
            found = await self._row()
            if found is None:
                raise self._absent()
            version = codec.decode_record(found[0]).spec_version
            spec = public_job(codec.job_row(found[0], codec.read_spec(found[1]))).changed_spec(values)
            changed = (msgspec.msgpack.encode(spec), codec.settings_of(spec, shards))
            word, record = await self._run("change_settings", version, *changed, token)
            if word == b"changed":
                return public_job(codec.job_row(record, spec))

    # ---- work

    async def add(self, entries: Sequence[Entry]) -> int:
        arguments: list[Any] = []
        codec.pack_entries(arguments, entries)
        new: int = await self._run("add", *arguments)
        return new

    async def lease(self, worker: str, limit: int, call: Call = ONCE) -> Grant:
        async with self._token_of(call) as token:
            state = (call.run, call.permits, token, call.slots, " ".join(call.needs), call.round_trip_seconds)
            answer = await self._run("lease", worker, limit, *state)
        return codec.read_grant(answer, self._server.life, call)

    async def renew(self, worker: str, leases: Sequence[Lease]) -> list[bool]:
        arguments: list[Any] = [worker]
        codec.pack_leases(arguments, leases)
        return _booleans(await self._run("renew", *arguments))

    async def tell(self, worker: str, heartbeat: WorkerHeartbeat | None) -> None:
        packed = b"" if heartbeat is None else msgspec.msgpack.encode(heartbeat)
        await self._run("record_worker", worker, FORGET_SECONDS, *flags([heartbeat is None]), packed)

    async def commit(self, worker: str, outcomes: Sequence[Outcome], want: int = 0, call: Call = ONCE) -> Committed:
        return await self.commit_relying(worker, outcomes, want, call, b"")

    async def commit_relying(
        self, worker: str, outcomes: Sequence[Outcome], want: int, call: Call, relied: bytes
    ) -> Committed:
        """Commit; ``relied``: what these pages rely on in other shards (rely_on in 6_shards.lua)."""
        async with self._token_of(call) as token:
            state = (call.run, call.permits, token, call.slots, " ".join(call.needs), call.round_trip_seconds)
            arguments: list[Any] = [worker, want, *state, relied]
            codec.pack_outcomes(arguments, outcomes)
            accepted, answer, new, troubles, jars, reign = await self._run("commit", *arguments)
        grant = None if answer is None else codec.read_grant(answer, self._server.life, call)
        store = reign.decode() or self._server.life
        return Committed(_booleans(accepted), grant, new, codec.read_troubles(troubles), jars, store)

    async def release(self, leases: Sequence[Lease], *, late: bool = False, touched: bool = False) -> None:
        arguments: list[Any] = flags([late, touched])
        codec.pack_leases(arguments, leases)
        await self._run("release", *arguments)

    async def release_worker(self, worker: str) -> int:
        lost: int = await self._run("release_worker", worker)
        return lost

    async def relieve_worker(self, worker: str, page: Lease, pause_seconds: float) -> int:
        back: int = await self._run("relieve_worker", worker, page.epoch, pause_seconds)
        return back

    async def reap(self) -> int:
        lost: int = await self._run("reap")
        return lost

    async def revive(self, error_class: str = "", ids: Sequence[int] = ()) -> int:
        if ids:
            named: int = await self._run("revive", error_class, 0, *map(codec.raw_id, ids))
            return named
        # In batches, so that a million failed requests do not hold the server for seconds.
        revived = 0
        while True:
            some: int = await self._run("revive", error_class, _REVIVE_BATCH)
            revived += some
            if some < _REVIVE_BATCH:
                return revived

    async def robots(self, host_keys: Sequence[str]) -> dict[str, RobotsRecord]:
        if not host_keys:
            return {}
        found = await self._server.command("HMGET", self._prefix + "robots", *host_keys)
        return {key: _decode_robots(record) for key, record in zip(host_keys, found, strict=True) if record}

    async def jars(self, wanted: Sequence[JarRef]) -> list[Jar]:
        if not wanted:
            return []
        found = await self._run("read_jars", *(f"{ref.session} {ref.domain}" for ref in wanted))
        return codec.read_jars(wanted, found)

    async def log_in(self, login: SessionLogin, entries: Sequence[Entry], *, failed: bool = False) -> bool:
        arguments: list[Any] = [login.name, login.generation, *flags([failed])]
        codec.pack_entries(arguments, entries)
        begun: int = await self._run("log_in", *arguments)
        return begun == 1

    async def sessions(self) -> list[SessionSeen]:
        return codec.read_sessions(*await self._run("list_sessions"))

    async def add_cookies(self, news: Sequence[CookieNews]) -> None:
        packed = msgspec.msgpack.encode([codec.pack_cookies(one) for one in news])
        await self._run("take_cookies", (await self.record()).run, packed)

    async def count_distinct(self, changes: bytes) -> None:
        await self._run("count_distinct", checked_changes(changes))

    async def known_pages(self, after: float, until: float, limit: int) -> list[KnownPage]:
        return codec.read_known_pages(await self._run("known_pages", repr(after), repr(until), limit))

    # ---- the outbox

    async def open_sink(self, target: str, owner: str) -> SinkProgress | None:
        answer = await self._run("open_sink", target, owner, SINK_OWNER_SECONDS)
        if not answer:
            return None
        self._given_by[target] = answer[3]
        return SinkProgress(answer[0], answer[1], answer[2] == 1, answer[4], answer[5].decode())

    async def items(self, target: str, owner: str, limit: int) -> list[Item] | None:
        answer = await self._run("items", target, owner, SINK_OWNER_SECONDS, limit)
        if not answer:
            return None
        if limit:
            # Not when an owner only says that it is still there, between items and items_done.
            self._given_by[target] = answer[2]
        return codec.read_items(*answer[:2])

    async def items_done(self, target: str, owner: str, progress: SinkProgress) -> bool:
        position = (progress.position, progress.mark, *flags([progress.closed]))
        remarks = (progress.rejected, progress.trouble)
        life = self._given_by.get(target, b"")
        done: int = await self._run("items_done", target, owner, SINK_OWNER_SECONDS, *position, life, *remarks)
        # A server that was restarted since has recorded nothing: it gives the items again, and the writer knows them.
        return done != 0

    async def peek(self, after: int, limit: int) -> list[Item]:
        return codec.read_items(*await self._run("peek_items", after, limit))

    async def close_sink(self, target: str, owner: str, *, forget: bool = False) -> None:
        await self._run("close_sink", target, owner, *flags([forget]))

    # ---- proxies

    async def register_proxy(self, url: str, owner: str, lifetime_seconds: float | None = None) -> str:
        known = proxy_id(url, bytes.fromhex((await self.record()).secret))
        taken: int = await self._run("register_proxy", known, url, owner, lifetime_seconds or 0)
        if not taken:
            raise UsageError(f"too many proxies: {MAX_PROXIES:,}", hint="remove some, or use a gateway")
        return known

    async def drain_proxy(self, proxy_id: str) -> int:
        in_flight: int = await self._run("retire_proxy", proxy_id, ProxyState.DRAINING.value)
        return in_flight

    async def remove_proxy(self, proxy_id: str) -> int:
        in_flight: int = await self._run("retire_proxy", proxy_id, ProxyState.REMOVED.value)
        return in_flight

    async def command_host(self, host_key: str, command: HostCommand) -> Halt | None:
        before: int = await self._run("command_host", host_key, command.halt.value)
        return None if before < 0 else Halt(before)

    async def hosts(self, state: HostFilter = HostFilter.ALL, limit: int = BATCH, after: str = "") -> HostPage:
        count = max(1, min(limit, BATCH))
        return report.host_page(await self._run("hosts", report.scan_cursor(after), count, state))

    async def ban_proxy(self, proxy_id: str, host_key: str = "", seconds: float = 0.0) -> bool:
        known: int = await self._run("ban_proxy", proxy_id, host_key, repr(seconds))
        return known == 1

    async def proxies(self) -> list[ProxySeen]:
        return report.proxies_seen(*await self._run("proxies"))

    # ---- intakes

    async def open_intake(self, source: str, owner: str, *, alone: bool = False) -> bytes | None:
        answer = await self._run("open_intake", source, owner, INTAKE_OWNER_SECONDS, *flags([alone]))
        return answer[0] if answer else None

    async def tell_intake(self, source: str, owner: str, progress: IntakeProgress) -> bool:
        counts = (progress.read, progress.added, progress.dead_letters)
        waiting = [-1 if number is None else number for number in (progress.backlog, progress.lag_seconds)]
        words = (progress.mark, *counts, *waiting, progress.paused, progress.trouble)
        told: int = await self._run("tell_intake", source, owner, INTAKE_OWNER_SECONDS, *words)
        return told == 1

    async def leave_intake(self, source: str, owner: str) -> None:
        await self._run("leave_intake", source, owner, *flags([False]))

    async def close_intake(self, source: str, owner: str) -> bool:
        closed: int = await self._run("leave_intake", source, owner, *flags([True]))
        return closed == 1

    async def intakes(self) -> list[IntakeSeen]:
        time, intakes = await self._run("intakes")
        return report.intakes_seen(intakes, float(time))

    # ---- reading

    async def counts(self) -> Counts:
        return report.counts(await self.record())

    async def report(self, hosts: int = 5, queues: int = 0) -> Report:
        answer = await self.report_answer(hosts, queues)
        return report.report(answer, self.spec, hosts, queues)

    async def report_answer(self, hosts: int, queues: int) -> Sequence[Any]:
        """The answer that ``report`` decodes; ``spec`` is then that of the job. It is sent to this client once."""
        answer: Sequence[Any] = await self._run("report", *flags([hosts > 0, queues > 0]), self._spec_token)
        token, spec = answer[1]
        if spec is None and token != self._spec_token:
            raise LookupError("the job has no specification")
        if spec is not None:
            self._spec, self._spec_token = codec.read_spec(spec), token
        return answer

    @property
    def spec(self) -> JobSpec:
        """The specification that came with the last report, or before it."""
        assert self._spec is not None, "the first report brings it"
        return self._spec

    async def sinks(self) -> list[SinkSeen]:
        return report.sinks_seen(await self.outbox())

    async def outbox(self) -> OutboxSeen:
        """The targets and their positions, as they are stored here."""
        return report.outbox(await self._run("sinks"))

    async def workers(self) -> list[WorkerSeen]:
        time, workers = await self._run("workers")
        return report.workers_seen(workers, float(time))

    async def trace(self, request_id: int, host_key: str = "") -> Trace | None:
        level, searched = 1, 0
        while True:
            head = (codec.raw_id(request_id), request_id, host_key)
            answer = await self._run("trace", *head, level, searched, report.TRACE_BATCH)
            if answer[0] != b"more":
                return report.trace(answer, host_key)
            level, searched = answer[1:]

    async def page_record(self, request_id: int, host_key: str) -> PageRecord | None:  # noqa: ARG002 - found by id
        found = await self._server.command("HGET", self._prefix + "records", codec.raw_id(request_id))
        return None if found is None else codec.decode_page_record(found)

    async def failures(
        self, error_class: str = "", limit: int = 1000, after: int = 0, *, newest: bool = False
    ) -> list[FailedRequest]:
        found = await self._run("failures", error_class, limit, after or "", int(newest))
        return [report.failed_request(fields) for fields in found]

    async def distinct_urls(self) -> bytes:
        return checked_registers(await self._server.command("GET", self._prefix + "distinct") or b"")

    async def capacity(self) -> list[StoreCapacity]:
        return await self._server.capacity()

    async def check_consistency(self, *, repair: bool = False) -> Consistency:
        return await self.check_keys(repair=repair)

    async def check_keys(self, *, repair: bool, belongs: Callable[[str], bool] | None = None) -> Consistency:
        """Compare what is stored here; ``belongs`` tells whether a host is one of this shard."""
        return await consistency.check_keys(self._server, self._prefix, self._run, repair=repair, belongs=belongs)

    async def close(self) -> None:
        await self._server.close()

    # ---- calls

    @contextlib.asynccontextmanager
    async def _token_of(self, call: Call) -> AsyncIterator[str]:
        """The token of a call, the same however often it is sent. A call that has none gets one, and waits its turn."""
        if call.token:
            yield call.token
            return
        async with self._turn:
            self._calls += 1
            yield f"{self._client}{self._calls}"

    def _time(self) -> str:
        return "" if self._clock is None else repr(self._clock())

    async def _run(self, name: str, *arguments: Any) -> Any:
        answer = await self._call(name, *arguments)
        if answer is None:
            raise self._absent()
        return answer

    def _absent(self) -> Exception:
        """The error of a call that has found no record."""
        return no_such_job(self._name)

    async def _call(self, name: str, *arguments: Any) -> Any:
        return await self._server.run(name, self._key, self._time(), *arguments)

    async def _row(self) -> tuple[bytes, bytes] | None:
        record, spec = await self._server.command("MGET", self._key, self._prefix + "spec")
        if record is None:
            return None
        codec.check_format(record, self._name)
        return record, spec

    async def record(self) -> codec.JobRecord:
        """The record of the job, without its specification."""
        found = await self._record()
        if found is None:
            raise self._absent()
        return found

    async def _record(self) -> codec.JobRecord | None:
        record = await self._server.command("GET", self._key)
        if record is None:
            return None
        codec.check_format(record, self._name)
        return codec.decode_record(record)


def _booleans(text: bytes) -> list[bool]:
    return [mark == 49 for mark in text]
