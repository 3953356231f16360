"""The consistency check of a job in one Redis, or of one shard of it, and its repair.

Everything is looked at in pieces, each by a script (``lua/check_*.lua``) that compares what belongs together and holds
the server for some milliseconds. So a finding was true at one instant, whoever works at the job meanwhile. Sums over
all hosts are compared only if one script could count them, or if nothing has changed from the first piece to the last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from skitter.frontier.redis.client import RedisServer
from skitter.frontier.redis.codec import JobRecord, decode_record
from skitter.frontier.redis.damage_search import find_damage
from skitter.frontier.redis.jobs import scan_keys
from skitter.frontier.redis.place_counts import PlaceCounts, fault
from skitter.model.consistency import Consistency, Finding, unreadable, with_mended

RunScript = Callable[..., Awaitable[Any]]

PIECE = 250
"""Hosts, requests or members that one script looks at: two to five milliseconds."""
COUNTED_AT_ONCE = 3000
"""Hosts, and buckets of the seen set, that one script counts."""
LEASES_AT_ONCE = 3000
"""Leases that one script compares with hosts and addresses while the job runs: about ten milliseconds."""
BLOCKS_AT_ONCE = 32
"""Blocks of a Bloom filter, a megabyte each at most, in which one script counts bits."""
_KEYS_AT_ONCE = 100
_TRIES = 3
"""Of counting, while the job changes."""
_PASSES = 5
"""Of a repair: what was mended may show something else."""
_MEMBERS = frozenset(
    "ready ready_for waiting given_up parked returned returned_for delayed suspects suspects_for away failed held alone"
    " seen kept generation permits".split()
)
_MEMBERS_OF_ALL_RUNS = frozenset("heartbeats delivered pages records due".split())
_SHAKEN = frozenset(
    "two_places no_place no_request request_index host_missing host_queue not_seen seen_bucket lease_work".split()
)
"""Findings that make sums wrong by themselves: counts are compared when they are mended."""


async def check_keys(
    server: RedisServer,
    prefix: str,
    run_script: RunScript,
    *,
    repair: bool,
    belongs: Callable[[str], bool] | None = None,
) -> Consistency:
    """Compare what has this prefix; with ``repair``, mend it and look again. ``belongs``: whether a host is of this
    shard."""
    if damage := await find_damage(server, prefix, whole=True):
        report = Consistency()
        report.add(unreadable(damage))
        return report
    check = _KeyCheck(server, prefix, run_script, repair=repair, belongs=belongs)
    report = await check.run()
    if not (repair and report.counts):
        return report
    left = report
    for _ in range(_PASSES):
        left = await check.run()
        if not any(finding.mendable for finding in left.findings):
            break
    return with_mended(report, left)


class _KeyCheck:
    """Passes over the keys of a job or a shard."""

    def __init__(
        self,
        server: RedisServer,
        prefix: str,
        run_script: RunScript,
        *,
        repair: bool,
        belongs: Callable[[str], bool] | None,
    ) -> None:
        self._server = server
        self._prefix = prefix
        self._run_script = run_script
        self._repair = repair
        self._belongs = belongs

    async def run(self) -> Consistency:
        self._report = Consistency()
        self._needs: set[bytes] = set()
        """Needs of which some requests are suspect."""
        # First: a job that does not exist says so here.
        faults, items = await self._run_script("check_job")
        self._job: JobRecord = decode_record(await self._server.command("GET", self._prefix + "job"))
        await self._take(faults)
        self._report.look_at("items", items)
        in_flight = await self._scan("check_hosts", "hosts")
        staged = await self._keys()
        await self._scan("check_requests", "records of requests")
        await self._scan("check_holds", "leases")
        await self._in_flight(in_flight, staged)
        await self._counts()
        await self._filter_bits()
        return self._report

    async def _take(self, faults: Sequence[Sequence[Any]]) -> None:
        """Report faults, and mend them if that is asked for."""
        for code, place, what, expected, found, mend in faults:
            texts = [text.decode(errors="backslashreplace") for text in (code, place, what, expected, found)]
            names = ("code", "place", "what", "expected", "found")
            self._report.add(Finding(**dict(zip(names, texts, strict=True)), mendable=mend is not None))
            if mend is not None and self._repair:
                await self._mend(*mend)

    async def _mend(self, script: bytes, *arguments: Any) -> None:
        answer = await self._run_script(script.decode(), *arguments)
        while arguments[0] == b"permits" and answer != b"0":
            answer = await self._run_script("mend_job", "permits", answer)

    async def _scan(self, script: str, kind: str) -> list[bytes]:
        """Run a script on one piece of a hash after the other; the last part of its answers, joined."""
        cursor: Any = b"0"
        told: list[bytes] = []
        while True:
            cursor, faults, number, *rest = await self._run_script(script, cursor, PIECE)
            await self._take(faults)
            self._report.look_at(kind, number)
            for part in rest:
                told += part
            if cursor in (b"0", 0):
                return told

    # ---- keys by their names

    async def _keys(self) -> list[bytes]:
        """Look through queues and indexes; the epochs under which something is staged."""
        base, run = self._prefix.encode(), f"{self._prefix}{self._job.run}:".encode()
        queues: list[list[Any]] = []
        members: dict[str, list[list[Any]]] = defaultdict(list)
        staged: list[bytes] = []
        async for keys in scan_keys(self._server, self._prefix):
            # A key may come twice.
            for key in set(keys):
                is_of_run = key.startswith(run)
                kind, _, suffix = key.removeprefix(run if is_of_run else base).partition(b":")
                name = kind.decode(errors="replace")
                if name in (_MEMBERS if is_of_run else _MEMBERS_OF_ALL_RUNS):
                    members[name].append([suffix, b"0"])
                    if name == "suspects_for":
                        self._needs.add(suffix)
                elif is_of_run and name in ("q", "q_for"):
                    need, _, rest = suffix.partition(b":") if name == "q_for" else (b"", b"", suffix)
                    priority, _, host = rest.partition(b":")
                    await self._check_home(host)
                    queues.append([need, priority, host, 0])
                elif is_of_run and name == "staged":
                    staged.append(suffix)
            queues = await self._check_queues(queues, _KEYS_AT_ONCE)
            for kind_name, waiting in members.items():
                members[kind_name] = await self._check_members(kind_name, waiting, _KEYS_AT_ONCE)
        await self._check_queues(queues, 1)
        for kind_name, waiting in members.items():
            await self._check_members(kind_name, waiting, 1)
        return staged

    async def _check_home(self, host: bytes) -> None:
        if self._belongs is not None and not self._belongs(host.decode(errors="replace")):
            await self._take([[b"host_shard", host, b"its shard", b"another one", b"this one", None]])

    async def _check_queues(self, queues: list[list[Any]], least: int) -> list[list[Any]]:
        """Look through queues while there are as many; those that are left."""
        while len(queues) >= least:
            batch, queues = queues[:_KEYS_AT_ONCE], queues[_KEYS_AT_ONCE:]
            flat = [word for queue in batch for word in queue]
            faults, number, looked = await self._run_script("check_queues", PIECE, *flat)
            await self._take(faults)
            self._report.look_at("queued requests", number)
            queues += [[*queue[:3], done] for queue, done in zip(batch, looked, strict=True) if done >= 0]
        return queues

    async def _check_members(self, kind: str, keys: list[list[Any]], least: int) -> list[list[Any]]:
        while len(keys) >= least:
            batch, keys = keys[:_KEYS_AT_ONCE], keys[_KEYS_AT_ONCE:]
            flat = [word for key in batch for word in key]
            faults, number, cursors = await self._run_script("check_members", kind, PIECE, *flat)
            await self._take(faults)
            self._report.look_at("members of indexes", number)
            left = zip(batch, cursors, strict=True)
            keys += [[key[0], cursor.removeprefix(b"wait ")] for key, cursor in left if cursor != b"0"]
        return keys

    # ---- what is counted over all

    async def _in_flight(self, hosts: list[bytes], staged: list[bytes]) -> None:
        at_rest = self._repair or self._job.state not in ("running", "draining")
        most = 2**31 if at_rest else LEASES_AT_ONCE
        number, faults = await self._run_script("check_in_flight", most, len(hosts), *hosts, *staged)
        await self._take(faults)
        if number > most:
            self._report.unchecked.append(f"leases against hosts and addresses: more than {LEASES_AT_ONCE:,} leases")

    async def _counts(self) -> None:
        if not _SHAKEN.isdisjoint(self._report.counts):
            return
        for _ in range(_TRIES):
            if (sums := await self._count()) is not None:
                self._report.look_at("requests", sums.number)
                for found in sums.faults(is_shard=self._belongs is not None):
                    await self._take([found])
                return
        self._report.unchecked.append("counts of requests: the job changed all the while")

    async def _filter_bits(self) -> None:
        for _ in range(_TRIES):
            if (found := await self._count_bits()) is not None:
                for sub, (recorded, bits) in found.items():
                    if recorded != bits:
                        # Bits that are gone are pages that are forgotten.
                        mend = [b"mend_job", b"bits", sub, bits] if bits > recorded else None
                        await self._take([fault("filter_bits", f"filter {sub}", "bits set", recorded, bits, mend)])
                return
        self._report.unchecked.append("bits of the filter: the job changed all the while")

    async def _count_bits(self) -> dict[int, tuple[int, int]] | None:
        """Of each sub-filter the bits by its record and those that were counted; None: something has changed."""
        sub, block, states, found = 1, 0, set(), dict[int, tuple[int, int]]()
        while sub:
            state, recorded, bits, following, block = await self._run_script("count_bits", sub, block, BLOCKS_AT_ONCE)
            states.add(state)
            found[sub] = (recorded, found.get(sub, (0, 0))[1] + bits)
            sub = following
        return found if len(states) == 1 else None

    async def _count(self) -> PlaceCounts | None:
        """The sums over all hosts and exact sets; None: something has changed meanwhile."""
        cursor: Any = b"0"
        bucket, total, states = 0, [0] * 7, set()
        ids, queued = Counter[bytes](), Counter[bytes]()
        while True:
            answer = await self._run_script("count_places", cursor, bucket, COUNTED_AT_ONCE, *self._needs)
            state, recorded, counted, piece, cursor, bucket, sets, needs = answer
            # A generation may have become too old meanwhile.
            states.add((state, *(name for name, *_ in sets)))
            total = [one + other for one, other in zip(total, piece, strict=True)]
            ids.update({name: found for name, _, found in sets})
            queued.update({need: found for need, *_, found in needs})
            if cursor == b"" and bucket < 0:
                if len(states) > 1:
                    return None
                told = {need: (number, suspects) for need, number, suspects, _ in needs}
                of_sets = [(name, count, ids[name]) for name, count, _ in sets]
                of_needs = [(need, *told.get(need, (0, 0)), number) for need, number in queued.items()]
                return PlaceCounts(recorded, of_sets, of_needs, *counted, *total)
