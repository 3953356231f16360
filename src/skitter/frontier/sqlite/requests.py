"""Requests and their queues."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from skitter.frontier.sqlite.hosts import HostTable
from skitter.frontier.sqlite.row_codec import SEQ_BITS, SEQ_MASK, history_of, listed, place_of, row_of
from skitter.frontier.tables import Row
from skitter.model.bloom_stats import BloomStats

_ROW = "requests.number, id, hosts.key, priority, payload, place, not_before, error_class, history, need"
_INSERT_ROW = (
    "INSERT INTO requests (number, job, id, host, priority, payload, place, not_before, error_class, history, need)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SAVE_ROW = "UPDATE requests SET place = ?, not_before = ?, error_class = ?, history = ? WHERE number = ?"
_SAVE_PRIORITY = "UPDATE requests SET priority = ? WHERE number = ?"
NOT_HELD = "NOT EXISTS (SELECT 1 FROM holds WHERE holds.job = requests.job AND work = 0 AND holds.id = requests.id)"


def _heads(index: str) -> str:
    # One statement for all hosts of a grant: a statement each would cost as much again in calls.
    return (
        "SELECT wanted.value, priority, requests.number FROM json_each(?1) AS wanted CROSS JOIN requests"
        f" ON requests.number IN (SELECT number FROM requests INDEXED BY {index} AND host = wanted.value"
        f" AND {NOT_HELD} ORDER BY priority DESC, number LIMIT ?2) ORDER BY wanted.key, priority DESC, requests.number"
    )


_HEADS = _heads("queue WHERE place = 0")
_HEADS_OF_NEED = _heads("needy WHERE place = 8 AND need = ?3")


class RequestTable(HostTable):
    """A request is found by its id, by its host's queue, or by what it waits for. A leased one stays in its place."""

    can_forget = False

    def known(self, ids: Sequence[int]) -> set[int]:
        found = self._execute(
            "SELECT id FROM requests WHERE job = ? AND id IN (SELECT value FROM json_each(?))",
            (self._job, listed(ids)),
        )
        return {request_id for (request_id,) in found}

    def maybe_known(self, ids: Sequence[int]) -> set[int]:  # noqa: ARG002  it has no filter
        return set()

    def keep(self, ids: Sequence[int]) -> None:
        pass

    def filter_stats(self) -> BloomStats | None:
        return None

    def insert(self, rows: Sequence[Row]) -> None:
        job, base, numbers = self._job, self._job << SEQ_BITS, self._numbers_of({row.host_key: None for row in rows})
        self._executemany(
            _INSERT_ROW,
            [
                (
                    *(base | r.seq, job, r.id, numbers[r.host_key], r.priority),
                    *(bytearray(r.payload), place_of(r) if r.need else +r.state, r.not_before),
                    *(r.error_class, history_of(r), r.need),
                )
                for r in rows
            ],
        )

    def row(self, request_id: int) -> Row | None:
        return self.rows([request_id]).get(request_id)

    def rows(self, ids: Sequence[int]) -> dict[int, Row]:
        if not ids:
            return {}
        where = "requests.job = ? AND id IN (SELECT value FROM json_each(?))"
        return {row.id: row for row in self._rows("by_id", where, self._job, listed(ids))}

    def queue_length(self, host_key: str, limit: int) -> int:
        of_host = f"{NOT_HELD} AND host = (SELECT number FROM hosts WHERE job = ?1 AND key = ?2)"
        found = self._execute(
            f"SELECT count(*) FROM (SELECT 1 FROM requests INDEXED BY queue WHERE place = 0 AND {of_host} UNION ALL"
            f" SELECT 1 FROM requests INDEXED BY needy WHERE place = 8 AND {of_host} LIMIT ?3)",
            (self._job, host_key, limit),
        )
        length: int = found.fetchone()[0]
        return length

    def longest_queues(self, limit: int) -> list[str]:
        # Of all that is queued, by the index alone; what is held is a few, and counted too.
        found = self._execute(
            "SELECT hosts.key FROM (SELECT host, sum(number) AS length FROM ("
            "SELECT host, count(*) AS number FROM requests INDEXED BY queue WHERE place = 0 GROUP BY host UNION ALL"
            " SELECT host, count(*) AS number FROM requests INDEXED BY needy WHERE place = 8 GROUP BY host"
            ") GROUP BY host) AS queues CROSS JOIN hosts ON hosts.number = queues.host AND hosts.job = ?"
            " WHERE hosts.phase != 0 ORDER BY length DESC, hosts.key LIMIT ?",
            (self._job, limit),
        )
        return [key for (key,) in found if self.queue_length(key, 1)]

    def save_rows(self, rows: Sequence[Row]) -> None:
        base = self._job << SEQ_BITS
        self._executemany(
            _SAVE_ROW,
            [
                (place_of(r) if r.need else +r.state, r.not_before, r.error_class, history_of(r), base | r.seq)
                for r in rows
            ],
        )

    def save_priorities(self, rows: Sequence[Row]) -> None:
        # A statement of its own: it changes the indexes of queues, which most ends of requests need not.
        base = self._job << SEQ_BITS
        self._executemany(_SAVE_PRIORITY, [(row.priority, base | row.seq) for row in rows])

    def rows_at(self, seqs: Sequence[int]) -> dict[int, Row]:
        base = self._job << SEQ_BITS
        numbers = listed([base | seq for seq in seqs])
        found = self._execute(
            f"SELECT {_ROW} FROM requests CROSS JOIN hosts ON hosts.number = requests.host"
            " WHERE requests.number IN (SELECT value FROM json_each(?))",
            (numbers,),
        )
        return {row.seq: row for row in (row_of(*columns) for columns in found)}

    def heads(self, host_keys: Sequence[str], limit: int, need: str = "") -> dict[str, deque[tuple[int, int]]]:
        numbers = self._numbers_of(dict.fromkeys(host_keys))
        heads: dict[int, deque[tuple[int, int]]] = {numbers[key]: deque() for key in host_keys}
        hosts = listed(list(heads))
        found = self._execute(_HEADS_OF_NEED, (hosts, limit, need)) if need else self._execute(_HEADS, (hosts, limit))
        for host, priority, number in found:
            heads[host].append((priority, number & SEQ_MASK))
        return dict(zip(host_keys, heads.values(), strict=True))

    def suspects(self, limit: int, need: str = "") -> list[Row]:
        where = f"requests.job = ? AND need = ? AND place = 7 AND {NOT_HELD} ORDER BY requests.number LIMIT ?"
        return self._rows("suspect", where, self._job, need, limit)

    def due_rows(self, now: float, limit: int) -> list[Row]:
        where = "requests.job = ? AND place = 1 AND not_before <= ? ORDER BY not_before, requests.number LIMIT ?"
        return self._rows("delayed", where, self._job, now, limit)

    def next_row_due(self) -> float | None:
        due: float | None = self._one("SELECT min(not_before) FROM requests WHERE job = ? AND place = 1")
        return due

    def waiting(self, host_key: str, limit: int) -> list[Row]:
        number = self._numbers_of({host_key: None})[host_key]
        where = f"host = ? AND {NOT_HELD} ORDER BY"
        found: list[Row] = []
        for index, condition in (
            ("queue", f"place = 0 AND {where} priority DESC, requests.number LIMIT ?"),
            ("needy", f"place = 8 AND {where} need, priority DESC, requests.number LIMIT ?"),
            ("away", f"place IN (1, 7) AND {where} requests.number LIMIT ?"),
        ):
            if left := limit - len(found):
                found += self._rows(index, condition, number, left)
        return found

    def failed_rows(self, error_class: str, limit: int, after: int, *, newest: bool) -> list[Row]:
        base = self._job << SEQ_BITS
        page = f"requests.number {'<' if newest else '>'} ? ORDER BY requests.number {'DESC' if newest else ''} LIMIT ?"
        last = base | (after or (SEQ_MASK if newest else 0))
        where = "requests.job = ? AND place = 5 AND"
        if error_class:
            return self._rows(
                "failed_class", f"{where} error_class = ? AND {page}", self._job, error_class, last, limit
            )
        return self._rows("failed", f"{where} {page}", self._job, last, limit)

    def _rows(self, index: str, where: str, *values: object) -> list[Row]:
        # The index is named because the planner, which has no statistics, would rather scan the job.
        query = (
            f"SELECT {_ROW} FROM requests INDEXED BY {index} CROSS JOIN hosts ON hosts.number = requests.host"
            f" WHERE {where}"
        )
        return [row_of(*columns) for columns in self._execute(query, values)]
