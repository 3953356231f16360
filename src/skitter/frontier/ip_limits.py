"""Requests in flight by IP address, on the books of one transaction: the setting ``per_ip``.

Many host keys may be one machine. A host whose address is at its limit is *parked*: it stands in no queue of hosts
that are ready, and is called when a request to its address ends, so that nobody looks for it in vain.

Each lease remembers the address that it was counted under: its host may have moved to another one when it ends. Where
the setting is off, none does, and nothing here reads or writes anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from skitter.frontier.tables import Tables


class IpLimits:
    """How many requests each address has in flight, and which addresses may have room for a host that is parked."""

    def __init__(self, tables: Tables, per_ip: int | None) -> None:
        self._tables = tables
        self.limit = per_ip
        self._loads: dict[str, int] = {}
        self._changed: set[str] = set()
        self._looked_at: dict[str, None] = {}
        self.granted: set[str] = set()
        """Keys of hosts that were granted something under their address in this transaction."""

    def load(self, addresses: Iterable[str]) -> None:
        """Read the counts of many at once."""
        if self.limit is not None:
            missing = [address for address in dict.fromkeys(addresses) if address and address not in self._loads]
            if missing:
                self._loads.update(dict.fromkeys(missing, 0) | self._tables.loads(missing))

    def is_full(self, address: str) -> bool:
        """No other request may be sent there. An address that is not known yet is never full."""
        return self.limit is not None and address != "" and self._load_of(address) >= self.limit

    def take(self, host_key: str, address: str) -> str:
        """One more is in flight; the address to remember, if it is counted."""
        if self.limit is None or not address:
            return ""
        self._loads[address] = self._load_of(address) + 1
        self._changed.add(address)
        self.granted.add(host_key)
        return address

    def give_back(self, address: str) -> None:
        """A lease that was counted under this address has ended."""
        if address:
            self._loads[address] = self._load_of(address) - 1
            self._changed.add(address)
            self.look_at(address)

    def look_at(self, address: str) -> None:
        """It may have room that nobody is about to use: a request ended there, or a host that was ready has gone."""
        if self.limit is not None and address:
            self._looked_at[address] = None

    def with_room(self) -> list[tuple[str, int]]:
        """Of the addresses to look at, those with room, and how much of it."""
        looked_at, self._looked_at = self._looked_at, {}
        limit = self.limit or 0
        return [(address, limit - self._loads[address]) for address in looked_at if self._load_of(address) < limit]

    def flush(self) -> None:
        if self._changed:
            self._tables.save_loads({address: self._loads[address] for address in sorted(self._changed)})
            self._changed = set()

    def _load_of(self, address: str) -> int:
        if address not in self._loads:
            self._loads[address] = self._tables.loads([address]).get(address, 0)
        return self._loads[address]
