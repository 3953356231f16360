"""Stateful comparison of two frontiers: the same steps must give the same answers. Needs hypothesis and pytest.

Hypothesis runs the same steps on the memory frontier (the oracle) and on another frontier. Everything that all backends
must agree on is compared exactly: the order within a host, counts, traces, failed requests, items, states. A backend
may choose among equally ready hosts as it likes as long as it is fair, so fairness is checked as a property of each
backend. Backends that share the oracle's rules also make the same choice (``same_choice``); for them, the comparison
tests the storage, and the invariants test the rules.
"""

import pytest

# Registered before the import, so that a failed assert shows its values here as in any test.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in ("grants", "invariants", "machine", "pair")))

from skitter.testing.agreement.machine import FrontiersAgree  # noqa: E402 - see above

__all__ = ["FrontiersAgree"]
