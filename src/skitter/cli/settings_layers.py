"""The layers of settings, lowest rank first; only this module reads files and the environment for them.

defaults < skitter.toml or [tool.skitter] < --config < the spider's custom_settings < SKITTER_* < command line
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from skitter.cli.arguments import TOKEN_VARIABLE, Override
from skitter.errors import SettingsError, did_you_mean
from skitter.model.capability import MEANINGS
from skitter.model.schedule import SCHEDULE_VARIABLE
from skitter.settings import ALERTS, CREDENTIALS, Settings
from skitter.spiders.crawlo_config import crawlo_names, values_of_config
from skitter.spiders.loading import DEFAULT_SPIDER_PATHS
from skitter.spiders.scrapy_settings import Layer, translated

PREFIX = "SKITTER_"
PASSWORD_VARIABLE = "SKITTER_SINK_PASSWORD"  # noqa: S105  the name of a variable
"""The variable with the password for targets that name a user and no password; it is no setting."""
_NO_SETTINGS = frozenset((PASSWORD_VARIABLE, TOKEN_VARIABLE, SCHEDULE_VARIABLE))


class Project(NamedTuple):
    """The project file of the current folder."""

    layer: Layer
    spider_paths: Sequence[str]
    """Files and folders that are searched for spiders by name."""
    sinks: tuple[str, Sequence[Any]] = ("", ())
    """The file that has sink tables, and the tables."""
    schedules: tuple[str, Sequence[Any]] = ("", ())
    """The file that has schedule tables, and the tables."""
    credentials: tuple[str, Sequence[Any]] = ("", ())
    """The file that has credential tables, and the tables: they say where the secrets are."""
    alerts: tuple[str, Sequence[Any]] = ("", ())
    """The file that has alert tables, and the tables."""
    allow: Sequence[str] = ()
    """The words of ``allow`` in ``[remote]``, for ``skitter serve``."""


class Origin(NamedTuple):
    """Where a value comes from."""

    layer: str
    """``project``, ``config``, ``spider``, ``environment`` or ``command line``."""
    place: str
    """The file, the spider, the variable or the option."""


class Collected(NamedTuple):
    settings: Settings
    warnings: list[str]
    sinks: tuple[str, Sequence[Any]] = ("", ())
    """Targets that files name, and where: FEEDS of the settings module, else the tables of the project."""
    worker_note: str = ""
    """Why there are so many workers, if that was left to us (``workers=auto``)."""
    origins: Mapping[str, Origin] = {}
    """Where each setting comes from that is not the default."""
    frontier: str = ""
    """The URL of the frontier that the settings module names, if it does."""


def read_project(folder: Path) -> Project:
    """Read ``skitter.toml``, or else ``[tool.skitter]`` of ``pyproject.toml``."""
    origin, table = "skitter.toml", _read_toml(folder / "skitter.toml")
    if table is None:
        origin = "pyproject.toml [tool.skitter]"
        table = (_read_toml(folder / "pyproject.toml") or {}).get("tool", {}).get("skitter", {})
    values: dict[str, Any] = {}
    spider_paths: Any = list(DEFAULT_SPIDER_PATHS)
    tables: dict[str, Any] = {name: [] for name in ("sink", "schedule", CREDENTIALS, "alert")}
    allow: Sequence[str] = ()
    groups = Settings.__struct_fields__
    for name, value in table.items():
        if name == "spiders":
            spider_paths = [value] if isinstance(value, str) else value
        elif name in tables:
            tables[name] = value
        elif name == "remote":
            allow = _read_remote(origin, value)
        elif not isinstance(value, dict):
            values[name] = value
        elif name in groups:
            values |= value
        else:
            hint = did_you_mean(name, (*groups, "remote")) or f"tables: {', '.join(groups)}"
            raise SettingsError(f"unknown table in {origin}: {name}", hint=hint)
    if not isinstance(spider_paths, list) or not all(isinstance(place, str) for place in spider_paths):
        raise SettingsError(
            f"bad value in {origin}: spiders={spider_paths!r}", hint='as in spiders = ["spiders", "news.py"]'
        )
    for name, listed in tables.items():
        if not isinstance(listed, list):
            raise SettingsError(
                f"not a list of tables in {origin}: {name}", hint=f"begin each with [[{name}]], in double brackets"
            )
    return Project(
        (origin, values),
        spider_paths,
        sinks=(f"[[sink]] of {origin}", tables["sink"]),
        schedules=(origin, tables["schedule"]),
        credentials=(f"[[{CREDENTIALS}]] of {origin}", tables[CREDENTIALS]),
        alerts=(origin, tables["alert"]),
        allow=allow,
    )


def _read_remote(origin: str, table: Any) -> Sequence[str]:
    """Return the words of ``allow``; SettingsError for an unknown one, which would allow nothing in silence."""
    words = table.get("allow", []) if isinstance(table, dict) and set(table) <= {"allow"} else None
    wrong = [word for word in words if word not in [*MEANINGS]] if isinstance(words, list) else [table]
    if wrong:
        hint = did_you_mean(str(wrong[0]), MEANINGS) or f'as in allow = ["submit"]; words: {", ".join(MEANINGS)}'
        raise SettingsError(f"bad value in [remote] of {origin}: {wrong[0]!r}", hint=hint)
    return words or []


def collect(
    *,
    spider: Layer,
    project: Project,
    environment: Mapping[str, str],
    config: str | None,
    overrides: Iterable[Override],
    one_process: str = "",
) -> Collected:
    """Merge all layers; unknown settings of a Scrapy settings module are named in ``warnings``.

    ``one_process``: why there can be no second worker.
    """
    warnings: list[str] = []
    layers, sinks, frontier = [_with_tables(project, environment)], project.sinks, ""
    if config is not None:
        layer, feeds, frontier = translated(config, _run_module(config), warnings)
        layers.append(layer)
        sinks = (f"FEEDS of {config}", feeds) if feeds else sinks
    of_environment, of_command_line = _from_environment(environment), _from_command_line(overrides)
    kinds = ["project", *["config"] * (len(layers) - 1), "spider"]
    kinds += [*["environment"] * len(of_environment), *["command line"] * len(of_command_line)]
    layers += [spider, *of_environment, *of_command_line]
    # A later layer wins, as in ``Settings.from_layers``.
    origins = {
        name: Origin(kind, place) for kind, (place, values) in zip(kinds, layers, strict=True) for name in values
    }
    layers, worker_note = _with_worker_count(layers, one_process)
    settings = Settings.from_layers(layers)
    if settings.run.proxy:
        from skitter.fetch.proxy import read_proxy

        read_proxy(settings.run.proxy)
    if settings.run.alerts:
        from skitter.app.alert_loading import check_alerts

        check_alerts(settings.run)
    return Collected(settings, warnings, sinks, worker_note, origins, frontier)


def collect_run(
    *, project: Project, environment: Mapping[str, str], config: str | None, overrides: Sequence[Override]
) -> Collected:
    """Merge the layers for a worker: only ``run`` and ``logging`` are its own, the rest was fixed with the job."""
    for override in overrides:
        if override.name in Settings().job_wide():
            raise SettingsError(
                f"applies to the whole job, not to one worker: {override.origin} {override.name}={override.value}",
                hint="set it with skitter crawl",
            )
    return collect(spider=("", {}), project=project, environment=environment, config=config, overrides=overrides)


def sink_password(environment: Mapping[str, str]) -> str | None:
    return environment.get(PASSWORD_VARIABLE) or None


def _with_tables(project: Project, environment: Mapping[str, str]) -> Layer:
    """Return the layer of the project with its credentials and alerts."""
    origin, values = project.layer
    for name, table in ((CREDENTIALS, CREDENTIALS), (ALERTS, "alert")):
        if name in values:
            # With secrets in them, as Python may give it.
            raise SettingsError(f"not a plain setting in {origin}: {name}", hint=f"write [[{table}]] tables")
    if project.credentials[1]:
        from skitter.cli.credential_tables import read_credentials

        values = {**values, CREDENTIALS: read_credentials(*project.credentials, environment)}
    if project.alerts[1]:
        from skitter.cli.alert_tables import read_alerts

        values = {**values, ALERTS: read_alerts(*project.alerts, environment)}
    return origin, values


def _with_worker_count(layers: list[Layer], one_process: str) -> tuple[list[Layer], str]:
    """Put a number in the place of ``workers=auto``, if that is what counts; and the reason for it."""
    named = [values["workers"] for _, values in layers if "workers" in values]
    if "auto" not in named:
        return layers, ""
    numbers = [
        (origin, {name: value for name, value in values.items() if (name, value) != ("workers", "auto")})
        for origin, values in layers
    ]
    if named[-1] != "auto":
        return numbers, ""
    if one_process:
        workers, note = 1, f"1 worker: {one_process}"
    else:
        from skitter.node.auto_workers import auto_workers, this_machine

        workers, note = auto_workers(this_machine())
    return [*numbers, ("workers=auto", {"workers": workers})], note


def _read_toml(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(
            f"cannot be read: {path.name}: {error.strerror}", hint="check the owner and mode of the file"
        ) from error
    # Most folders have no such file, and a crawl there starts without what reads one.
    import tomllib

    try:
        return tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"invalid TOML: {path.name}: {error}", hint="correct the file, or move it elsewhere"
        ) from error


def _from_environment(environment: Mapping[str, str]) -> list[Layer]:
    # An empty variable is what a shell leaves behind for "not set".
    return [
        (f"the environment ({name})", {name.removeprefix(PREFIX).lower(): value})
        for name, value in sorted(environment.items())
        if name.startswith(PREFIX) and name not in _NO_SETTINGS and value
    ]


def _from_command_line(overrides: Iterable[Override]) -> list[Layer]:
    return [(override.origin, {override.name: override.value}) for override in overrides]


def _run_module(config: str) -> dict[str, Any]:
    import runpy

    if not Path(config).is_file():
        raise SettingsError(f"no such settings module: {config}", hint="--config takes the path of a .py file")
    try:
        with crawlo_names():
            values = runpy.run_path(config)
    except Exception as error:
        raise SettingsError(
            f"the settings module fails: {config}: {type(error).__name__}: {error}",
            hint="run with -v for the traceback",
        ) from error
    own = {name: value for name, value in values.items() if name.isupper() and not name.startswith("_")}
    # A Crawlo module may have its configuration in a variable, and its own names beside it.
    return values_of_config(values.get("config")) | own
