"""Tests of the session: its states, and their effect on locks and other things that are held."""

from __future__ import annotations

import asyncio

import pytest

from skitter.cluster.contract import SessionState
from skitter.errors import ClusterUnavailableError, LockLostError
from skitter.testing.coordinator.place import WAIT_SECONDS, CoordinatorPlace


class SessionStates:
    """Tests of ``Cluster.state`` and ``Held.lost``."""

    async def test_a_session_is_connected_until_it_is_closed(self, place: CoordinatorPlace) -> None:
        seen: list[SessionState] = []
        async with place.cluster() as cluster:
            seen.append(cluster.state)
            cluster.on_state(seen.append)
        assert [*seen, cluster.state] == [SessionState.CONNECTED, SessionState.LOST, SessionState.LOST]

    async def test_an_outage_suspends_then_loses_and_ends_in_connected(self, place: CoordinatorPlace) -> None:
        place.needs_cutting()
        seen: list[SessionState] = []
        async with place.cluster(session_seconds=3.0) as cluster:
            states = cluster.states()
            assert await anext(states) == SessionState.CONNECTED
            place.cut()
            async with asyncio.timeout(WAIT_SECONDS):
                seen = [await anext(states), await anext(states)]
                place.mend()
                seen.append(await anext(states))
            assert seen == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]
            async with cluster.lock("after", timeout_seconds=WAIT_SECONDS):
                pass

    async def test_a_holder_is_told_of_the_loss_while_the_server_still_holds_its_lock(
        self, place: CoordinatorPlace
    ) -> None:
        place.needs_cutting()
        async with place.cluster() as cluster, place.cluster() as other:
            held = await cluster.lock("lock", lifetime_seconds=4.0).acquire()
            waiting = asyncio.create_task(other.lock("lock", retry_seconds=0.02).acquire())
            place.cut()
            lost = asyncio.create_task(held.lost.wait())
            async with asyncio.timeout(WAIT_SECONDS):
                done, _ = await asyncio.wait({lost, waiting}, return_when=asyncio.FIRST_COMPLETED)
            assert done == {lost}
            with pytest.raises(LockLostError):
                held.check()
            place.mend()
            async with asyncio.timeout(WAIT_SECONDS):
                second = await waiting
            assert held.token is None or second.token is None or second.token > held.token
            with pytest.raises(LockLostError):
                await held.release()
            second.check()

    async def test_a_short_outage_loses_nothing(self, place: CoordinatorPlace) -> None:
        place.needs_cutting()
        async with place.cluster() as cluster, cluster.lock("lock", lifetime_seconds=12.0) as held:
            place.cut()
            with pytest.raises(ClusterUnavailableError):
                await held.extend()
            place.mend()

            async def is_extended() -> None:
                while True:
                    try:
                        await held.extend()
                    except ClusterUnavailableError:
                        await asyncio.sleep(0.05)
                    else:
                        return

            async with asyncio.timeout(WAIT_SECONDS):
                await is_extended()
            held.check()
