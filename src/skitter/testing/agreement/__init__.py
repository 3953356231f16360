"""Stateful comparison of two frontiers: the same steps must give the same answers. Needs hypothesis and pytest.

Hypothesis drives the memory frontier (the oracle) and another one together. What every backend must agree
on is compared exactly: the order inside a host, counts, traces, dead requests, items, states. The choice among
equally ready hosts is a backend's own as long as it is fair, so that is checked as a property of each;
backends that share the oracle's rules also agree on the choice (``same_choice``), and for them the comparison
tests the storage, and the invariants test the rules.
"""

import pytest

# Before it is imported, so that a failed assert shows its values here as in any test.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in ("grants", "invariants", "machine", "pair")))

from skitter.testing.agreement.machine import FrontiersAgree  # noqa: E402 - see above

__all__ = ["FrontiersAgree"]
