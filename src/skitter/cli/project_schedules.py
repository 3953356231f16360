"""Schedules of the project file: ``[[schedule]]`` tables of ``skitter.toml``, which a scheduler stores at its start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from skitter.app.schedules import Schedules, split_command
from skitter.cli.actor import cli_actor
from skitter.cli.scheduled_command import check_command
from skitter.cli.settings_layers import read_project
from skitter.errors import SettingsError, UsageError
from skitter.observe import events
from skitter.observe.events import Event


async def apply_project_schedules(frontier: str, on_event: Callable[[Event], None]) -> None:
    """Add the schedules of the current folder's project file, and change those that are not as it says.

    One that is no longer in the file stays, because another scheduler may have it in its own; it is told.
    """
    origin, tables = read_project(Path.cwd()).schedules
    if not tables:
        return
    async with Schedules(frontier, check_command=check_command, actor=cli_actor()) as schedules:
        names = set()
        for table in tables:
            name, command, settings = _parts(origin, table)
            names.add(name)
            try:
                done = await schedules.apply(name, command, origin=origin, **settings)
            except UsageError as error:
                raise SettingsError(f"[[schedule]] {name} of {origin}: {error}", hint=error.hint) from error
            if done:
                on_event(events.SCHEDULE_FROM_FILE(schedule=name, what=done, origin=origin))
        for view in await schedules.list():
            if view.origin == origin and view.name not in names:
                kept = "kept, although it is no longer in the file; skitter schedule remove removes it"
                on_event(events.SCHEDULE_FROM_FILE(schedule=view.name, what=kept, origin=origin))


def _parts(origin: str, table: Any) -> tuple[str, list[str], dict[str, Any]]:
    """Return name, command and settings of a table."""
    if not isinstance(table, dict):
        raise SettingsError(f"not a table in {origin}: schedule", hint="begin each with [[schedule]]")
    name, command = table.get("name"), table.get("command")
    if not isinstance(name, str):
        raise SettingsError(f"a [[schedule]] without a name in {origin}", hint='as in name = "nightly-news"')
    if isinstance(command, str):
        try:
            command = split_command(command)
        except UsageError as error:
            raise SettingsError(f"[[schedule]] {name} of {origin}: {error}", hint=error.hint) from error
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise SettingsError(
            f"[[schedule]] {name} of {origin}: no command", hint='as in command = "crawl news.py -o news.jsonl"'
        )
    return name, command, {key: value for key, value in table.items() if key not in ("name", "command")}
