"""Tables ``[[alert]]`` of a project file, which may name the variable that has the URL of their webhook."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from skitter.errors import SettingsError


def read_alerts(origin: str, tables: Sequence[Any], environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the tables as the setting ``alerts`` has them. SettingsError for what cannot be read."""
    return [
        _read(f"[[alert]] of {origin}, number {number}", table, environment) for number, table in enumerate(tables, 1)
    ]


def _read(place: str, table: Any, environment: Mapping[str, str]) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise SettingsError(f"not a table: {place}", hint="begin each with [[alert]], in double brackets")
    found = dict(table)
    variable = found.pop("webhook_env", None)
    if variable is not None and "webhook" in found:
        raise SettingsError(f"given twice: {place}: webhook", hint="give either webhook or webhook_env")
    if variable is not None:
        if not environment.get(str(variable)):
            raise SettingsError(
                f"environment variable not set: {place}: webhook_env: {variable}", hint=f"export {variable}=https://…"
            )
        found["webhook"] = environment[variable]
    if isinstance(found.get("command"), str):
        try:
            found["command"] = shlex.split(found["command"])
        except ValueError as error:
            raise SettingsError(f"cannot be split into words: {place}: command", hint="check its quotes") from error
    return found
