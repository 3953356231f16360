"""Where results go: ``-o`` and ``-O``, what the spider names, or the ``[[sink]]`` tables of the project.

The highest of the three that names any gives all of them, as it is with settings: who tries a spider with ``-o -``
does not write to the project's database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skitter.errors import SettingsError, UsageError
from skitter.sinks.targets import Target, parse_target, without_options

Described = tuple[str, Sequence[Any]]
"""Where targets are written down, and what they are: texts, or tables with ``target`` and options."""
_EXAMPLE = 'as in target = "books.jsonl"'


def collect_outputs(
    *,
    typed: Sequence[tuple[str, bool]],
    job: str,
    tables: Described = ("", ()),
    spider: Described = ("", ()),
    item_key: Any = (),
    password: str | None = None,
) -> list[Target]:
    """``typed``: targets of the command line, each with whether it is to be overwritten. ``password``: see
    ``parse_target``."""
    keys = _fields("the spider's item_key", item_key)
    if typed:
        found = [
            parse_target(text, overwrite=anew, job=job, key_fields=keys, password=password) for text, anew in typed
        ]
    else:
        origin, described = spider if spider[1] else tables
        found = [_from_table(origin, each, job, keys, password) for each in described]
    return _each_once(found)


def _from_table(origin: str, described: Any, job: str, keys: tuple[str, ...], password: str | None) -> Target:
    table = {"target": described} if isinstance(described, str) else described
    if not isinstance(table, Mapping):
        raise SettingsError(f"invalid output in {origin}: {type(described).__name__}", hint=_EXAMPLE)
    options = dict(table)
    text, overwrite = options.pop("target", None), options.pop("overwrite", False)
    if not isinstance(text, str) or not text:
        raise SettingsError(f"an output without a target in {origin}", hint=_EXAMPLE)
    if not isinstance(overwrite, bool):
        raise SettingsError(f"bad value in {origin}: overwrite={overwrite!r}", hint="use true or false")
    own = _fields(f"{origin} (key)", options.pop("key", ()))
    return parse_target(
        text,
        overwrite=overwrite,
        job=job,
        key_fields=own or keys,
        options={str(name): _option(origin, name, value) for name, value in options.items()},
        password=password,
    )


def _option(origin: str, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    # The value is not repeated: it may be a secret.
    raise SettingsError(
        f"bad value in {origin}: {name}", hint="an option of an output is text, a number, true or false"
    )


def _fields(origin: str, value: Any) -> tuple[str, ...]:
    """``"isbn"``, ``"isbn,shop"`` and ``["isbn", "shop"]``."""
    names = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(name, str) for name in names):
        raise SettingsError(f"invalid field names: {origin}", hint='as in ["isbn"], or "isbn,shop"')
    return tuple(name.strip() for name in names if name.strip())


def _each_once(targets: Sequence[Target]) -> list[Target]:
    places: set[str] = set()
    for target in targets:
        place = without_options(target.name)
        if place in places:
            raise UsageError(
                f"the same output is named twice: {target.name}", hint="name each output once, with -o or -O"
            )
        places.add(place)
    return list(targets)
