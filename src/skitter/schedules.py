"""Schedules from Python: ``async with skitter.schedules.connect(URL) as schedules: await schedules.add(…)``.

Schedules need a running scheduler: ``skitter scheduler --frontier URL``.
"""

from __future__ import annotations

from skitter.app.schedules import Schedules, ScheduleSettings, ScheduleView
from skitter.cli.scheduled_command import check_command
from skitter.model.schedule import HistoryRow

__all__ = ["HistoryRow", "ScheduleSettings", "ScheduleView", "Schedules", "connect"]


def connect(frontier: str = "") -> Schedules:
    """Return the schedules of a frontier (``sqlite:PATH``, ``redis://…``), for ``async with``.

    An empty URL means the schedules of the current folder. Commands are checked when they are added, so their spiders
    and files must exist on this machine.
    """
    return Schedules(frontier, check_command=check_command)
