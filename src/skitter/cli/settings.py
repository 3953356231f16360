"""``skitter settings``: every setting, its value and where that comes from."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_spider_argument_option, add_verbosity_options
from skitter.cli.crawl import CRAWL_OPTIONS, add_job_setting_options

if TYPE_CHECKING:
    from skitter.cli.settings_layers import Collected

DEFAULT = "default"


def configure(parser: Parser) -> None:
    parser.describe(
        "[SPIDER] [options]",
        text="List every setting, its value and where the value comes from. Passwords are masked.",
        examples=[
            ("skitter settings --changed", "Show what the project and the environment change"),
            ("skitter settings books.py --set delay_seconds=2 --json", "Show the settings of a spider as JSON"),
        ],
    )
    parser.add_argument(
        "spider", nargs="?", metavar="SPIDER", help="include the settings of this spider; its file is run"
    )
    add_spider_argument_option(parser)
    parser.group("Output").add_argument(
        "--changed", action="store_true", help="only settings that differ from the default"
    )
    add_job_setting_options(parser, CRAWL_OPTIONS)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.output import note, print_json, warn
    from skitter.cli.spider_settings import spider_settings
    from skitter.cli.terminal_text import clean, table
    from skitter.settings import shown_value

    source = spider_settings(options, options.spider)
    for warning in source.warnings:
        warn(warning)
    rows = setting_rows(source.collected, changed=options.changed)
    if options.json:
        print_json(rows)
        return 0
    if rows:
        print("\n".join(table((row["name"], clean(shown_value(row["value"])), clean(_origin(row))) for row in rows)))
    elif options.changed:
        note("all settings have their defaults")
    return 0


def _origin(row: dict[str, Any]) -> str:
    place: str = row["place"]
    return f"{row['layer']}: {place}" if row["layer"] in ("project", "config", "spider") else place


def setting_rows(collected: Collected, *, changed: bool = False) -> list[dict[str, Any]]:
    """Return ``name``, ``group``, ``value``, ``layer`` and ``place`` of each setting."""
    import msgspec

    from skitter.settings import ALERTS, CREDENTIALS

    rows = []
    for group, values in msgspec.to_builtins(collected.settings).items():
        for name, value in values.items():
            layer, place = collected.origins.get(name, (DEFAULT, DEFAULT))
            if name == CREDENTIALS:
                value = [credential.shown for credential in collected.settings.run.credentials]  # noqa: PLW2901
            if name == ALERTS:
                value = [rule.shown for rule in collected.settings.run.alerts]  # noqa: PLW2901
            if layer != DEFAULT or not changed:
                rows.append({"name": name, "group": group, "value": value, "layer": layer, "place": place})
    return rows
