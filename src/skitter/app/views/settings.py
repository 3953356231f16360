"""The settings of a job, each with the layer that its value comes from."""

from __future__ import annotations

from typing import Any

import msgspec

from skitter.model.job import JobSpec
from skitter.settings import CHANGEABLE, CREDENTIALS, Settings


class JobSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a job."""

    name: str
    group: str
    value: Any
    layer: str
    """``default``; ``job``: the command that began it gave it; ``changed``: while it ran."""
    before: Any = None
    """The value that the job's command gave, of one that was changed."""
    changeable: bool
    """Whether it may be changed while the job runs."""


def job_setting_rows(spec: JobSpec) -> list[JobSetting]:
    """All job-wide settings of a job, by group."""
    present = Settings.from_layers([("the job", spec.settings)])
    defaults = Settings().job_wide()
    known = present.job_wide()
    rows = []
    for group, values in msgspec.to_builtins(present).items():
        for name in values:
            if name not in known or name == CREDENTIALS:
                continue
            value = known[name]
            layer = "changed" if name in spec.changed_from else "default" if value == defaults.get(name) else "job"
            rows.append(
                JobSetting(
                    name=name,
                    group=group,
                    value=value,
                    layer=layer,
                    before=spec.changed_from.get(name),
                    changeable=name in CHANGEABLE,
                )
            )
    return rows
