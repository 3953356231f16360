"""Proxies of the job's pool, and what is remembered of them at single hosts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from skitter.frontier.sqlite.job_table import JobTable, typed
from skitter.frontier.sqlite.row_codec import encode, listed
from skitter.model.proxy import HostProxies, ProxyRecord

_decode_proxy = msgspec.msgpack.Decoder(ProxyRecord).decode
_decode_host = msgspec.msgpack.Decoder(HostProxies).decode


class ProxyTable(JobTable):
    """A pool is small, and each choice looks at all of it: there are no columns but the record."""

    def proxies(self) -> list[ProxyRecord]:
        found = self._execute("SELECT record FROM proxies WHERE job = ? ORDER BY proxy", (self._job,))
        return [_decode_proxy(record) for (record,) in found]

    def save_proxies(self, proxies: Sequence[ProxyRecord]) -> None:
        self._executemany(
            "INSERT OR REPLACE INTO proxies VALUES (?, ?, ?)",
            [(self._job, proxy.id, encode(proxy)) for proxy in proxies],
        )

    def drop_proxies(self, ids: Sequence[str]) -> None:
        self._executemany("DELETE FROM proxies WHERE job = ? AND proxy = ?", [(self._job, proxy) for proxy in ids])

    def host_proxies(self, host_keys: Sequence[str] | None) -> dict[str, HostProxies]:
        if host_keys is None:
            found = self._execute("SELECT host, record FROM host_proxies WHERE job = ?", (self._job,))
        else:
            found = self._execute(
                "SELECT host, record FROM host_proxies WHERE job = ? AND host IN (SELECT value FROM json_each(?))",
                (self._job, listed(host_keys)),
            )
        return {host: _decode_host(record) for host, record in typed(found.fetchall(), str, bytes)}

    def save_host_proxies(self, of_hosts: dict[str, HostProxies]) -> None:
        self._executemany(
            "INSERT OR REPLACE INTO host_proxies VALUES (?, ?, ?)",
            [(self._job, host, encode(at_host)) for host, at_host in of_hosts.items() if not at_host.is_empty],
        )
        self._executemany(
            "DELETE FROM host_proxies WHERE job = ? AND host = ?",
            [(self._job, host) for host, at_host in of_hosts.items() if at_host.is_empty],
        )
