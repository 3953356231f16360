"""Steps of the state machine that open, read and close intakes."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
from hypothesis.stateful import rule

from skitter.frontier.contract import INTAKE_OWNER_SECONDS, Frontier
from skitter.model.intake import IntakeProgress
from skitter.testing.agreement.invariants import Agreeing
from skitter.testing.agreement.strategies import OWNERS

SOURCES = ["file:/urls", "redis://localhost/0#urls"]
STEPS = ["open", "open alone", "tell", "leave", "close"]
_steps = st.tuples(st.sampled_from(STEPS), st.sampled_from(SOURCES), st.sampled_from(OWNERS))


class IntakeSteps(Agreeing):
    """Steps on intakes: both frontiers answer the same, and the job's state fits its open intakes after every step."""

    @rule(
        steps=st.lists(_steps, min_size=1, max_size=6), read=st.integers(0, 3), dies=st.booleans(), ends=st.booleans()
    )
    def reads_intakes(self, steps: Sequence[tuple[str, str, str]], read: int, dies: bool, ends: bool) -> None:
        progress = IntakeProgress(mark=b"%d" % read, read=read, added=read // 2, backlog=read or None)
        for step, source, owner in steps:
            self.take_step(step, source, owner, progress)
        if dies:
            self.advance(INTAKE_OWNER_SECONDS + 1)
        if ends:
            # All intakes are closed, so that most jobs finish; otherwise their ends would never be compared.
            for source in SOURCES:
                for owner in OWNERS:
                    self.take_step("close", source, owner, progress)

    def take_step(self, step: str, source: str, owner: str, progress: IntakeProgress) -> None:
        async def take(frontier: Frontier, _: int) -> object:
            if step == "tell":
                return await frontier.tell_intake(source, owner, progress)
            if step == "close":
                return await frontier.close_intake(source, owner)
            if step == "leave":
                await frontier.leave_intake(source, owner)
                return None
            return await frontier.open_intake(source, owner, alone=step == "open alone")

        self.agreed(take)
