"""The coordinator contract as tests: one suite for every coordinator. Needs the extra ``testing``.

A test module gives an empty place (``CoordinatorPlace``) for each test and subclasses the suite::

    from skitter.testing import CoordinatorContract, CoordinatorPlace

    class MyPlace(CoordinatorPlace):
        def coordinator(self, session_seconds): return MyCoordinator(self.url, session_seconds=session_seconds)

    @pytest.fixture
    def place(tmp_path):
        return MyPlace(tmp_path)

    class TestMyCoordinator(CoordinatorContract): ...

A coordinator that has locks only subclasses ``LockContract``. Every test is named after what is promised.
"""

from __future__ import annotations

import pytest

_MODULES = ("place", "locks", "lock_sets", "groups", "keys", "rates", "session")
# Before they are imported, so that a failed assert shows its values here as in any test.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from skitter.testing.coordinator import groups, keys, lock_sets, locks, rates, session  # noqa: E402 - see above
from skitter.testing.coordinator.place import CoordinatorPlace  # noqa: E402

__all__ = ["CoordinatorContract", "CoordinatorPlace", "LockContract"]


@pytest.mark.asyncio
class LockContract(locks.LockSteps, locks.HeldLocks, lock_sets.LockSets, lock_sets.Elections, session.SessionStates):
    """The tests of locks, elections and the session. Each test gets the fixture ``place``."""


class CoordinatorContract(LockContract, groups.Groups, keys.KeySteps, keys.WatchedKeys, rates.RateLimits):
    """The tests of the whole contract. Each test gets the fixture ``place``, an empty ``CoordinatorPlace``."""
