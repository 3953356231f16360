"""How much Hypothesis tries: a seeded slice in `make test`, far more, and new every time, in `make soak`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Time limits belong to pytest-timeout: a per-example deadline fails on a busy machine and proves nothing.
settings.register_profile("slice", max_examples=50, derandomize=True, deadline=None)
settings.register_profile(
    "soak", max_examples=2_000, stateful_step_count=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("slice")
