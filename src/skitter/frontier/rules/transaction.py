"""One transaction on a job: its record, its time, and the rules that act on them."""

from __future__ import annotations

from skitter.frontier.rules.hosts import HostRules
from skitter.frontier.rules.intakes import IntakeRules
from skitter.frontier.rules.jars import JarRules
from skitter.frontier.rules.job import JobRules
from skitter.frontier.rules.leases import LeaseRules
from skitter.frontier.rules.outbox import OutboxRules
from skitter.frontier.rules.proxies import ProxyRules
from skitter.frontier.rules.requests import RequestRules
from skitter.frontier.rules.sessions import HandedOutSessions
from skitter.frontier.tables import JobRow, Tables
from skitter.policy.sessions import rules_of
from skitter.settings import Settings


class Transaction:
    """The rules of one transaction, which share the job's record and the time; ``close`` writes back what changed."""

    def __init__(self, tables: Tables, record: JobRow, settings: Settings) -> None:
        self.tables = tables
        self.record = record
        self.settings = settings
        self.now = now = tables.clock()
        limits = settings.limits
        self.job = JobRules(tables, record, now, limits)
        self.intakes = IntakeRules(tables, record, now, self.job)
        self.hosts = HostRules(tables, record, now, settings)
        self.is_pooled = record.pooled or settings.proxies.proxy_pool
        """Nothing is leased without a proxy."""
        self._proxies: ProxyRules | None = None
        whole_job = settings.dedup.dedup_scope == "job"
        self.requests = RequestRules(
            tables, record, now, self.hosts, recrawl=settings.recrawl, skips_delivered=whole_job
        )
        self.outbox = OutboxRules(tables, record, now, limits.max_outbox_items, remembers_delivered=whole_job)
        self.jars = JarRules(tables, record, now)
        session_rules = rules_of(
            settings.sessions, login=record.spec.login, keeps_proxy=settings.proxies.proxy_rotation == "session"
        )
        self.sessions = HandedOutSessions(tables, now, session_rules, self.jars)
        self.leases = LeaseRules(
            *(tables, record, now),
            lease_seconds=limits.lease_seconds,
            job=self.job,
            hosts=self.hosts,
            requests=self.requests,
            outbox=self.outbox,
            proxies=self.proxies,
            sessions=self.sessions,
        )

    def proxies(self) -> ProxyRules:
        """The rules of proxies, made when they are first asked for: most jobs have no pool."""
        if self._proxies is None:
            self._proxies = ProxyRules(self.tables, self.record, self.now, self.settings.proxies)
        return self._proxies

    def close(self) -> None:
        """Write back what changed, and settle what it means for the job's state."""
        self.leases.flush()
        self.requests.flush()
        if self._proxies is not None:
            self._proxies.flush()
        self.job.settle()
        self.tables.save_job(self.record)
