"""``skitter list``: the spiders of the project, by reading their files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_verbosity_options
from skitter.cli.exit_codes import FAILED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skitter.spiders.spider_files import SpiderListing


def configure(parser: Parser) -> None:
    parser.describe(
        "[PATH...] [options]",
        text="List the spiders of the project: name, file.py:Class and first line of the docstring. Files are read,\n"
        "not run. The exit code is 1 if a file is not valid Python.",
        examples=[
            ("skitter list", "List the spiders of the project"),
            ("skitter list spiders/books.py --json", "List the spiders of one file as JSON"),
        ],
    )
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="files and folders (default: spiders of skitter.toml, or the folder spiders)",
    )
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from skitter.cli.output import note, print_json
    from skitter.cli.terminal_text import clean, table

    listing = listed(Path.cwd(), options.paths)
    if options.json:
        print_json(listing)
        return FAILED if listing.broken else 0
    if rows := [(clean(one.name) or "-", clean(one.reference), clean(one.about)) for one in listing.spiders]:
        print("\n".join(table(rows)))
    elif not listing.broken:
        note("no spiders found; skitter new NAME URL creates a project with one")
    for broken in listing.broken:
        note(f"warning: cannot be read: {clean(broken.file)}: {clean(broken.problem)}")
    return FAILED if listing.broken else 0


def listed(folder: Path, paths: Sequence[str]) -> SpiderListing:
    """List the spiders of ``paths``, or of the project if there are none."""
    from skitter.cli.settings_layers import read_project
    from skitter.spiders.foreign_project import framework_of, list_project_spiders
    from skitter.spiders.loading import DEFAULT_SPIDER_PATHS
    from skitter.spiders.spider_files import list_spiders

    if not paths and framework_of(folder):
        return list_project_spiders((), folder)
    if not paths:
        # Only a place that somebody has named must be there.
        paths = [
            place
            for place in read_project(folder).spider_paths
            if place not in DEFAULT_SPIDER_PATHS or (folder / place).exists()
        ]
    return list_spiders(paths, folder)
