"""Test suite for the coordinator contract. Needs the extra ``testing``.

A test module provides an empty place (``CoordinatorPlace``) for each test and subclasses the suite::

    from skitter.testing import CoordinatorContract, CoordinatorPlace

    class MyPlace(CoordinatorPlace):
        def coordinator(self, session_seconds): return MyCoordinator(self.url, session_seconds=session_seconds)

    @pytest.fixture
    def place(tmp_path):
        return MyPlace(tmp_path)

    class TestMyCoordinator(CoordinatorContract): ...

For a coordinator that has only locks, subclass ``LockContract``. Every test is named after a promise.
"""

from __future__ import annotations

import pytest

_MODULES = ("place", "locks", "lock_sets", "groups", "keys", "rates", "session")
# Registered before the import, so that a failed assert shows its values here as in any test.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from skitter.testing.coordinator import groups, keys, lock_sets, locks, rates, session  # noqa: E402 - see above
from skitter.testing.coordinator.place import CoordinatorPlace  # noqa: E402

__all__ = ["CoordinatorContract", "CoordinatorPlace", "LockContract"]


@pytest.mark.asyncio
class LockContract(locks.LockSteps, locks.HeldLocks, lock_sets.LockSets, lock_sets.Elections, session.SessionStates):
    """Test suite for locks, elections and the session. Each test uses the fixture ``place``."""


class CoordinatorContract(LockContract, groups.Groups, keys.KeySteps, keys.WatchedKeys, rates.RateLimits):
    """Test suite for the whole coordinator contract. Each test uses the fixture ``place``, an empty
    ``CoordinatorPlace``."""
