"""Why a job stopped, and what kept its seeding from giving all seeds, stand in one field and are told apart."""

from __future__ import annotations

import pytest

from skitter.frontier.memory import MemoryStore, memory_frontier
from skitter.model.job import Command, JobSpec, StopReason
from skitter.model.outcome import Ending, Outcome
from skitter.settings import Settings


@pytest.mark.parametrize("stopped", [False, True])
async def test_the_reasons_of_a_frontier_are_known(stopped: bool) -> None:
    frontier = memory_frontier("j", MemoryStore())
    await frontier.begin(JobSpec(name="j", spider="", settings=Settings().job_wide()))
    if stopped:
        job = await frontier.command(Command.STOP)
        assert (job.reason, job.seeding_problem) == (StopReason.COMMAND, "")
    else:
        (seed,) = (await frontier.lease("w", 1)).leases
        outcome = Outcome(lease=seed, ending=Ending.FAILED, error_class="callback", error="anything at all")
        await frontier.commit("w", [outcome])
        assert (await frontier.job()).seeding_problem == "anything at all"
