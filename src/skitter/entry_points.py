"""Entry points by which installed packages offer frontiers, fetchers, sinks, intakes and coordinators.

A lookup reads the metadata of every installed package, which takes some milliseconds, so callers check skitter's own
names first. Installing a package means trusting its code (docs/adr/0037).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skitter.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FRONTIERS = "skitter.frontiers"
"""Entry point group of frontiers, named by the scheme of their URL; each is a ``frontier.contract.FrontierBackend``."""
FETCHERS = "skitter.fetchers"
"""Entry point group of fetchers, named by the setting ``fetcher``; each makes a ``fetch.contract.Fetcher``."""
SINKS = "skitter.sinks"
"""Entry point group of sinks, named by the scheme of a target; each is a class (docs/how-to/write-a-sink.md)."""
INTAKES = "skitter.intakes"
"""Entry point group of intakes, named by the scheme of a source; each is a class (docs/how-to/write-an-intake.md)."""
PROXY_PROVIDERS = "skitter.proxy_providers"
"""Entry point group of lists of proxies, named by what stands before the first colon of a source; each is called with
the rest, in a thread, and returns URLs of proxies (docs/how-to/proxies.md)."""
COORDINATORS = "skitter.coordinators"
"""Entry point group of coordinators, named by the scheme of their URL; each is called with the URL and the keyword
``session_seconds``, and makes a ``cluster.contract.Coordinator`` (docs/how-to/write-a-coordinator.md)."""

PROJECTS = "skitter.projects"
"""Entry point group of adapters for projects of other frameworks, named by the framework; each is a
``spiders.foreign_project.Adapter``."""


def find_entry_point(group: str, name: str) -> EntryPoint | None:
    """Return the entry point with this name, or None if no package has one."""
    from importlib.metadata import entry_points

    # A package that is in two places of sys.path is reported twice.
    found = list({(point.value, package_of(point)): point for point in entry_points(group=group, name=name)}.values())
    if len(found) > 1:
        packages = ", ".join(sorted(map(package_of, found)))
        raise UsageError(
            f"several packages offer the same {_kind(group)}: {name}: {packages}", hint="uninstall all but one"
        )
    return found[0] if found else None


def entry_point_names(group: str) -> list[str]:
    """Return the names that installed packages offer."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=group)})


def load_entry_point(found: EntryPoint) -> Any:
    """Return the object of an entry point; raise UsageError if it cannot be imported."""
    try:
        return found.load()
    except Exception as error:
        raise unusable(found, f"it cannot be imported: {type(error).__name__}: {error}") from error


def unusable(found: EntryPoint, what: str) -> UsageError:
    """Return the error for an entry point that cannot be used."""
    kind = _kind(found.group)
    return UsageError(
        f"{'an' if kind == 'intake' else 'a'} {kind} cannot be used: {found.name}"
        f" ({found.value}, package {package_of(found)}): {what}",
        hint=f"install another version of {package_of(found)}, or report it to its authors",
    )


def package_of(found: EntryPoint) -> str:
    """Return name and version of the package of an entry point."""
    return f"{found.dist.name} {found.dist.version}" if found.dist is not None else "unknown"


def _kind(group: str) -> str:
    return group.rpartition(".")[2].removesuffix("s")
