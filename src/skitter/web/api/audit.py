"""The audit trail of a store over REST: who changed which job, and whether the trail is whole."""

from __future__ import annotations

from typing import Annotated

import msgspec

from skitter.app.audit import TrailFilter, Trails, Verification
from skitter.model.audit import AuditRow
from skitter.web.api.job_reads import PageQuery, Text
from skitter.web.api.route import Call, Page, StoreQuery, check_scope
from skitter.web.frontier_routes import RefusedError


class AuditQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job: Text = ""
    actor: Text = ""
    """The whole name, or its beginning."""
    action: Text = ""
    """The same."""
    since: Annotated[float, msgspec.Meta(ge=0, le=1e11)] = 0.0


class VerifyQuery(StoreQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    head: Annotated[str, msgspec.Meta(max_length=4_000)] = ""
    """A head that was noted before, or several with commas between them."""


async def rows(call: Call) -> Page[AuditRow]:
    """Rows of the trail; a credential with jobs has to name one of its own."""
    query: AuditQuery = call.query
    if query.job:
        check_scope(call.credential, query.job)
    elif call.credential.jobs:
        raise RefusedError(403, "the audit trail contains all jobs", hint="name a job of the credential: job=NAME")
    wanted = TrailFilter(
        job=query.job,
        actor=query.actor,
        action=query.action,
        since=query.since,
        limit=query.limit,
        before=query.after,
    )
    async with Trails(call.store.url) as trails:
        found = await trails.rows(wanted)
    return Page(rows=found, next=found[-1].id if len(found) == query.limit else None)


async def verify(call: Call) -> Verification:
    """Read the whole trail, and compare it with a noted head."""
    if call.credential.jobs:
        raise RefusedError(403, "the audit trail contains all jobs", hint="use a credential for all jobs")
    heads = [head for head in call.query.head.split(",") if head]
    async with Trails(call.store.url) as trails:
        return await trails.verify(heads=heads)
