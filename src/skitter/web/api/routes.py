"""The table of all routes at /api/v1: method, path, role, parameters, body and answer of each."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from aiohttp import web

from skitter.app.audit import Verification
from skitter.app.schedules import CheckCommand, ScheduleView
from skitter.app.submit import Submitted
from skitter.app.views.metrics import ScaleView
from skitter.app.views.proxies import ProxyView
from skitter.app.views.sessions import SessionView as CookieSessionView
from skitter.app.views.settings import JobSetting
from skitter.app.views.status import WorkerView
from skitter.app.views.why import WhyView
from skitter.frontier.http.wire import LONG_CALL_SECONDS, Role
from skitter.model.audit import AuditRow
from skitter.model.intake import IntakeSeen
from skitter.model.job import HostSeen, Report, SinkSeen
from skitter.model.schedule import HistoryRow
from skitter.model.store_capacity import StoreCapacity
from skitter.web.access import Access
from skitter.web.api import audit, failures, schedules
from skitter.web.api import job_changes as changes
from skitter.web.api import job_reads as reads
from skitter.web.api.event_stream import EventsQuery, EventStreams
from skitter.web.api.live_figures import LiveFigures
from skitter.web.api.openapi import document
from skitter.web.api.route import Answer, Call, NoBody, NoQuery, Page, Route, RouteServer, Rows, StoreQuery
from skitter.web.api.session import LoginBody, SessionRoutes, SessionView
from skitter.web.stores import Store

WRITE_SECONDS = 55.0
"""A change may wait for a store that is unavailable; who asks again is told what has become of it by the job's
state."""


class ApiRoutes:
    """Serves the table."""

    def __init__(
        self,
        stores: dict[str, Store],
        access: Access,
        seen_report: Callable[[str, str, Report], Report],
        check_command: CheckCommand | None = None,
        allowed: Collection[str] = (),
    ) -> None:
        """``check_command``: says which commands may be scheduled; None: none may. ``allowed``: see ``RouteServer``."""
        figures = LiveFigures(seen_report)
        self._reads = reads.JobReads(figures)
        self._failures = failures.FailureReads(figures)
        self._changes = changes.JobChanges(figures)
        self._schedules = schedules.ScheduleRoutes(check_command)
        self._session = SessionRoutes(access)
        self._streams = EventStreams(figures, self._reads, access)
        self._server = RouteServer(stores, allowed)
        self.table = [*self._own(), *self._of_jobs(), *self._of_changes(), *self._of_schedules()]

    def add_to(self, app: web.Application) -> None:
        for route in self.table:
            self._server.add(app, route)

    def close_streams(self) -> None:
        """Let clients of event streams come again later."""
        self._streams.close()

    async def _document(self, _: Call) -> Answer:
        return Answer(value=document(self.table))

    def _own(self) -> list[Route]:
        return [
            _read("/session", None, "The client's name, role and session", self._session.get, SessionView),
            Route(
                method="POST",
                path="/session",
                role=None,
                summary="Log in with a password, and get a session cookie",
                handle=self._session.log_in,
                body=LoginBody,
                answer=SessionView,
            ),
            Route(
                method="DELETE",
                path="/session",
                role=None,
                summary="Log out",
                handle=self._session.log_out,
                status=204,
            ),
            _read("/openapi.json", Role.VIEWER, "This document", self._document, dict[str, Any]),
            _read(
                "/audit",
                Role.OPERATOR,
                "Actions of operators, newest first",
                audit.rows,
                Page[AuditRow],
                audit.AuditQuery,
            ),
            Route(
                method="GET",
                path="/audit/verify",
                role=Role.ADMIN,
                summary="Verify that the audit trail is intact",
                handle=audit.verify,
                query=audit.VerifyQuery,
                answer=Verification,
                timeout_seconds=LONG_CALL_SECONDS,
            ),
            _read("/stores", Role.VIEWER, "The stores that are served", self._reads.stores, reads.StoresAnswer),
            Route(
                method="GET",
                path="/events",
                role=Role.VIEWER,
                summary="A stream of server-sent events with the figures of a job, or of the list of jobs",
                handle=self._streams.handle,
                query=EventsQuery,
                answer=str,
                timeout_seconds=None,
                media_type="text/event-stream",
            ),
        ]

    def _of_jobs(self) -> list[Route]:
        of_job = self._reads

        def read(path: str, summary: str, handle: Any, answer: Any, query: Any = StoreQuery) -> Route:
            return _read(f"/jobs/{{job}}{path}", Role.VIEWER, summary, handle, answer, query)

        return [
            _read("/jobs", Role.VIEWER, "Jobs and their states", of_job.jobs, Page[reads.JobRow], reads.JobsQuery),
            read("", "One job: what skitter status shows", of_job.job, reads.JobDetail),
            read(
                "/history",
                "Samples of a job's figures, for charts",
                of_job.history,
                reads.HistoryAnswer,
                reads.HistoryQuery,
            ),
            read("/hosts", "Hosts: slow, with long queues, or all", of_job.hosts, Page[HostSeen], reads.HostsQuery),
            read("/workers", "Workers, ordered by id", of_job.workers, Page[WorkerView], reads.WorkersQuery),
            read(
                "/failures",
                "Failed requests",
                self._failures.rows,
                Page[failures.FailureRow],
                failures.FailuresQuery,
            ),
            read("/failures/summary", "Failures by class and host", self._failures.summary, failures.FailureSummary),
            read(
                "/items",
                "Sample items, and how often each field is filled",
                of_job.items,
                reads.ItemsAnswer,
                reads.ItemsQuery,
            ),
            read("/sinks", "Outputs and their progress", of_job.sinks, Rows[SinkSeen]),
            read("/intakes", "Intakes and their progress", of_job.intakes, Rows[IntakeSeen]),
            read("/why", "What happened to a URL, and why", of_job.why, WhyView, reads.WhyQuery),
            read("/settings", "Settings and where each comes from", of_job.settings, Rows[JobSetting]),
            read("/proxies", "Proxies of the pool, without passwords", of_job.proxies, Rows[ProxyView]),
            read("/sessions", "Sessions, without cookies", of_job.sessions, Rows[CookieSessionView]),
            read("/scale", "Number of workers that the job could use", of_job.scale, ScaleView, reads.ScaleQuery),
            read("/capacity", "Free space of the job's store", of_job.capacity, Rows[StoreCapacity]),
        ]

    def _of_changes(self) -> list[Route]:
        made = self._changes
        job = "/jobs/{job}"

        def post(
            path: str, summary: str, handle: Any, answer: Any, body: Any = NoBody, status: int = 200, **more: Any
        ) -> Route:
            return _change("POST", path, Role.OPERATOR, summary, handle, answer, body, status, **more)

        return [
            post("/jobs", "Create or resume a job for a fleet", made.submit, Submitted, changes.SubmitBody, 201),
            post(f"{job}/pause", "Start no new requests", made.pause, changes.Commanded),
            post(f"{job}/resume", "Continue after pause or stop", made.resume, changes.Commanded),
            post(f"{job}/stop", "Stop after the requests in flight have ended", made.stop, changes.Commanded),
            post(f"{job}/runs", "Start a new run", made.new_run, changes.NewRun, status=201),
            post(f"{job}/urls", "Add URLs", made.add_urls, changes.Added, changes.UrlsBody),
            _change(
                "PATCH",
                f"{job}/settings",
                Role.OPERATOR,
                "Change settings while the job runs",
                made.change_settings,
                changes.Changed,
                changes.SettingsBody,
            ),
            post(
                f"{job}/failures/retry",
                "Queue failed requests again",
                made.retry,
                changes.Retried,
                changes.RetryBody,
                timeout_seconds=LONG_CALL_SECONDS,
            ),
            post(
                f"{job}/hosts/pause",
                "Send no requests to a host until resume",
                made.pause_host,
                changes.HostOrdered,
                changes.HostBody,
            ),
            post(
                f"{job}/hosts/resume",
                "End the pause or give-up of a host",
                made.resume_host,
                changes.HostOrdered,
                changes.HostBody,
            ),
            post(
                f"{job}/hosts/give-up",
                "Fail all queued requests of a host",
                made.give_up_host,
                changes.HostOrdered,
                changes.HostBody,
            ),
            post(f"{job}/proxies/{{proxy}}/ban", "Ban a proxy", made.ban_proxy, changes.Banned, changes.BanBody),
            post(
                f"{job}/fsck",
                "Check the stored data of a job for consistency; repair it (admin)",
                made.check,
                changes.Checked,
                changes.FsckBody,
                timeout_seconds=LONG_CALL_SECONDS,
            ),
            _change("DELETE", job, Role.ADMIN, "Delete a job and all its data", made.drop, changes.Dropped, None),
        ]

    def _of_schedules(self) -> list[Route]:
        made, one = self._schedules, "/schedules/{name}"
        history = schedules.ScheduleHistoryQuery
        return [
            _read("/schedules", Role.VIEWER, "Schedules", made.list, schedules.SchedulesAnswer, reads.PageQuery),
            _read(one, Role.VIEWER, "One schedule", made.get, ScheduleView, StoreQuery),
            _read(f"{one}/history", Role.VIEWER, "Results of its last ticks", made.history, Rows[HistoryRow], history),
            _change(
                *("POST", "/schedules", Role.OPERATOR, "Add a schedule", made.add, ScheduleView),
                *(schedules.NewScheduleBody, 201),
            ),
            _change("PUT", one, Role.OPERATOR, "Change a schedule", made.change, ScheduleView, schedules.ScheduleBody),
            _change("POST", f"{one}/pause", Role.OPERATOR, "Skip ticks until resume", made.pause, ScheduleView),
            _change("POST", f"{one}/resume", Role.OPERATOR, "Run ticks again", made.resume, ScheduleView),
            _change("POST", f"{one}/run", Role.OPERATOR, "Run a schedule now", made.run, schedules.RunNow),
            _change(
                "DELETE", one, Role.OPERATOR, "Remove a schedule and its history", made.remove, schedules.Removed, None
            ),
        ]


def _read(path: str, role: Role | None, summary: str, handle: Any, answer: Any, query: Any = NoQuery) -> Route:
    return Route(method="GET", path=path, role=role, summary=summary, handle=handle, answer=answer, query=query)


def _change(
    method: str,
    path: str,
    role: Role,
    summary: str,
    handle: Any,
    answer: Any,
    body: Any = NoBody,
    status: int = 200,
    timeout_seconds: float = WRITE_SECONDS,
) -> Route:
    return Route(
        method=method,
        path=path,
        role=role,
        summary=summary,
        handle=handle,
        query=StoreQuery,
        body=body,
        answer=answer,
        status=status,
        timeout_seconds=timeout_seconds,
    )
