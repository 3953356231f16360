"""The consistency check of a job, and who may repair it."""

from __future__ import annotations

from skitter.cluster.process_identity import live_workers
from skitter.errors import DamageError, JobError
from skitter.frontier.contract import Frontier
from skitter.model.consistency import Consistency, unreadable
from skitter.model.job import State


async def check_job(frontier: Frontier, *, repair: bool = False) -> Consistency:
    """Check a job, and repair it; JobError for a repair of a job that is at work. A damaged job is a finding."""
    try:
        if repair:
            await _refuse_at_work(frontier)
        return await frontier.check_consistency(repair=repair)
    except DamageError as error:
        report = Consistency()
        report.add(unreadable(str(error)))
        return report


async def _refuse_at_work(frontier: Frontier) -> None:
    report = await frontier.report(0)
    name = report.job.spec.name
    if report.job.state is State.RUNNING:
        raise JobError(f"a running job cannot be repaired: {name}", hint=f"pause it first: skitter pause {name}")
    if workers := live_workers(report):
        who = ", ".join(
            f"process {one.heartbeat.pid} on {one.heartbeat.host_name}" if one.heartbeat else one.id for one in workers
        )
        raise JobError(f"workers are running: {name}: {who}", hint="stop each with Ctrl-C or kill, then repair")
