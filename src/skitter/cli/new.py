"""``skitter new``: a project, or a spider in one, from templates."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser, add_verbosity_options
from skitter.errors import UsageError

ACTIONS = ("project", "spider")
"""Words that stand before the name, and therefore no names: ``new project project`` makes a project of this name."""


def configure(parser: Parser) -> None:
    parser.describe(
        "NAME [URL]",
        "project NAME [URL]",
        "spider NAME URL",
        text="Create a project with a first spider and tests for it, or, in the folder of a project, add a spider and\n"
        "its tests. Existing files are never overwritten.",
        examples=[
            ("skitter new bookshop http://127.0.0.1:8600/", "Create the folder bookshop with a first spider"),
            ("skitter new authors http://127.0.0.1:8600/authors/", "In the folder bookshop: add a spider"),
        ],
    )
    parser.add_argument(
        "action",
        nargs="?",
        metavar="project|spider",
        help="what to create (default: a spider in the folder of a project, a project elsewhere)",
    )
    parser.add_argument("name", metavar="NAME", help="folder of the project, or name of the spider")
    parser.add_argument("url", nargs="?", metavar="URL", help="where the spider starts; optional for a project")
    add_verbosity_options(parser, json_help="print the names of the new files as JSON")


def run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from skitter.app.new_project import DEFAULT_URL, new_project, new_spider
    from skitter.cli.output import note, print_json
    from skitter.cli.settings_layers import read_project
    from skitter.cli.terminal_text import clean

    _sort_words(options)
    here, name = Path.cwd(), options.name
    project = read_project(here)
    is_project = (here / "skitter.toml").exists() or bool(project.layer[1]) or (here / "spiders").is_dir()
    if (options.action or ("spider" if is_project else "project")) == "project":
        url = options.url or DEFAULT_URL
        files = new_project(here, name, url)
        spider = files[-2].stem
        following = [f"cd {name}", "skitter list", f"skitter shell {url}", f"skitter crawl {spider} -o {spider}.jsonl"]
    else:
        if options.url is None:
            raise UsageError("a spider without a URL", hint=f"skitter new spider {name} https://example.com/")
        if not is_project:
            raise UsageError(f"not the folder of a project: {here.name}", hint="skitter new NAME URL creates one")
        files = new_spider(here, name, options.url, project.spider_paths)
        following = [f"skitter check {name}", f"skitter crawl {name} -o {name}.jsonl"]
    created = [str(path.relative_to(here)) for path in files]
    if options.json:
        print_json({"created": created})
        return 0
    print("\n".join(map(clean, created)))
    note("next:\n" + "\n".join(f"  {clean(command)}" for command in following))
    return 0


def _sort_words(options: argparse.Namespace) -> None:
    """Without an action, the name and the URL stand one place earlier."""
    if options.action not in (None, *ACTIONS) and options.url is None:
        options.action, options.name, options.url = None, options.action, options.name
    if options.action not in (None, *ACTIONS) or (options.action is None and options.name in ACTIONS):
        raise UsageError("not a name and a URL", hint="skitter new [project|spider] NAME [URL]")
