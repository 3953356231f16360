"""Entry points: how an installed package offers a frontier, a fetcher or a sink of its own.

Looking for one reads the metadata of every installed package, some milliseconds: so whoever asks knows already that the
name is not one of skitter's own. Installing a package is what trusts its code (docs/adr/0037).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skitter.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FRONTIERS = "skitter.frontiers"
"""By the scheme of a URL; each is a ``frontier.contract.FrontierBackend``."""
FETCHERS = "skitter.fetchers"
"""By the value of the setting ``fetcher``; each takes the Settings and returns a ``fetch.contract.Fetcher``."""
SINKS = "skitter.sinks"
"""By the scheme of a target; each is a class (docs/how-to/write-a-sink.md)."""


def find_entry_point(group: str, name: str) -> EntryPoint | None:
    """The entry point of another package for this name; None: no package has one."""
    from importlib.metadata import entry_points

    # A package that is found in two places of sys.path is found twice.
    found = list({(point.value, package_of(point)): point for point in entry_points(group=group, name=name)}.values())
    if len(found) > 1:
        packages = ", ".join(sorted(map(package_of, found)))
        raise UsageError(
            f"several packages offer the same {_kind(group)}: {name}: {packages}", hint="uninstall all but one"
        )
    return found[0] if found else None


def entry_point_names(group: str) -> list[str]:
    """The names that other packages offer."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=group)})


def load_entry_point(found: EntryPoint) -> Any:
    """What an entry point names. UsageError, with the package and the reason, if it cannot be imported."""
    try:
        return found.load()
    except Exception as error:
        raise unusable(found, f"it cannot be imported: {type(error).__name__}: {error}") from error


def unusable(found: EntryPoint, what: str) -> UsageError:
    """What is wrong with a part of another package."""
    return UsageError(
        f"a {_kind(found.group)} cannot be used: {found.name} ({found.value}, package {package_of(found)}): {what}",
        hint=f"install another version of {package_of(found)}, or tell its authors",
    )


def package_of(found: EntryPoint) -> str:
    """The package that an entry point belongs to, with its version."""
    return f"{found.dist.name} {found.dist.version}" if found.dist is not None else "unknown"


def _kind(group: str) -> str:
    return group.rpartition(".")[2].removesuffix("s")
