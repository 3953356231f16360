"""Rules of proxies: who is in the pool, which of them a grant gets, and what commits tell of them.

A lease names its proxy, and is counted under it until it ends. Where no proxy is free for a host alone, the host waits
(``can_serve`` puts its due time off); where none is free at all, nothing is leased (``is_exhausted``).

Decisions that need nothing but the records are in ``policy.proxy_choice``.
"""

from __future__ import annotations

from collections.abc import Iterable

from skitter.errors import UsageError
from skitter.frontier.contract import HOST_PROXY_SECONDS, MAX_PROXIES, POLL_SECONDS
from skitter.frontier.tables import JobRow, LeaseRow, Tables
from skitter.model.host import Host
from skitter.model.outcome import Ending, Outcome
from skitter.model.proxy import HostProxies, ProxyFault, ProxyRecord, ProxySeen, ProxyState, proxy_id, seen_of
from skitter.policy import proxy_choice
from skitter.settings import Proxies


class ProxyRules:
    """The pool of a job, in one transaction. It reads nothing where the job has none."""

    def __init__(self, tables: Tables, record: JobRow, now: float, settings: Proxies) -> None:
        self._tables = tables
        self._record = record
        self._now = now
        self._settings = settings
        self.is_exhausted = False
        """No proxy was free, for whichever host."""
        self._loaded: dict[str, ProxyRecord] | None = None
        self._changed: dict[str, ProxyRecord] = {}
        self._of_hosts: dict[str, HostProxies | None] = {}
        self._changed_hosts: set[str] = set()

    # ---- the pool

    def register(self, url: str, owner: str, lifetime_seconds: float | None) -> str:
        """Add a proxy, or make a known one stay for longer; its id."""
        pool = self._pool()
        known = proxy_id(url, self._record.secret)
        if known not in pool and len(pool) >= MAX_PROXIES:
            raise UsageError(f"too many proxies: {len(pool):,}", hint="remove some, or use a gateway")
        proxy = pool.setdefault(known, ProxyRecord(known, url, owner, 0.0))
        proxy.url, proxy.owner, proxy.state = url, owner, ProxyState.ACTIVE
        proxy.until = self._now + lifetime_seconds if lifetime_seconds else 0.0
        self._changed[known] = proxy
        self._record.pooled = True
        return known

    def drain(self, proxy: str) -> int:
        """Grant nothing more to a proxy; how many requests are in flight."""
        found = self._change(proxy)
        if found is None:
            return 0
        if found.state is ProxyState.ACTIVE:
            found.state = ProxyState.DRAINING
        return found.in_flight

    def remove(self, proxy: str) -> int:
        """Forget a proxy, as soon as nothing is in flight; how many requests are."""
        found = self._change(proxy)
        if found is None:
            return 0
        found.state = ProxyState.REMOVED
        return found.in_flight

    def ban(self, proxy: str, host_key: str, seconds: float) -> bool:
        """Ban a proxy by hand, at a host or everywhere; with 0 seconds end its bans. False: it is not known."""
        found = self._change(proxy)
        if found is None:
            return False
        if seconds:
            if host_key:
                proxy_choice.ban_for(self._change_host(host_key), proxy, self._now + seconds)
            else:
                found.banned_until = self._now + seconds
            return True
        if not host_key:
            found.streak, found.rests, found.rest_until, found.banned_until = 0, 0, 0.0, 0.0
        for key, at_host in self._tables.host_proxies([host_key] if host_key else None).items():
            if at_host.pair(proxy) is not None:
                changed = self._change_host(key)
                changed.pairs = [pair for pair in changed.pairs if pair.id != proxy]
        return True

    def seen(self) -> list[ProxySeen]:
        """Everything that is told of the pool."""
        bans: dict[str, dict[str, float]] = {}
        for host, at_host in self._tables.host_proxies(None).items():
            for pair in at_host.pairs:
                bans.setdefault(pair.id, {})[host] = pair.until
        # A worker may not have begun what it was given before the proxy was gone.
        records = [proxy for proxy in self._tables.proxies() if proxy.in_flight or not proxy.is_gone(self._now)]
        return [seen_of(proxy, self._now, bans.get(proxy.id, {})) for proxy in records]

    # ---- grants

    def can_serve(self, host: Host) -> bool:
        """Whether a proxy is free for a host; if others may be served, and not this one, it waits a while."""
        now, at_host = self._now, self._host(host.key)
        soonest, any_room, any_welcome = now + HOST_PROXY_SECONDS, False, False
        for proxy in self._pool().values():
            if not proxy_choice.is_alive(proxy, now):
                continue
            has_room = proxy_choice.has_room(proxy, self._settings.per_proxy)
            any_room = any_room or has_room
            until = proxy_choice.banned_until(at_host, proxy.id)
            if until > now:
                soonest = min(soonest, until)
            elif has_room:
                return True
            else:
                any_welcome = True
        if not any_room:
            self.is_exhausted = True
        else:
            # A proxy that is registered, or whose ban is ended by hand, is found then too.
            host.due = max(host.due, min(soonest, now + POLL_SECONDS) if any_welcome else soonest)
        return False

    def pick(self, host_key: str, preferred: str = "") -> str:
        """Choose a proxy for a grant and count it; ``can_serve`` has said that there is one.

        ``preferred`` is taken if it is free: a session keeps its proxy.
        """
        now, settings, record = self._now, self._settings, self._record
        at_host = self._host(host_key)
        free = [
            proxy
            for proxy in self._pool().values()
            if proxy_choice.is_alive(proxy, now)
            and proxy_choice.has_room(proxy, settings.per_proxy)
            and proxy_choice.banned_until(at_host, proxy.id) <= now
        ]
        keeps = settings.proxy_rotation == "host"
        if keeps and not preferred and at_host is not None:
            preferred = at_host.kept
        proxy = next((proxy for proxy in free if proxy.id == preferred), None)
        if proxy is None:
            record.proxy_draw = proxy_choice.next_draw(record.proxy_draw)
            proxy = proxy_choice.choose(settings.proxy_strategy, free, record.proxy_draw)
        if keeps and (at_host is None or at_host.kept != proxy.id):
            self._change_host(host_key).kept = proxy.id
        record.proxy_serial += 1
        proxy.served = record.proxy_serial
        proxy.in_flight += 1
        self._changed[proxy.id] = proxy
        return proxy.id

    def give_back(self, proxy: str) -> None:
        """A lease that was counted under this proxy has ended."""
        found = self._change(proxy)
        if found is not None:
            found.in_flight -= 1

    # ---- commits

    def hear(self, lease: LeaseRow, outcome: Outcome) -> bool:
        """Take in what an outcome tells of its proxy; True: the request failed by the proxy, not by its host."""
        news, host_key, now = outcome.proxy_news, lease.host_key, self._now
        proxy = self._change(lease.proxy)
        if news is None or proxy is None:
            return False
        fault, first = news.fault, self._settings.proxy_ban_seconds
        if fault is ProxyFault.UNSURE and proxy_choice.is_suspected(self._change_host(host_key), proxy.id):
            # Another proxy says the same: the host is to blame, and this one has done its work.
            return False
        if fault is ProxyFault.NONE or fault is ProxyFault.UNWANTED:
            proxy_choice.answered(proxy, news.latency_seconds, news.bytes)
            if self._host(host_key) is not None:
                proxy_choice.answered_at(self._change_host(host_key), proxy.id, now)
            if fault is ProxyFault.UNWANTED:
                proxy_choice.ban_for(self._change_host(host_key), proxy.id, now + outcome.retry_seconds + POLL_SECONDS)
            return False
        if fault is ProxyFault.BANNED:
            # It has carried the answer.
            proxy_choice.answered(proxy, news.latency_seconds, news.bytes)
            proxy_choice.ban(self._change_host(host_key), proxy.id, now, first)
        else:
            proxy_choice.failed(proxy, now, outcome.error_class)
            if fault is ProxyFault.UNSURE:
                proxy_choice.failed_at(self._change_host(host_key), proxy.id, now, first)
        return outcome.ending is Ending.RETRY

    # ---- records

    def load_hosts(self, host_keys: Iterable[str]) -> None:
        """Read what is remembered at many hosts at once."""
        missing = [key for key in dict.fromkeys(host_keys) if key not in self._of_hosts]
        if missing:
            found = self._tables.host_proxies(missing) if self._record.proxy_hosts else {}
            self._of_hosts.update({key: found.get(key) for key in missing})

    def _host(self, key: str) -> HostProxies | None:
        if key not in self._of_hosts:
            self.load_hosts([key])
        return self._of_hosts[key]

    def _change_host(self, key: str) -> HostProxies:
        at_host = self._host(key)
        if at_host is None:
            at_host = self._of_hosts[key] = HostProxies()
            self._record.proxy_hosts += 1
        self._changed_hosts.add(key)
        return at_host

    def _pool(self) -> dict[str, ProxyRecord]:
        if self._loaded is None:
            self._loaded = {proxy.id: proxy for proxy in self._tables.proxies()}
        return self._loaded

    def _change(self, proxy: str) -> ProxyRecord | None:
        found = self._pool().get(proxy)
        if found is not None:
            self._changed[proxy] = found
        return found

    def flush(self) -> None:
        """Write what changed."""
        if self._changed:
            past = self._now - proxy_choice.PROXY_MEMORY_SECONDS
            gone = [proxy.id for proxy in self._pool().values() if proxy.is_gone(past) and not proxy.in_flight]
            kept = [proxy for proxy in self._changed.values() if proxy.id not in gone]
            self._tables.save_proxies(kept)
            if gone:
                self._tables.drop_proxies(gone)
            self._changed, self._loaded = {}, None
        if self._changed_hosts:
            changed = {key: at_host for key in sorted(self._changed_hosts) if (at_host := self._of_hosts[key])}
            self._tables.save_host_proxies(changed)
            for key, at_host in changed.items():
                if at_host.is_empty:
                    self._record.proxy_hosts -= 1
                    self._of_hosts[key] = None
            self._changed_hosts = set()
