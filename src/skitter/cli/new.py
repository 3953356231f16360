"""``skitter new``: a project, or a spider in one, from templates."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import Parser, add_verbosity_options
from skitter.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def configure(parser: Parser) -> None:
    parser.describe(
        "project NAME [URL]",
        "spider NAME URL",
        text="Create a project with a first spider and tests for it, or add a spider and its tests to the project of\n"
        "the current folder. Existing files are never overwritten.",
        examples=[
            ("skitter new project bookshop http://127.0.0.1:8600/", "Create the folder bookshop with a first spider"),
            (
                "skitter new spider authors http://127.0.0.1:8600/authors/",
                "Add a spider to the project of the current folder",
            ),
        ],
    )
    parser.add_argument("kind", choices=("project", "spider"), metavar="project|spider", help="what to create")
    parser.add_argument("name", metavar="NAME", help="folder of the project, or name of the spider")
    parser.add_argument("url", nargs="?", metavar="URL", help="where the spider starts; optional for a project")
    add_verbosity_options(parser, json_help="print the names of the new files as JSON")


def run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from skitter.app.new_project import DEFAULT_URL, new_project
    from skitter.cli.output import note, print_json
    from skitter.cli.terminal_text import clean

    here = Path.cwd()
    if options.kind == "project":
        url = options.url or DEFAULT_URL
        files = new_project(here, options.name, url)
        spider = files[-2].stem
        following = [
            f"cd {options.name}",
            "skitter list",
            f"skitter shell {url}",
            f"skitter crawl {spider} -o {spider}.jsonl",
        ]
    else:
        files = _new_spider(here, options)
        following = [f"skitter check {options.name}", f"skitter crawl {options.name} -o {options.name}.jsonl"]
    created = [str(path.relative_to(here)) for path in files]
    if options.json:
        print_json({"created": created})
        return 0
    print("\n".join(map(clean, created)))
    note("next:\n" + "\n".join(f"  {clean(command)}" for command in following))
    return 0


def _new_spider(here: Path, options: argparse.Namespace) -> list[Path]:
    from skitter.app.new_project import new_spider
    from skitter.cli.settings_layers import read_project

    if options.url is None:
        raise UsageError("a spider without a URL", hint=f"skitter new spider {options.name} https://example.com/")
    project = read_project(here)
    if not (here / "skitter.toml").exists() and not project.layer[1] and not (here / "spiders").is_dir():
        raise UsageError(f"not the folder of a project: {here.name}", hint="skitter new project NAME URL creates one")
    return new_spider(here, options.name, options.url, project.spider_paths)
