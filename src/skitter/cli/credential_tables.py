"""Tables ``[[credentials]]`` of a project file, which say in which files and variables their secrets are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skitter.agent import Credential
from skitter.errors import SettingsError

_SECRETS = ("password", "token", "key_password")
_PLACES = tuple(f"{secret}_{place}" for secret in _SECRETS for place in ("file", "env"))
_FIELDS = [name for name in Credential.__struct_fields__ if name not in _SECRETS]


def read_credentials(place: str, tables: Sequence[Any], environment: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the tables with their secrets. SettingsError, which repeats no value, for what cannot be read."""
    return [_read(f"{place}, number {number}", table, environment) for number, table in enumerate(tables, 1)]


def _read(place: str, table: Any, environment: Mapping[str, str]) -> dict[str, str]:
    from skitter.fetch.credentials import read_secret

    if not isinstance(table, dict):
        raise SettingsError(f"not a table: {place}", hint="begin each with [[credentials]], in double brackets")
    found: dict[str, str] = {}
    for name, value in table.items():
        if name in _SECRETS:
            raise SettingsError(
                f"a secret must not be in the file itself: {place}: {name}",
                hint=f"name a file of mode 600 in {name}_file, or an environment variable in {name}_env",
            )
        if name not in (*_FIELDS, *_PLACES):
            raise SettingsError(f"unknown field: {place}: {name}", hint=f"fields: {', '.join((*_FIELDS, *_PLACES))}")
        if not isinstance(value, str):
            raise SettingsError(f"not text: {place}: {name}", hint="write every value as text, in quotes")
        secret, _, source = name.rpartition("_")
        if name not in _PLACES:
            found[name] = value
        elif secret in found:
            raise SettingsError(f"given twice: {place}: {secret}", hint=f"give either {secret}_file or {secret}_env")
        elif source == "file":
            found[secret] = read_secret(Path(value), place).rstrip("\r\n")
        elif not (found_there := environment.get(value)):
            raise SettingsError(f"environment variable not set: {place}: {name}: {value}", hint=f"export {value}=…")
        else:
            found[secret] = found_there
    return found
