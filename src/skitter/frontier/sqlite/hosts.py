"""Hosts: their records, who is ready, what is known of their addresses and robots.txt, and who may be crawled."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from skitter.frontier.sqlite.job_table import JobTable, typed
from skitter.frontier.sqlite.row_codec import encode, listed
from skitter.model.host import Host, Phase
from skitter.model.outcome import RobotsRecord
from skitter.policy.politeness import due_at

_SAVE_HOST = "UPDATE hosts SET phase = ?, top = ?, turn = ?, due = ?, record = ? WHERE number = ?"
READY_FOR_NEEDS = len(Phase)
"""The hosts.phase of a host that is ready, and has only requests with needs."""
_MOST_NUMBERS = 100_000
"""Host numbers that are remembered; then they are read again."""
_decode_host = msgspec.msgpack.Decoder(Host).decode
_decode_robots = msgspec.msgpack.Decoder(RobotsRecord).decode


class HostTable(JobTable):
    """A host has a number in the file, by which requests name it."""

    def forget_cache(self) -> None:
        super().forget_cache()
        self._numbers: dict[str, int] = {}
        self._needy: set[str] = set()
        """Keys of hosts that had needs when they were last read or written."""

    def hosts(self, keys: Sequence[str]) -> dict[str, Host]:
        found = self._execute(
            "SELECT number, record FROM hosts WHERE job = ? AND key IN (SELECT value FROM json_each(?))",
            (self._job, listed(keys)),
        )
        hosts: dict[str, Host] = {}
        for number, record in found:
            host = _decode_host(record)
            hosts[host.key] = host
            self._numbers[host.key] = number
            if host.needs:
                self._needy.add(host.key)
        return hosts

    def save_hosts(self, hosts: Sequence[Host]) -> None:
        numbers = self._numbers_of({host.key: None for host in hosts})
        self._executemany(
            _SAVE_HOST,
            [
                (
                    READY_FOR_NEEDS if h.phase is Phase.READY and not h.waiting else h.phase,
                    *(h.top, h.turn, due_at(h), encode(h), numbers[h.key]),
                )
                for h in hosts
            ],
        )
        if needy := [host for host in hosts if host.needs or host.key in self._needy]:
            self._save_ready_for(needy)

    def _save_ready_for(self, hosts: Sequence[Host]) -> None:
        job = self._job
        self._executemany("DELETE FROM ready_for WHERE job = ? AND key = ?", [(job, host.key) for host in hosts])
        self._executemany(
            "INSERT INTO ready_for VALUES (?, ?, ?, ?, ?)",
            [
                (job, host.key, need, top, host.turn)
                for host in hosts
                if host.phase is Phase.READY
                for need, top in host.needs.items()
            ],
        )
        for host in hosts:
            (self._needy.add if host.needs else self._needy.discard)(host.key)

    def _numbers_of(self, keys: dict[str, None]) -> dict[str, int]:
        """The numbers of hosts. A host that has none gets one, and an empty record."""
        numbers = self._numbers
        if not keys.keys() <= numbers.keys():
            if len(numbers) > _MOST_NUMBERS:
                numbers.clear()
            self.hosts([key for key in keys if key not in numbers])
            for key in keys:
                if key not in numbers:
                    added = self._execute(
                        "INSERT INTO hosts (job, key, phase, top, turn, due, record) VALUES (?, ?, 0, 0, 0, 0, ?)",
                        (self._job, key, encode(Host(key))),
                    )
                    assert added.lastrowid is not None
                    numbers[key] = added.lastrowid
        return numbers

    def ready_hosts(self, limit: int, need: str = "") -> list[tuple[int, int, str]]:
        if need:
            return self._execute(
                "SELECT top, turn, key FROM ready_for INDEXED BY ready_for_order WHERE job = ? AND need = ?"
                " ORDER BY top DESC, turn, key LIMIT ?",
                (self._job, need, limit),
            ).fetchall()
        return self._execute(
            "SELECT top, turn, key FROM hosts INDEXED BY ready WHERE job = ? AND phase = 1"
            " ORDER BY top DESC, turn, key LIMIT ?",
            (self._job, limit),
        ).fetchall()

    def due_hosts(self, now: float, limit: int) -> list[str]:
        found = self._execute(
            "SELECT key FROM hosts INDEXED BY waiting WHERE job = ? AND phase = 2 AND due <= ?"
            " ORDER BY due, key LIMIT ?",
            (self._job, now, limit),
        )
        return [key for (key,) in found]

    def next_host_due(self) -> float | None:
        due: float | None = self._one("SELECT min(due) FROM hosts WHERE job = ? AND phase = 2")
        return due

    def waiting_hosts(self, after: float, limit: int) -> list[tuple[float, str]]:
        query = "SELECT due, key FROM hosts INDEXED BY waiting WHERE job = ? AND phase = 2 AND {} ORDER BY due, key"
        found = self._execute(query.format("due > ?") + " LIMIT ?", (self._job, after, limit)).fetchall()
        if len(found) < limit:
            return found
        return self._execute(query.format("due > ? AND due <= ?"), (self._job, after, found[-1][0])).fetchall()

    def given_up_hosts(self, limit: int) -> list[str]:
        found = self._execute(
            "SELECT key FROM hosts INDEXED BY given_up WHERE job = ? AND phase = 4 ORDER BY key LIMIT ?",
            (self._job, limit),
        )
        return [key for (key,) in found]

    def loads(self, addresses: Sequence[str]) -> dict[str, int]:
        found = self._execute(
            "SELECT address, leases FROM addresses WHERE job = ? AND address IN (SELECT value FROM json_each(?))",
            (self._job, listed(addresses)),
        )
        return dict(found.fetchall())

    def save_loads(self, loads: dict[str, int]) -> None:
        job = self._job
        self._executemany(
            "INSERT OR REPLACE INTO addresses VALUES (?, ?, ?)",
            [(job, address, leases) for address, leases in loads.items() if leases],
        )
        self._executemany(
            "DELETE FROM addresses WHERE job = ? AND address = ?",
            [(job, address) for address, leases in loads.items() if not leases],
        )

    def park(self, hosts: Sequence[Host]) -> None:
        job = self._job
        # What has no needs, and had none, stands there once, and is written over.
        self.unpark([host.key for host in hosts if host.needs or host.key in self._needy])
        self._executemany(
            "INSERT OR REPLACE INTO parked VALUES (?, ?, ?, ?, ?, ?)",
            [
                (job, host.key, need, host.address, top, host.turn)
                for host in hosts
                for need, top in host.tops().items()
            ],
        )

    def unpark(self, host_keys: Sequence[str]) -> None:
        self._executemany("DELETE FROM parked WHERE job = ? AND key = ?", [(self._job, key) for key in host_keys])

    def parked_hosts(self, address: str | None, limit: int, need: str = "") -> list[str]:
        if address is None:
            found = self._execute("SELECT key FROM parked WHERE job = ? LIMIT ?", (self._job, limit))
        else:
            found = self._execute(
                "SELECT key FROM parked INDEXED BY parked_order WHERE job = ? AND address = ? AND need = ?"
                " ORDER BY top DESC, turn, key LIMIT ?",
                (self._job, address, need, limit),
            )
        return [key for (key,) in found]

    def parked_needs(self, address: str) -> list[str]:
        # From one need to the next by the index: there may be many hosts of each.
        needs = [""]
        while need := self._one(
            "SELECT need FROM parked INDEXED BY parked_order WHERE job = ? AND address = ? AND need > ?"
            " ORDER BY need LIMIT 1",
            *(address, needs[-1]),
        ):
            needs.append(need)
        return needs[1:]

    def add_to_needs(self, steps: dict[str, int]) -> None:
        job = self._job
        self._executemany(
            "INSERT INTO needs VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET queued = queued + excluded.queued",
            [(job, need, step) for need, step in steps.items()],
        )
        self._executemany(
            "DELETE FROM needs WHERE job = ? AND need = ? AND queued = 0", [(job, need) for need in steps]
        )

    def needs(self, limit: int) -> list[tuple[str, int]]:
        found = self._execute(
            "SELECT need, queued FROM needs WHERE job = ? ORDER BY queued DESC, need LIMIT ?", (self._job, limit)
        )
        return typed(found.fetchall(), str, int)

    def robots(self, host_key: str) -> RobotsRecord | None:
        record = self._one("SELECT record FROM robots WHERE job = ? AND host = ?", host_key)
        return None if record is None else _decode_robots(record)

    def save_robots(self, host_key: str, record: RobotsRecord) -> None:
        self._execute("INSERT OR REPLACE INTO robots VALUES (?, ?, ?)", (self._job, host_key, encode(record)))

    def permit(self, host_key: str) -> None:
        self._execute(
            "INSERT INTO permits SELECT ?, coalesce(max(number), 0) + 1, ? FROM permits WHERE job = ?",
            (self._job, host_key, self._job),
        )

    def permitted(self, after: int) -> list[str]:
        found = self._execute(
            "SELECT host FROM permits WHERE job = ? AND number > ? ORDER BY number", (self._job, after)
        )
        return [host for (host,) in typed(found.fetchall(), str)]
